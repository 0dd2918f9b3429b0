"""Asks that follow each other at once: what one of them entered is not what the next one sees."""

from __future__ import annotations

import pytest

from faultlab.lab.asks import FAILED, new_order
from tests.live.stacks import untouched


@pytest.mark.rotates(minutes=0.7)
def test_a_page_that_is_kept_has_no_order_of_the_ask_before() -> None:
    """The other month of the first one is the month of the second, and the page is kept for 2 s."""
    with untouched("stampede", "asks-stampede") as run:
        for number in (391, 600):
            assert FAILED not in run.stack.user().run(new_order().command([number]), 90).out
