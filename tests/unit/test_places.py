"""What users were told, as the checks of four labs count it."""

import sys
from pathlib import Path
from random import Random
from types import ModuleType

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.probes import places

RUSH = Path(__file__).parents[1] / "recorded/places/rush.txt"
BOOK = '{"restaurant":"Old Mill","tables":%d}'


def module_of(lab_id: str) -> ModuleType:
    """Return the module of a lab's check, which is no package's."""
    checks.load(lab := labs.load(lab_id))
    return sys.modules[f"faultlab_checks.faultlab_{checks.files(lab)[0].stem}"]


def test_only_the_place_of_the_book_counts() -> None:
    """The recorded rush: 160 guests with names of this seed, and 124 of them got their place."""
    dice = Random(1)
    names = [f"{dice.getrandbits(40):x}" for _ in range(160)]
    out = RUSH.read_text()
    assert places.right(out, names) == 124
    assert places.right(out, [name[::-1] for name in names]) == 0
    assert places.right(f"Guest {names[0]} has place 00000000.\n", names) == 0


def test_a_guest_is_told_the_old_number_and_in_the_end_the_new_one() -> None:
    old, new, other = (BOOK % tables for tables in (3, 7, 5))
    follow = module_of("php-workers").following
    assert follow([f"{old} {old} {new}", new, f"{old} {new}"], 3, 7) == 3
    assert follow([f"{old} {new}", old, f"{old} {other} {new}", "", "<html>"], 3, 7) == 1
    assert follow([f"{new} {new}", new], 3, 7) == 0  # a number that is always told


def test_a_basket_has_all_articles_that_were_shown() -> None:
    clicks = [("ada", 4), ("ben", 5), ("ada", 6), ("ada", 7)]
    complete = module_of("cache-connections").complete
    assert complete("ada 4\nben 5\nada 4 6\nada 4 6 7\n", clicks) == 4
    assert complete("ada 4\nada 4 6\nada 6 7\n", clicks) == 2
    assert complete("", clicks) == 0
