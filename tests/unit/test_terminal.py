"""The terminal of a person: 80 columns, readable without colour, a sign of life after 2 seconds."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from faultlab.core import events, terminal
from faultlab.core.errors import BadInput
from faultlab.core.terminal import Terminal, typable
from faultlab.lab.finding import Finding

LONG = "a measure with a name that says rather exactly what a user of the stack meets there"
FOUND = [
    Finding("p99 latency", 0.61449, "s", "at most 0.08 s (2 x healthy)", False),
    Finding("good requests", 8113.7, "/s", "at least 4056 /s (0.5 x healthy)", True),
]

Capture = pytest.CaptureFixture[str]


def test_findings_read_without_colour(capsys: Capture) -> None:
    Terminal().findings([finding.cells for finding in FOUND])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "     measured here    value  wanted",
        "NO   p99 latency    0.614 s  at most 0.08 s (2 x healthy)",
        "yes  good requests  8114 /s  at least 4056 /s (0.5 x healthy)",
    ]


def test_points_are_wrapped_under_their_first_word(capsys: Capture) -> None:
    Terminal().points(["A page [of 12] comes.", f"It says {LONG}."])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "- A page [of 12] comes.",
        "- It says a measure with a name that says rather exactly what a user of the",
        "  stack meets there.",
    ]


def test_a_name_in_brackets_is_no_markup(capsys: Capture) -> None:
    Terminal().findings([Finding("answers [5xx]", 3, "[ms]", "at most 0", False).cells])
    Terminal().table(("lab [x]",), [("[bold]mtu",)])
    out = capsys.readouterr().out
    assert "answers [5xx]" in out and "3 [ms]" in out
    assert "lab [x]" in out and "[bold]mtu" in out


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_nothing_is_wider_than_80_columns(
    columns: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    term = Terminal()
    term.say(f"{LONG}, {LONG}")
    term.heading(f"{LONG}, {LONG}")
    term.findings([Finding(LONG, 1, "s", f"at most {LONG}", False).cells])
    term.table(("lab", "what"), [("mtu", f"{LONG} {LONG}")])
    term.points([LONG, f"{LONG} {LONG}"])
    with term.step("symptom", LONG) as step:
        step.done(LONG)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("text", ["[red]x[/red]", "at 02:ab:cd, :x: and :100:", "a\\[b]"])
def test_text_is_printed_as_it_is(text: str, capsys: Capture) -> None:
    Terminal().say(text)
    Terminal().heading(text)
    Terminal().table(("x",), [(text,)])
    out = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert out == [text, text, "x", text]


def test_a_document_goes_into_a_pipe_as_it_is(capsys: Capture) -> None:
    document = f"# Lesson\n\n| a | {LONG} {LONG} |\n\n```console\nweb# {LONG} {LONG}\n```\n"
    Terminal().markdown(document)
    assert capsys.readouterr().out == document


def test_what_is_for_programs_is_left_out_of_a_document(capsys: Capture) -> None:
    made = "<!-- fix -->\n```\nx\n```\n<!-- end -->\n\nIn all 3 <!-- 3 = 1 + 2 -->\nlines.\n\n"
    asked = "1. Why?\n\n   <details><summary>Answer</summary>\n\n   So.\n\n   </details>\n"
    Terminal().markdown(made + asked)
    out = capsys.readouterr().out
    assert out.startswith("```\nx\n```\n\nIn all 3\nlines.\n\n1. Why?\n\n   *Answer:*\n\n   So.")
    assert "<" not in out


def test_a_step_is_one_line_with_its_seconds(capsys: Capture) -> None:
    with Terminal().step("stack", "starting") as step:
        step.note("web")
        step.done("up: client, web")
    out = capsys.readouterr().out
    assert out.startswith("stack     up: client, web  ")
    assert re.search(r" {3}\d+\.\d s\n$", out) and out.count("\n") == 1


def test_a_step_that_fails_leaves_no_result(capsys: Capture) -> None:
    with pytest.raises(RuntimeError), Terminal().step("stack", "starting"):
        raise RuntimeError
    assert capsys.readouterr().out == ""


def test_a_quick_step_beats_not(capsys: Capture) -> None:
    with Terminal().step("stack", "starting"):
        time.sleep(0.02)
    assert "so far" not in capsys.readouterr().out


def test_a_slow_step_shows_that_it_goes_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE", 0.05)
    monkeypatch.setattr(terminal, "_BEAT", 0.1)
    with Terminal().step("images", "looking") as step:
        step.note("image base: Step 3/9 : RUN apt-get update and much more than fits")
        time.sleep(0.3)
        step.done("ready")
    lines = capsys.readouterr().out.splitlines()
    beats = lines[:-1]
    assert 2 <= len(beats) <= 4
    assert beats[0].startswith("images    … image base: Step 3/9 : RUN apt-get update")
    assert all(line.endswith(" s so far") and len(line) <= 80 for line in beats)
    assert lines[-1].startswith("images    ready")


def test_json_is_alone_on_standard_output(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE", 0.01)
    term = Terminal(as_json=True)
    term.say("x")
    term.heading("x")
    term.markdown("x")
    term.findings([finding.cells for finding in FOUND])
    term.table(("x",), [("y",)])
    term.points(["x"])
    with term.step("stack", "starting"):
        time.sleep(0.05)
    term.json({"lab": "mtu", "text": "ü\n"})
    assert json.loads(capsys.readouterr().out) == {"lab": "mtu", "text": "ü\n"}


def test_without_json_no_object_is_printed(capsys: Capture) -> None:
    Terminal().json({"lab": "mtu"})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("hint", ["", "faultlab list"])
def test_a_problem_is_two_lines(hint: str, capsys: Capture) -> None:
    Terminal().problem(BadInput("It said:\n  one\n  two", hint))
    err = capsys.readouterr().err.splitlines()
    assert err == ["faultlab: It said: one two", *([f"  next: {hint}"] if hint else [])]


def test_events_are_a_line_each(capsys: Capture) -> None:
    term = Terminal(as_events=True)
    term.heading("x")
    with term.step("stack", "starting") as step:
        step.note("web")
        step.note("web")
        step.done("up")
    with pytest.raises(RuntimeError), term.alive("inject", "setting it up"):
        raise RuntimeError
    term.json({"text": "ü\n"})
    term.problem(BadInput("No.", "faultlab list"))
    told = [events.read(line) for line in capsys.readouterr().out.splitlines()]
    steps = [(e.event, e.name, e.text) for e in told if isinstance(e, events.Step)]
    assert steps == [
        ("begin", "stack", "starting"),
        ("doing", "stack", "web"),
        ("step", "stack", "up"),
        ("begin", "inject", "setting it up"),
    ]
    assert told[4:] == [events.Result({"text": "ü\n"}), events.Error("No.", "faultlab list", 2)]


def test_a_hint_can_be_typed_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/bin")
    assert typable("make lab-mtu") == "make lab-mtu"
    assert typable("faultlab list") == ".venv/bin/faultlab list"
    monkeypatch.chdir(tmp_path)
    root = Path(__file__).parents[2]
    assert typable("make lab-mtu") == f"make -C {root} lab-mtu"
    assert typable("faultlab list") == f"{root}/.venv/bin/faultlab list"
    assert typable("docker start x") == "docker start x"
