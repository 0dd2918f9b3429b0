"""Command line: every verb, its help with examples, and the exit codes."""

from __future__ import annotations

import argparse
import locale
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from faultlab import __version__
from faultlab.core import defaults
from faultlab.core.errors import BadInput, CannotRun, Problem
from faultlab.core.later import Later
from faultlab.core.terminal import Terminal

if TYPE_CHECKING:
    from faultlab.admin import bundle, doctor, status
    from faultlab.engine import boot
    from faultlab.learn import hints, learner, mystery, several
    from faultlab.observe import flame, watch
    from faultlab.observe.use import table as use
    from faultlab.report import catalogue, history, index, judge, page, plot, references_page
    from faultlab.score import exam, recording, scorecard
    from faultlab.score import page as score_page
    from faultlab.score import tool as tools
    from faultlab.verify import matrix, reliability_page, transcript, verify
    from faultlab.workshop import verbs as workshop
else:  # a verb imports what it needs when it is typed
    bundle = Later("faultlab.admin.bundle")
    doctor = Later("faultlab.admin.doctor")
    status = Later("faultlab.admin.status")
    boot = Later("faultlab.engine.boot")
    hints = Later("faultlab.learn.hints")
    learner = Later("faultlab.learn.learner")
    mystery = Later("faultlab.learn.mystery")
    several = Later("faultlab.learn.several")
    flame = Later("faultlab.observe.flame")
    watch = Later("faultlab.observe.watch")
    use = Later("faultlab.observe.use.table")
    catalogue = Later("faultlab.report.catalogue")
    history = Later("faultlab.report.history")
    index = Later("faultlab.report.index")
    judge = Later("faultlab.report.judge")
    page = Later("faultlab.report.page")
    plot = Later("faultlab.report.plot")
    references_page = Later("faultlab.report.references_page")
    exam = Later("faultlab.score.exam")
    recording = Later("faultlab.score.recording")
    scorecard = Later("faultlab.score.scorecard")
    score_page = Later("faultlab.score.page")
    tools = Later("faultlab.score.tool")
    matrix = Later("faultlab.verify.matrix")
    reliability_page = Later("faultlab.verify.reliability_page")
    transcript = Later("faultlab.verify.transcript")
    verify = Later("faultlab.verify.verify")
    workshop = Later("faultlab.workshop.verbs")

_EXITS = """\
exit codes:
  0  pass      1  the system under test said no
  2  usage or bad input      3  unknown, or cannot run here
"""

Act = Callable[[Terminal, argparse.Namespace], None]


@dataclass(frozen=True)
class Verb:
    """One command: what it does, its arguments, and examples for its help."""

    does: str
    act: Act
    examples: tuple[str, ...]
    lab: bool = False
    options: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = field(default=())


def _option(*names: str, **facts: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, facts


_ENGINE = _option(
    "--engine",
    choices=defaults.WANTED,
    default="auto",
    help="where it runs; auto: here if it can (auto)",
)


def _tools(a: argparse.Namespace) -> list[str]:
    return [*a.tools, *(tools.ids() if a.all else [])]


def _class(term: Terminal, a: argparse.Namespace) -> None:
    match a.action:
        case "start":
            workshop.start(
                term,
                a.file,
                listen=a.listen,
                port=a.port,
                names=a.name,
                cert=a.cert,
                key=a.key,
            )
        case "status":
            workshop.status(term, a.file)
        case "end":
            workshop.end(term, a.file)
        case "export":
            workshop.write(term, a.file, a.to)


def _start(term: Terminal, a: argparse.Namespace) -> None:
    if len(set(a.lab)) > 1:
        several.start(term, a.lab, a.engine, a.blind)
    else:
        learner.start(term, a.lab[0], a.engine, a.blind)


def _vm(term: Terminal, a: argparse.Namespace) -> None:
    match a.action:
        case "up":
            boot.up(term)
        case "down":
            boot.down(term)
        case "ssh":
            boot.ssh(term)
        case "status":
            boot.status(term)
        case "reset":
            boot.reset(term)


VERBS: dict[str, Verb] = {
    "start": Verb(
        "bring a lab up, prove its symptom, print the ticket; or several side by side",
        _start,
        (
            "faultlab start mtu",
            "faultlab start mtu somaxconn gzip",
            "faultlab start mtu --engine vm",
            "faultlab start mtu --blind",
        ),
        options=(
            _option("lab", nargs="+", metavar="LAB", help="a lab of `faultlab list`, or several"),
            _option("--blind", action="store_true", help="as a mystery, for somebody else"),
            _ENGINE,
        ),
    ),
    "shell": Verb(
        "log in to a machine of a lab that is up",
        lambda term, a: learner.shell(a.lab, a.machine),
        ("faultlab shell mtu", "faultlab shell mtu web"),
        lab=True,
        options=(
            _option("machine", nargs="?", default="client", help="machine or daemon (client)"),
        ),
    ),
    "use": Verb(
        "utilisation, saturation and errors of its resources, read now",
        lambda term, a: use.show(term, a.lab, a.machine, a.seconds),
        ("faultlab use mtu", "faultlab use mtu web --seconds 5", "faultlab use mtu --json"),
        lab=True,
        options=(
            _option("machine", nargs="?", metavar="MACHINE", help="only this machine (all)"),
            _option("--seconds", type=float, default=2.0, metavar="N", help="to watch (2)"),
        ),
    ),
    "hint": Verb(
        "the next rung of the hint ladder",
        lambda term, a: hints.hint(term, a.lab),
        ("faultlab hint mtu",),
        lab=True,
    ),
    "check": Verb(
        "is it fixed? measures the symptom as it is now",
        lambda term, a: learner.check(term, a.lab),
        ("faultlab check mtu", "faultlab check mtu --json"),
        lab=True,
    ),
    "fix": Verb(
        "apply the documented fix",
        lambda term, a: learner.fix(term, a.lab, a.stage),
        ("faultlab fix mtu", "faultlab fix packet-loss 2"),
        lab=True,
        options=(_option("stage", nargs="?", type=int, help="only this of several faults (all)"),),
    ),
    "flame": Verb(
        "where its time goes, drawn as a flame graph",
        lambda term, a: flame.flame(
            term, a.lab, a.seconds, load=not a.no_load, mode="off" if a.off_cpu else "on"
        ),
        (
            "faultlab flame port-range",
            "faultlab flame port-range --seconds 10",
            "faultlab flame port-range --off-cpu",
            "faultlab flame port-range --no-load --json",
        ),
        lab=True,
        options=(
            _option(
                "--seconds", type=int, metavar="N", help="at least so long, 1 to 60 (one look)"
            ),
            _option("--off-cpu", action="store_true", help="where it waits instead"),
            _option("--no-load", action="store_true", help="you make the load (for 10 s)"),
        ),
    ),
    "watch": Verb(
        "the few numbers that matter for it, live (a strong hint)",
        lambda term, a: watch.watch(term, a.lab, a.seconds, a.load),
        (
            "faultlab watch mtu",
            "faultlab watch mtu --load",
            "faultlab watch mtu --seconds 5 --json",
        ),
        lab=True,
        options=(
            _option("--seconds", type=float, metavar="N", help="for so long (until Ctrl-C)"),
            _option("--load", action="store_true", help="make the lab's own load meanwhile"),
        ),
    ),
    "debrief": Verb(
        "the lesson; of a mystery, what it was and what your answer is worth",
        lambda term, a: (
            mystery.debrief(term, a.give_up)
            if a.lab == defaults.MYSTERY
            else learner.debrief(term, a.lab)
        ),
        ("faultlab debrief mtu", "faultlab debrief mystery --give-up"),
        lab=True,
        options=(_option("--give-up", action="store_true", help="a mystery: say what it was"),),
    ),
    "mystery": Verb(
        "start a lab that is drawn, and does not say which it is",
        lambda term, a: mystery.start(term, a.seed, a.tier, a.level, a.engine),
        ("faultlab mystery", "faultlab mystery --tier web --level 3", "faultlab mystery --seed 7"),
        options=(
            _option("--seed", type=int, metavar="S", help="the same draw again (by chance)"),
            _option("--tier", metavar="TIER", help="web, app or data (all)"),
            _option("--level", type=int, metavar="N", help="of this level or below, 1 to 5 (5)"),
            _ENGINE,
        ),
    ),
    "diagnose": Verb(
        "say what is wrong in the mystery that is up, in the words of `terms`",
        lambda term, a: mystery.diagnose(term, a.component, a.resource, a.cause),
        (
            "faultlab diagnose --component web --resource network --cause mtu",
            "faultlab diagnose --component none --resource none --cause none",
        ),
        options=tuple(
            _option(f"--{part}", required=True, metavar="WORD", help=f"{part}, or none")
            for part in ("component", "resource", "cause")
        ),
    ),
    "reset": Verb(
        "back to the injected state",
        lambda term, a: learner.reset(term, a.lab, a.engine),
        ("faultlab reset mtu",),
        lab=True,
        options=(_ENGINE,),
    ),
    "down": Verb(
        "remove a lab",
        lambda term, a: learner.down(term, a.lab),
        ("faultlab down mtu",),
        lab=True,
    ),
    "class": Verb(
        "a workshop: seats with labs of their own, and a page for everybody",
        _class,
        (
            "faultlab class start class.toml",
            "faultlab class start class.toml --listen 0.0.0.0",
            "faultlab class status class.toml",
            "faultlab class export class.toml --to results.csv",
            "faultlab class end class.toml",
        ),
        options=(
            _option("action", choices=("start", "status", "end", "export")),
            _option(
                "file", nargs="?", default=defaults.CLASS_FILE, help="who and what (%(default)s)"
            ),
            _option(
                "--listen", metavar="ADDR", default=defaults.LOOPBACK, help="with TLS (loopback)"
            ),
            _option(
                "--port", type=int, default=defaults.CLASS_PORT, metavar="N", help="(%(default)s)"
            ),
            _option("--name", action="append", default=[], help="of this machine in links"),
            _option("--cert", metavar="FILE", help="certificate (one of its own)"),
            _option("--key", metavar="FILE", help="and its key"),
            _option("--to", metavar="FILE", help="export: .csv, .json or .html (all three)"),
        ),
    ),
    "verify": Verb(
        "run the whole contract of labs, judged by pytest",
        lambda term, a: verify.verify(
            term,
            a.labs,
            everything=a.all,
            jobs=a.jobs,
            repeat=a.repeat,
            json_file=a.json_file,
            junit_file=a.junit,
            wanted=a.engine,
            quick=a.quick,
        ),
        (
            "faultlab verify mtu somaxconn",
            "faultlab verify --all --quick --jobs 2",
            "faultlab verify --all --repeat 3 --json result.json",
            "faultlab verify --all --junit result.xml",
        ),
        options=(
            _option("labs", nargs="*", metavar="LAB", help="labs to verify"),
            _option("--all", action="store_true", help="every lab"),
            _option("--jobs", type=int, default=1, metavar="N", help="labs side by side (1)"),
            _option("--quick", action="store_true", help="fix, one cheat, and what is next"),
            _option("--repeat", type=int, default=1, metavar="N", help="times each (1)"),
            _option(
                "--json",
                dest="json_file",
                metavar="FILE",
                help="where cases are kept; what was cut off goes on",
            ),
            _option("--junit", metavar="FILE", help="write the result as JUnit XML"),
            _ENGINE,
        ),
    ),
    "matrix": Verb(
        "look for the evidence of every lab in every other one",
        lambda term, a: (
            matrix.again(term) if a.recorded else matrix.show(term, a.labs, a.all, a.engine)
        ),
        (
            "faultlab matrix mtu iptables-drop",
            "faultlab matrix --all --json",
            "faultlab matrix --recorded",
        ),
        options=(
            _option("labs", nargs="*", metavar="LAB", help="labs to run"),
            _option("--all", action="store_true", help="every lab"),
            _option("--recorded", action="store_true", help="newest recorded rows; run nothing"),
            _ENGINE,
        ),
    ),
    "score": Verb(
        "examine diagnostic tools: what they catch, name, miss and cry about",
        lambda term, a: (
            exam.replay(term, _tools(a), a.bundle, a.json_file)
            if a.bundle
            else exam.score(
                term,
                _tools(a),
                a.labs,
                repeat=a.repeat,
                seed=a.seed,
                json_file=a.json_file,
            )
        ),
        (
            "faultlab score ss-rules tshark --labs mtu,healthy",
            "faultlab score --all --repeat 3 --json result.json",
            "faultlab score ./my-tool --labs mtu,iptables-drop",
            "faultlab score tshark --from mtu.bundle.tar.gz",
        ),
        options=(
            _option("tools", nargs="*", metavar="TOOL", help="a folder of tools/, or any (./NAME)"),
            _option("--all", action="store_true", help="every folder of tools/"),
            _option(
                "--labs",
                metavar="LAB,LAB",
                type=lambda text: text.split(","),
                default=[],
                help="on these only (all that run here)",
            ),
            _option("--repeat", type=int, default=1, metavar="N", help="times each (1)"),
            _option("--seed", type=int, default=0, metavar="S", help="of the random order (0)"),
            _option(
                "--from",
                dest="bundle",
                metavar="BUNDLE",
                help="a recorded lab, in place of live ones",
            ),
            _option(
                "--json",
                dest="json_file",
                metavar="FILE",
                help="where trials are kept; one that is there goes on (runs/score.json)",
            ),
        ),
    ),
    "record": Verb(
        "write what a lab leaves in counters, logs and captures into one file",
        lambda term, a: recording.record(term, a.lab, a.out, a.engine),
        ("faultlab record mtu", "faultlab record conntrack --out /tmp/conntrack.tar.gz"),
        lab=True,
        options=(
            _option("--out", metavar="FILE", help="where to (LAB.bundle.tar.gz)"),
            _ENGINE,
        ),
    ),
    "scorecard": Verb(
        "the figures of a score that was made, of several together",
        lambda term, a: (
            score_page.write(term, scorecard.together(a.files), a.page)
            if a.page
            else scorecard.scorecard(term, a.files, a.markdown)
        ),
        (
            "faultlab scorecard runs/score.json",
            "faultlab scorecard docs/score.json --page runs/scorecard.html",
        ),
        options=(
            _option("files", nargs="+", metavar="FILE", help="what `faultlab score --json` wrote"),
            _option("--markdown", action="store_true", help="as it stands in docs/scorecard.md"),
            _option("--page", metavar="HTML", help="write it as a page for a browser"),
        ),
    ),
    "terms": Verb(
        "the causes, components and resources that a diagnosis can name",
        lambda term, a: catalogue.terms(term),
        ("faultlab terms", "faultlab terms --json"),
    ),
    "origins": Verb(
        "measured figures beside those of the documents of origin, and beside the limits",
        lambda term, a: references_page.show(term, a.labs, markdown=a.markdown, picture=a.picture),
        ("faultlab origins", "faultlab origins conntrack", "faultlab origins --markdown"),
        options=(
            _option("labs", nargs="*", metavar="LAB", help="only these labs"),
            _option("--markdown", action="store_true", help="as it stands in docs/origins.md"),
            _option("--picture", metavar="FILE", help="draw cases that follow each other, as SVG"),
        ),
    ),
    "reliability": Verb(
        "how often each lab passes, and how far its measures keep from their limits",
        lambda term, a: reliability_page.show(
            term, a.files, markdown=a.markdown, collect=a.collect
        ),
        (
            "faultlab reliability",
            "faultlab reliability runs/campaign.json",
            "faultlab reliability runs/campaign.json --collect docs/reliability.json",
            "faultlab reliability --markdown docs/reliability.json",
        ),
        options=(
            _option(
                "files",
                nargs="*",
                metavar="FILE",
                help=f"what `faultlab verify --json` or --collect wrote ({defaults.RELIABILITY})",
            ),
            _option("--markdown", action="store_true", help="as it stands in docs/reliability.md"),
            _option("--collect", metavar="INTO", help="add their walks to this file"),
        ),
    ),
    "runs": Verb(
        "the runs that are recorded, the newest first",
        lambda term, a: history.runs(term, a.lab, a.last),
        ("faultlab runs", "faultlab runs mtu --last 5", "faultlab runs --json"),
        options=(
            _option("lab", nargs="?", metavar="LAB", help="only of this lab (all)"),
            _option("--last", type=int, default=20, metavar="N", help="how many (20)"),
        ),
    ),
    "show": Verb(
        "the story of a recorded run: what happened, what was measured (a spoiler)",
        lambda term, a: history.show(term, a.run),
        ("faultlab show 20261121-205240-temp-tables-ccfd",),
        options=(_option("run", metavar="RUN", help="a run of `faultlab runs`"),),
    ),
    "judge": Verb(
        "judge a recorded run by today's limits, without Docker",
        lambda term, a: judge.judge(term, a.run),
        ("faultlab judge 20261121-205240-temp-tables-ccfd",),
        options=(_option("run", metavar="RUN", help="a run of `faultlab runs`"),),
    ),
    "report": Verb(
        "a page about a run, or about all of them, for a browser (a spoiler)",
        lambda term, a: index.show(term) if a.all else page.show(term, a.run),
        ("faultlab report", "faultlab report --all"),
        options=(
            _option("run", nargs="?", metavar="RUN", help="a run of `faultlab runs` (the newest)"),
            _option("--all", action="store_true", help="the catalogue with every lab's runs"),
        ),
    ),
    "plot": Verb(
        "draw what a run measured under a growing load, as SVG (a spoiler)",
        lambda term, a: plot.draw(term, a.run, a.to),
        ("faultlab plot bandwidth", "faultlab plot bandwidth --to picture.svg"),
        options=(
            _option("run", metavar="RUN|LAB", help="a run, or a lab: its newest with a sweep"),
            _option("--to", metavar="FILE", help="where to (runs/RUN/sweep.svg)"),
        ),
    ),
    "list": Verb(
        "the catalogue",
        lambda term, a: catalogue.show(term, markdown=a.markdown),
        ("faultlab list", "faultlab list --json"),
        options=(_option("--markdown", action="store_true", help="as the table of the README"),),
    ),
    "doctor": Verb(
        "what runs here, by trying",
        lambda term, a: doctor.show(term, a.labs),
        ("faultlab doctor", "faultlab doctor mtu"),
        options=(_option("labs", nargs="*", metavar="LAB", help="only these labs"),),
    ),
    "status": Verb(
        "what of ours is up, read from Docker and the kernel",
        lambda term, a: status.show(term, spoil=a.spoil),
        ("faultlab status", "faultlab status --spoil"),
        options=(
            _option("--spoil", action="store_true", help="also what differs from a new machine"),
        ),
    ),
    "sweep": Verb(
        "remove everything of ours",
        lambda term, a: status.sweep(term, images_too=a.images),
        ("faultlab sweep", "faultlab sweep --images"),
        options=(_option("--images", action="store_true", help="the images and the box as well"),),
    ),
    "bundle": Verb(
        "write all that a machine without a network needs into one file",
        lambda term, a: bundle.bundle(term, a.out, vm=not a.no_vm),
        ("faultlab bundle", "faultlab bundle --out /media/usb/faultlab.bundle.tar --no-vm"),
        options=(
            _option("--out", metavar="FILE", default=defaults.BUNDLE, help="(%(default)s)"),
            _option("--no-vm", action="store_true", help="without the lab VM: 1 GB less"),
        ),
    ),
    "images": Verb(
        "build the images that are missing",
        lambda term, a: doctor.images(term),
        ("faultlab images",),
    ),
    "vm": Verb(
        "the lab VM, for faults of a whole kernel",
        _vm,
        ("faultlab vm up", "faultlab vm status", "faultlab vm ssh", "faultlab vm down"),
        options=(_option("action", choices=("up", "down", "ssh", "status", "reset")),),
    ),
    "transcript": Verb(
        "for authors: run a lab and record the transcripts of its lesson",
        lambda term, a: transcript.record(term, a.lab),
        ("faultlab transcript mtu",),
        lab=True,
    ),
}


def _has_own_json(verb: Verb) -> bool:
    """Does its `--json` take a file?"""
    return any("--json" in names for names, _ in verb.options)


class _Parser(argparse.ArgumentParser):
    """argparse, with our way to say an error: one line, the next command, exit 2."""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"argument COMMAND: invalid choice: ('[^']*')", message)
        if unknown:
            message = f"there is no command {unknown[1]}"
        raise BadInput(message[0].upper() + message[1:] + ".", f"{self.prog} --help")


@cache
def parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    shape = argparse.RawDescriptionHelpFormatter
    top = _Parser(
        prog="faultlab",
        description="One documented failure in a real stack, proven by measurement.",
        epilog="examples:\n  faultlab list\n  faultlab start mtu\n  faultlab check mtu\n"
        f"  faultlab down mtu\n\n{_EXITS}",
        formatter_class=shape,
    )
    top.add_argument("--version", action="version", version=f"faultlab {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, verb in VERBS.items():
        lines = "\n".join(f"  {example}" for example in verb.examples)
        sub = verbs.add_parser(
            name,
            help=verb.does,
            description=f"{verb.does[0].upper()}{verb.does[1:]}.",
            epilog=f"examples:\n{lines}\n\n{_EXITS}",
            formatter_class=shape,
        )
        if verb.lab:
            sub.add_argument("lab", metavar="LAB", help="a lab of `faultlab list`")
        for names, facts in verb.options:
            sub.add_argument(*names, **facts)
        if not _has_own_json(verb):
            sub.add_argument("--json", action="store_true", help="print one JSON object instead")
    return top


def main(argv: list[str]) -> int:
    """Run one command line and return its exit code; no traceback for what a user can cause."""
    _reach_us_when_told_to_stop()
    verb = VERBS.get(argv[0]) if argv else None
    term = Terminal("--json" in argv and not (verb and _has_own_json(verb)))
    try:
        arguments = parser().parse_args(argv)
        VERBS[arguments.verb].act(term, arguments)
    except Problem as problem:
        term.problem(problem)
        return problem.exit_code
    except KeyboardInterrupt:
        term.problem(CannotRun("Interrupted.", "faultlab status"))
        return CannotRun.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` has seen enough
        return CannotRun.exit_code
    except OSError as error:
        hint = f"ls -l {error.filename}" if isinstance(error, PermissionError) else "df -h"
        term.problem(CannotRun(f"{error.filename or 'A file'}: {error.strerror}.", hint))
        return CannotRun.exit_code
    except Exception as error:
        if os.environ.get("FAULTLAB_DEBUG"):
            raise
        text = f"faultlab itself failed: {type(error).__name__}: {error}"
        term.problem(CannotRun(text, "type it again with FAULTLAB_DEBUG=1 before it"))
        return CannotRun.exit_code
    return 0


def _reach_us_when_told_to_stop() -> None:
    """SIGTERM ends us as Ctrl-C does: through the clean-up."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, stop)


def _in_utf8() -> None:
    """Begin again in UTF-8 mode where the locale's encoding is another one: our files are UTF-8."""
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):
        os.environ["PYTHONUTF8"] = "1"  # for the Pythons that we start
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def entry() -> NoReturn:
    """The console script."""
    _in_utf8()
    sys.exit(main(sys.argv[1:]))
