"""A trainer's papers: made from the labs, useful for each of them, and the same as the manual."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from faultlab.core import paths
from faultlab.core.terminal import Terminal
from faultlab.engine import cpu_slots
from faultlab.lab import loader as labs
from faultlab.workshop import guide, lessons, papers, parts, plan, size, slides
from faultlab.workshop.folder import Folder
from faultlab.workshop.journal import Event
from tests.unit.conftest import REPO, Project, Run
from tests.unit.served import planned

READY = REPO / "deploy/classes"
HALF, FULL = READY / "half-day.toml", READY / "full-day.toml"
MOST_WORDS, MOST_LINES = 150, 24  # of a slide


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the papers of half a day, without Docker."""
    to = tmp_path_factory.mktemp("papers")
    guide.write(Terminal(), str(HALF), str(to))
    return to


def test_the_papers_of_half_a_day(written: Path) -> None:
    assert sorted(file.name for file in written.iterdir()) == [
        *("1-together-the-port-answers.md", "2-lost-packets.md", "4-queues-and-ports.md"),
        *("5-blind-what-is-it.md", "README.md", "feedback.md", "prerequisites.md", "slides.md"),
    ]
    first = (written / "README.md").read_text()
    for target in re.findall(r"\]\(([^)]+)\)", first):
        assert (written / target).is_file(), target


def test_the_page_of_a_block_has_what_a_trainer_needs(written: Path) -> None:
    page = (written / "1-together-the-port-answers.md").read_text()
    lab = labs.load("mtu")
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    assert headings == [
        "1. Together: the port answers, the page never comes",
        "Timetable",
        f"`mtu`: {lab.title}",
        *("Objectives", "Say", "Expected answers", "Typical wrong turns"),
        *("Hints, when it is quiet", "Plan B", "Debrief"),
    ]
    assert "> Please find out who is right, and get us our page back." in page
    assert "test full-size packets in both directions" in page
    assert "| component | `web` |" in page and "| cause | `mtu` | an interface" in page
    assert "| web drops what it receives on eth0 | `web# netstat -i` |" in page
    assert "\nweb# ip link set dev eth0 mtu 1500\n" in page
    assert all(remedy.why in page for remedy in lab.cheat)
    told = [rung.text for rung in lab.hint if rung.when is None]
    for number, text in enumerate(told, 1):
        assert f"| {5 * number} min | {text} |" in page
    assert "**A login over a VPN works" in page and "with `ping -M do -s`" in page
    assert "](../" not in page and "<!--" not in page and "details" not in page


def test_the_page_of_a_draw_says_who_has_what(written: Path) -> None:
    page = (written / "5-blind-what-is-it.md").read_text()
    chosen, settled = parts.of_seats(plan.read(str(HALF)))
    assert not settled and "The class has not begun" in page
    for seat, its in enumerate(chosen, 1):
        truth = ", ".join(labs.load(its[-1]).truth.model_dump().values())
        assert f"| Seat {seat} | `{its[-1]}`: {truth} |" in page
    assert "none, none, none" in page


def test_a_class_that_has_begun_keeps_its_draws(project: Project, faultlab: Run) -> None:
    its = planned(labs=[], draw={"count": 1, "tier": "web"})
    file = project.root / "class.toml"
    file.write_text(
        'title = "Tuesday"\nseats = ["Ada", "Grace", "Linus"]\n[draw]\ncount = 1\ntier = "web"\n'
    )
    folder = Folder("class")
    folder.make()
    drawn = [["gzip"], ["healthy"], ["regex"]]
    folder.journal().add(Event.PLANNED, plan=its.model_dump(), labs=drawn)
    result = faultlab("class", "guide", str(file))
    assert max(map(len, result.out.splitlines())) <= 80
    result = faultlab("class", "guide", str(file), "--json")
    assert result.code == 0, result.err
    files = json.loads(result.out)["files"]
    assert {Path(name).parent for name in files} == {folder.path / "guide"}
    page = (folder.path / "guide/1-tuesday.md").read_text()
    assert "| Grace | `healthy`: none, none, none |" in page and "not begun" not in page


@pytest.mark.parametrize("lab_id", [*labs.ids(), "mtu+regex"])
def test_each_lab_makes_a_page_and_slides(lab_id: str) -> None:
    """A question, an answer, a rule and a hint of each lab; and nothing that overflows a slide."""
    its = planned(labs=[lab_id], blind=False)
    (part,) = parts.parts(its, [[lab_id]] * 3)
    page = guide.page(its, part, True, [])
    for each in part.each:
        assert lessons.rule(each.lesson) in page and lessons.causes(each.lesson)
        assert len([*lessons.questions(each.lesson)]) >= 2
        assert size.memory(each.id) > 0
    assert page.count("| 5 min |") == len(part.each)
    deck = slides.deck(its, [(part.heading, part.time, False, part.each)])
    for slide in deck.split("\n---\n")[2:]:
        assert len([word for word in slide.split() if word != ">"]) <= MOST_WORDS, slide
        assert len(slide.splitlines()) <= MOST_LINES, slide
        assert slide.count("```") % 2 == 0, slide
    drawn = parts.Part(1, "x", 0, 30, True, True, "", [[lab_id]] * 3)
    assert "| Grace |" in guide.page(its, drawn, True, [])


def test_the_slides_are_read_by_marp(written: Path) -> None:
    deck = (written / "slides.md").read_text()
    assert deck.startswith("---\nmarp: true\n")
    slides_ = deck.split("\n---\n")[1:]
    assert slides_[0].lstrip().startswith("# Web operations, half a day")
    heads = [re.search(r"^#+ .*", slide, re.MULTILINE) for slide in slides_]
    titles = [head[0] for head in heads if head]
    ticket, was = titles.index("## The ticket"), titles.index("## It was `mtu`")
    assert ticket < was and "mtu" not in slides_[ticket]


def test_prerequisites_and_feedback(written: Path) -> None:
    before = (written / "prerequisites.md").read_text()
    assert "lessons of `php-workers`" in before
    for seats in (12, 24, 64):
        assert re.search(rf"^\| {seats} \| \d+\.\d GB \| \d+\.\d GB \|", before, re.MULTILINE)
    assert "Measured, not computed" in before and "ready after 152 s, 877 MB" in before
    form = (written / "feedback.md").read_text()
    assert form.count("☐ ☐ ☐ ☐ ☐") == 4 and "Break" not in form


def test_memory_is_that_of_the_lessons() -> None:
    assert (size.memory("mtu"), size.memory("heap-oom"), size.memory("swap")) == (30, 512, 1280)
    assert size.memory("netem-loss") == size.memory("mtu"), "its page says: as mtu"
    assert size.memory("mtu+regex") == 30 + size.memory("regex")


def test_checks_of_load_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve checks of forty seconds are eight minutes for the last one."""
    monkeypatch.setattr(size, "_looks", lambda: {"somaxconn": [30.0, 40.0, 50.0]})
    seats = [f"Seat {n}" for n in range(12)]
    two = planned(seats=seats, labs=["mtu", "somaxconn"])
    (queue,) = size.queues(two, [["mtu", "somaxconn"]] * 12)
    assert queue.text == (
        "12 seats check somaxconn, which sends load, one at a time:"
        " 12 checks of 40 s, so 8 minutes for the last."
    )
    assert size.queues(two, [["mtu", "somaxconn"]] * 2) == [], "80 s are no reason to warn"
    mixed = [["gzip"], ["somaxconn"], *([["mtu"]] * 9), *([["somaxconn"]] * 4)]
    (queue,) = size.queues(two, mixed)
    assert (queue.lab, queue.seats, queue.last) == ("", 6, 240)
    monkeypatch.setattr(size, "_looks", dict)
    (queue,) = size.queues(two, [["somaxconn"]] * 12)
    assert queue.text.endswith("one at a time: no recorded walk says how long.")


def test_slots_of_cpus_shorten_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has its own machines, so the CPUs of this one say nothing of it."""
    monkeypatch.setattr(size, "_looks", lambda: {"somaxconn": [40.0]})
    monkeypatch.setattr(cpu_slots, "of_machine", lambda: ["0-1", "2-3", "4-5", "6-7", "8-9"])
    day = {"seats": [f"Seat {n}" for n in range(22)], "labs": ["somaxconn"]}
    (queue,) = size.queues(planned(**day), [["somaxconn"]] * 22)
    assert queue.text.endswith("5 at a time: 22 checks of 40 s, so 3.3 minutes for the last.")
    (queue,) = size.queues(planned(engine="kubernetes", **day), [["somaxconn"]] * 22)
    assert "one at a time" in queue.text
    assert size.of(planned(**day), [["somaxconn"]] * 22).ready == 22 * 2 * 40 / 5


def test_the_size_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = {"mtu": [5.0], "somaxconn": [10.0], "missing-index": [20.0]}
    monkeypatch.setattr(size, "_looks", lambda: looks)
    day = [{"title": t, "minutes": 9, "labs": [t]} for t in ("mtu", "missing-index", "somaxconn")]
    its = size.of(planned(labs=[], block=day), [["mtu", "missing-index", "somaxconn"]] * 4)
    assert its.memory == 4 * 265 + size.SPARE
    assert its.prepared == 4 * (265 + 30) + size.SPARE
    assert its.ready == 4 * 2 * 5 / 2, "two at a time"
    calm = size.of(planned(), [["somaxconn", "mtu"]] * 4)
    assert (calm.memory, calm.prepared, calm.ready) == (4 * 30 + size.SPARE,) * 2 + (80,)


def test_lint(faultlab: Run, tmp_path: Path) -> None:
    result = faultlab("class", "lint", str(FULL), "--seats", "64")
    assert result.code == 0 and max(map(len, result.out.splitlines())) <= 80
    said = " ".join(result.out.split())
    assert "12 seats: " in said and "64 seats: " in said and "computed from measured" in said
    assert 'Note: block 4 ("Queues and ports"): 12 seats check somaxconn' in said
    told = json.loads(faultlab("class", "lint", str(HALF), "--json").out)
    assert [its["seats"] for its in told["sizes"]] == [12]
    assert faultlab("class", "lint", str(HALF), "--seats", "65").code == 2
    (tmp_path / "x.toml").write_text(HALF.read_text().replace("minutes = 30", "minuten = 30", 1))
    result = faultlab("class", "lint", str(tmp_path / "x.toml"))
    assert result.code == 2 and "x.toml: block[0].minutes: missing key" in result.err


def test_the_manual_has_the_timetables_of_the_ready_classes() -> None:
    text = (REPO / "docs/workshop.md").read_text()
    half, full = plan.read(str(HALF)), plan.read(str(FULL))
    assert [*half.block] == full.block[: len(half.block)]
    assert "\n".join(papers.timetable(half)) in text
    assert "\n".join(papers.timetable(full)[2 + len(half.block) :]) in text
    for file in (HALF, FULL):
        assert paths.show(file) in text


def test_parts_of_a_lesson() -> None:
    lesson = (
        "# x\n\n## Cause\n\n- One. It has a second sentence, which says more than that:\n"
        "  - nested\n- Two [link](../x/README.md) and eleven more words, so that it says enough"
        " by itself. No.\n\n## On your servers\n\n**Rule:** when it\nrains, `go`.\n\nMore.\n\n"
        "## Questions\n\n1. Why\n   so?\n\n   <details><summary>Answer</summary>\n\n   Because.\n\n"
        "   </details>\n"
    )
    assert lessons.rule(lesson) == "When it rains, `go`."
    assert lessons.causes(lesson) == [
        "One. It has a second sentence, which says more than that.",
        "Two link and eleven more words, so that it says enough by itself.",
    ]
    assert [*lessons.questions(lesson)] == [("Why so?", "Because.")]
    assert lessons.section(lesson, "Symptom") == "" == lessons.rule("# x\n")
    assert lessons.short("a\nb", 9) == "a …" and lessons.short("abc", 3) == "abc"
