"""What users ask a service for, and whether the answers are those of a healthy one."""

from __future__ import annotations

import re
import subprocess
from typing import Any
from urllib.parse import urlsplit

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import asks, checks
from faultlab.lab import loader as labs
from faultlab.lab.asks import Ask, page, said
from faultlab.lab.check import Check
from faultlab.lab.reading import Reading
from faultlab.probes import answers
from tests.unit.conftest import REPO, Printing, recorded

CHECK = Check(look=lambda _: 1.0, inspect=lambda _: 1.0, symptom=())


def reading(**said: list[str]) -> Reading[float, float]:
    return Reading(1.0, answers=said)


def findings(now: Reading[Any, Any], healthy: Reading[Any, Any]) -> list[tuple[float, bool]]:
    return [(found.value, found.holds) for found in CHECK.good(now, healthy)]


def test_the_same_answers_are_right() -> None:
    assert findings(reading(page=["a", "b"]), reading(page=["a", "b"])) == [(100, True)]


@pytest.mark.parametrize(
    ("now", "share"),
    [(["a", "x"], 50), (["failed 403 0", "failed 403 0"], 0), (["a"], 50), (["b", "a"], 0)],
)
def test_other_answers_are_wrong(now: list[str], share: float) -> None:
    (found,) = CHECK.good(reading(page=now), reading(page=["a", "b"]))
    assert (found.value, found.holds) == (share, share == 100)
    assert found.says.startswith("page: ")


def test_an_answer_that_always_failed_is_not_right() -> None:
    """Or a service that never works would look as it did while it was healthy."""
    failed = reading(page=["failed 502 0"])
    assert findings(failed, failed) == [(0, False)]


def test_a_phase_that_was_not_asked_has_no_finding() -> None:
    assert findings(reading(), reading(page=["a"])) == []
    assert findings(reading(page=["a"]), reading()) == [(0, False)]


def test_what_a_user_prints_is_kept() -> None:
    user = Printing(recorded("answers/mtu"))
    (found,) = answers.read(user, page("http://web/"), "run").values()
    assert len(found) == 20
    assert set(found) == {"48bdcd2e9d7ffafd", "failed 000 28"}
    (found,) = answers.read(Printing(recorded("answers/forbidden")), page("x"), "run").values()
    assert found == ["failed 403 0"] * 20
    assert answers.read(Printing(""), page("http://web/"), "run") == {"http://web/": ["failed"]}


def test_the_numbers_in_an_ask_are_others_in_each_run_and_each_set() -> None:
    ask = page("http://app/?customer={n}", times=3, most=1000)

    def typed(seed: str, number: int) -> list[str]:
        user = Printing("")
        answers.read(user, ask, seed, number)
        return user.typed

    assert typed("a", 0) == typed("a", 0)
    assert typed("a", 0) != typed("b", 0) != typed("b", 1) != typed("b", 2)


def test_an_ask_without_numbers_has_one_set() -> None:
    assert len(said("it", "date {n}").sets) == len(page("http://web/").sets) == 3
    assert len(said("it", "date").sets) == 1


def test_each_set_of_answers_is_judged_by_the_same_set_of_the_healthy_phase() -> None:
    ask = page("http://web/")
    healthy: Reading[float, float] = Reading(
        1.0, answers={ask.named(0): ["a"], ask.named(2): ["b"]}
    )
    (found,) = CHECK.good(Reading(1.0, answers={ask.named(2): ["b"]}), healthy)
    assert (found.name, found.holds) == ("http://web/: right answers", True)
    (found,) = CHECK.good(Reading(1.0, answers={ask.named(2): ["a"]}), healthy)
    assert (found.name, found.holds) == ("http://web/: right answers", False)


def test_requests_are_of_every_size_that_fits_a_tiny_packet() -> None:
    """And of a browser's: both kinds meet another fate at an MTU that is too small."""
    typed = page("http://web/").command(range(20))
    # Of each 24 bytes one is drawn, here the first numbers; the last request fills one segment.
    sizes = [*(24 * i + i for i in range(9)), 210]
    assert [f'"X: {"x" * size}"' in typed for size in sizes] == [True] * 10
    assert typed.count("Mozilla") == 10


def test_a_request_for_many_pages_is_one_argument_of_a_command() -> None:
    """The kernel takes at most 128 KiB (execve(2))."""
    assert len(page("http://web/place.php", times=150).command(range(150))) < 96 << 10


def test_the_words_of_a_command_are_quoted() -> None:
    assert (
        said("it", "echo 'a b'")
        .command([1])
        .startswith("timeout 25 bash -c 'set -o pipefail; (echo '")
    )


def test_an_ask_that_does_not_end_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that keeps its users waiting is no reason to know nothing."""
    monkeypatch.setattr(asks, "GRACE", 0.3)
    command = said("it", "echo begun; sleep 60", seconds=0).command([1])
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    assert done.stdout == "failed\n"


def test_no_check_runs_a_program_of_a_machine_that_learners_have() -> None:
    """All machines and daemons are theirs: checks look as users, and read from beside.

    One inspection runs the resolver of web, because that is what its evidence is about.
    """
    found = {
        (file.name, command)
        for file in sorted((REPO / "checks").glob("test_*.py"))
        for command in re.findall(
            r"""(?:stack|at)\[["'][a-z0-9-]+["']\][.](?:run|must)\b""", file.read_text()
        )
    }
    assert found == {("test_dead_resolver.py", 'stack["web"].run')}


def test_the_pages_of_the_users_with_their_limits() -> None:
    """The longest of a page that is asked for twice; not the pages that other users ask for."""
    every = (
        page("http://web/?n={n}", seconds=1.5),
        page("http://web/?n={n}", seconds=10),
        page("http://web/from-elsewhere", at="crowd"),
        said("no page", "true"),
    )
    assert asks.limits(every) == {"http://web/?n=1": 10}


@pytest.mark.parametrize("lab_id", labs.ids())
def test_each_page_in_the_list_is_of_a_daemon_that_is_up(lab_id: str) -> None:
    """A prober that asked certificate for a .php got 502, also while nothing was wrong."""
    lab = labs.load(lab_id)
    for url in asks.limits(checks.load(lab).asks):
        its = urlsplit(url)
        at = lab.services.daemons
        assert its.hostname in {at[daemon] for daemon in lab.daemons}
        assert "php-fpm" in lab.daemons or not its.path.endswith(".php")
        assert "tomcat" in lab.daemons or not its.path.endswith(".jsp")
        if its.scheme == "https":
            known = [each["services"].get("client", {}) for each in lab.services.used(lab.daemons)]
            mounted = {volume for each in known for volume in each.get("volumes", [])}
            assert "trusted:/usr/local/share/ca-certificates" in mounted  # as the manual says


@pytest.mark.parametrize("lab_id", labs.ids())
def test_every_lab_asks_its_service(lab_id: str) -> None:
    asks = checks.load(labs.load(lab_id)).asks
    assert asks and all(isinstance(ask, Ask) for ask in asks)
    assert len({ask.name for ask in asks}) == len(asks)


def test_answers_come_back_from_a_record() -> None:
    check = checks.load(labs.load("mtu"))
    with pytest.raises(BadInput):
        check.load({"answers": {}})
