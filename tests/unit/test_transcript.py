"""Transcripts in documents: found, rewritten by a run, shortened, and left alone otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultlab.lab import loader as labs
from faultlab.run import inject
from faultlab.verify import transcript

LESSON = """\
# Lesson

<!-- transcript: healthy -->
```console
client# curl -sI web
old output
$ docker ps
```

Some words, and a block of another kind:

```console
web# rm -rf /
```

<!-- transcript: faulty, run 20260101-000000-mtu-abcd -->
```console
web# ip link | grep mtu
2: eth0: mtu 100
```
The end.
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    file = tmp_path / "README.md"
    file.write_text(LESSON)
    return file


def test_blocks_are_found() -> None:
    assert transcript.blocks(LESSON) == [
        ("healthy", "", "client# curl -sI web\nold output\n$ docker ps\n"),
        ("faulty", "20260101-000000-mtu-abcd", "web# ip link | grep mtu\n2: eth0: mtu 100\n"),
    ]


def test_of_several_faults_each_is_shown_when_those_before_it_are_gone() -> None:
    expected = ["healthy", "faulty", "fixed1", "fixed2", "fixed"]
    assert transcript.phases(labs.load("packet-loss")) == expected
    assert transcript.phases(labs.load("mtu")) == ["healthy", "faulty", "fixed"]


@pytest.mark.parametrize("lab_id", labs.ids())
def test_a_lesson_shows_phases_that_its_lab_has(lab_id: str) -> None:
    lab = labs.load(lab_id)
    shown = {phase for phase, _run, _body in transcript.blocks(lab.lesson)}
    assert shown <= set(transcript.phases(lab))


def test_a_phase_is_rewritten_and_nothing_else(lesson: Path) -> None:
    ran: list[tuple[str, str]] = []

    def execute(place: str, command: str) -> str:
        ran.append((place, command))
        return f"output of {command}  \n\n"

    transcript._rewrite(lesson, {"healthy": "run-1"}, execute)
    assert ran == [("client#", "curl -sI web"), ("$", "docker ps")]
    old, new = LESSON.split("Some words"), lesson.read_text().split("Some words")
    assert new[1] == old[1]
    assert new[0] == (
        "# Lesson\n\n<!-- transcript: healthy, run run-1 -->\n```console\n"
        "client# curl -sI web\noutput of curl -sI web\n$ docker ps\noutput of docker ps\n```\n\n"
    )


def test_recording_again_changes_only_the_run(lesson: Path) -> None:
    for number in (1, 2):
        transcript._rewrite(lesson, {"healthy": f"run-{number}"}, lambda _at, c: f"{c}: \\1 \\g<0>")
        if number == 1:
            once = lesson.read_text()
    assert lesson.read_text() == once.replace("run-1", "run-2")


def test_no_output_leaves_the_command_alone(lesson: Path) -> None:
    transcript._rewrite(lesson, {"faulty": "r"}, lambda *_: "")
    assert transcript.blocks(lesson.read_text())[1] == ("faulty", "r", "web# ip link | grep mtu\n")


def test_a_command_that_fails_leaves_the_file_as_it_was(lesson: Path) -> None:
    def execute(place: str, _command: str) -> str:
        if place == "$":
            raise OSError
        return "new"

    with pytest.raises(OSError):
        transcript._rewrite(lesson, {"healthy": "r"}, execute)
    assert lesson.read_text() == LESSON


@pytest.mark.parametrize("place", ["web#", "php-fpm#", "web2#", "app-1#", "$"])
def test_every_name_of_a_machine_can_prompt(place: str, tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text(f"<!-- transcript: faulty -->\n```console\n{place} date\n```\n")
    transcript._rewrite(file, {"faulty": "r"}, lambda *_: "noon")
    assert transcript.blocks(file.read_text()) == [("faulty", "r", f"{place} date\nnoon\n")]


def test_output_that_ends_the_block_early_does_not_eat_the_document(lesson: Path) -> None:
    transcript._rewrite(lesson, {"faulty": "r"}, lambda *_: "before\n```\nafter")
    transcript._rewrite(lesson, {"faulty": "s"}, lambda *_: "short")
    text = lesson.read_text()
    assert "after" not in text and text.endswith("The end.\n")


def test_a_command_on_the_host_names_one_stack() -> None:
    """Another user's container has the same service, so a lesson says `…-tomcat`."""
    text = "On the host:\n\n   $ docker restart …-tomcat …-mysql\nweb# ls …-tomcat\n"
    told = inject.typable(text, "faultlab-ada-heap-oom")
    assert "$ docker restart faultlab-ada-heap-oom-tomcat faultlab-ada-heap-oom-mysql\n" in told
    assert "web# ls …-tomcat" in told
    lessons = [line for lab_id in labs.ids() for line in labs.load(lab_id).lesson.splitlines()]
    assert [line for line in lessons if "$ docker" in line and "label=" in line] == []


@pytest.mark.parametrize("lines", [0, 1, 24])
def test_what_fits_is_whole(lines: int) -> None:
    text = "".join(f"line {i}\n" for i in range(lines))
    assert transcript._shorten(text) == text


def test_what_is_too_long_keeps_both_ends() -> None:
    short = transcript._shorten("\n".join(f"line {i}   " for i in range(100))).splitlines()
    assert len(short) == 24
    assert short[:2] == ["line 0", "line 1"]
    assert short[18:] == ["line 18", "…", "line 96", "line 97", "line 98", "line 99"]
