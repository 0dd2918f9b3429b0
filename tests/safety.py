"""Safety: docs/safety.md says what the soak and the kills have shown.

Usage: python -m tests.safety [docs/kills.jsonl] [runs/soak.jsonl]

A file of `python -m tests.kills` or `python -m tests.soak` is read, and its figures go to
docs/kills.json or docs/soak.json. The page is made from these two alone, so that without a file it
is only made again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faultlab.core.errors import BadInput
from faultlab.core.statistics import Share
from tests import kills, pieces
from tests.pieces import Rows
from tests.soak import __main__ as soak
from tests.trend import Slope

REPO = Path(__file__).resolve().parents[1]
PAGE = REPO / "docs/safety.md"
FIGURES = {"kills": REPO / "docs/kills.json", "soak": REPO / "docs/soak.json"}
BEGIN = "<!-- made by `python -m tests.safety`; a test compares -->\n"
END = "<!-- end -->\n"
COMMANDS = """\
## See what hours of use and a thousand kills leave

```console
$ .venv/bin/python -m tests.kills --count 50 --seed 1                       # again and again
$ .venv/bin/python -m tests.soak --hours 6 --seats 8 --seed 1 --piece 20m   # until it ends
$ .venv/bin/python -m tests.safety docs/kills.jsonl runs/soak.jsonl         # makes this part
```

Each command needs root and a machine with nothing else of ours, and goes on where it was cut off.
"""
KILLS = """\
### Kills

A command is killed (`kill -9`, with all that it has started) at a random moment. Then
`faultlab sweep` runs, and the host is compared with before. Compared are addresses, links, routes,
rules, sysctls, mounts, cgroups, `/dev/shm`, locks, temporary files, processes, and containers,
networks and volumes. "Left over" counts every difference, and every sweep that failed. "Too late":
the command had ended before its kill.
"""
SOAK = """\
### Soak

Scripted learners at {seats} seats type, break and repair their labs, reload pages, open terminals,
ask for hints and answer. Meanwhile plugs are pulled. In the end the class ends, without a sweep,
and the host is compared as above. The journal must have all that the server has acknowledged, and
each export from before a plug, with the same points.
"""
SLOPES = {
    "memory": "memory of the server, MB an hour",
    "threads": "its threads, an hour",
    "files": "its open files, an hour",
}


def made() -> str:
    """Return the generated part of the page."""
    parts = [COMMANDS, of_kills(_read("kills")), of_soak(_read("soak"))]
    return "\n".join(parts)


def _read(name: str) -> dict[str, Any] | None:
    file = FIGURES[name]
    found: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
    return found


def of_kills(found: Mapping[str, Any] | None) -> str:
    """Return what is said of the kills."""
    if not found:
        return f"{KILLS}\nIt has not been run yet.\n"
    lines = [KILLS, "| command | seconds | kills | too late | left over, 95% |"]
    lines += ["|---|---|---|---|---|"]
    every = [kills.Count(**row) for row in found["kills"]]
    for one in every:
        share = _share(one.share)
        lines.append(f"| {one.verb} | {one.seconds:g} | {one.kills} | {one.late} | {share} |")
    whole = Share(sum(one.kills for one in every), sum(one.left for one in every))
    late = sum(one.late for one in every)
    lines.append(f"| all | | {whole.of} | {late} | {_share(whole)} |")
    lines += ["", f"Seed {found['seed']}. {places(found['pieces'])}"]
    if found["left"]:
        lines += ["", "What was left over:", ""]
        lines += [
            f"- kill {row['number']}, `{row['verb']}` after {row['after']:g} s:"
            f" `{'`, `'.join(row['left'][:3]) or 'the sweep failed'}`"
            for row in found["left"][:10]
        ]
    return "\n".join(lines) + "\n"


def _share(share: Share) -> str:
    """Return a count with its interval. One decimal, because most are near zero."""
    low, high = share.interval
    return f"{share.happened} ({low:.1f}-{high:.1f}%)"


def of_soak(found: Mapping[str, Any] | None) -> str:
    """Return what is said of the soak."""
    if not found:
        return f"{SOAK.format(seats=8)}\nIt has not been run yet.\n"
    done = f"{found['hours']:g} of {found['wanted']:g} hours"
    acts = ", ".join(f"{count} x {name}" for name, count in found["acts"].items())
    plugs = ", ".join(f"{count} x {name}" for name, count in found["plugs"].items()) or "none"
    lines = [SOAK.format(seats=found["seats"]), "| | |", "|---|---|"]
    lines += [f"| time | {done}{'' if found['finished'] else '; it goes on'} |"]
    lines += [f"| done by learners | {acts} |", f"| plugs pulled | {plugs} |"]
    lines += [f"| {SLOPES[name]}, 95% | {_slope(of)} |" for name, of in found["slopes"].items()]
    lines += [f"| acknowledged, and compared | {found['acknowledged']} |"]
    lines += [f"| exports compared | {found['exports']} |"]
    for key, name in (("missing", "missing in the journal"), ("left", "left on the host")):
        lines += [f"| {name} | {_list(found[key]) if found['finished'] else 'not judged yet'} |"]
    lines += [f"| tracebacks of the server | {found['tracebacks']} |"]
    lines += [f"| answers that must not be | {_list(found['wrong'])} |"]
    lines += ["", f"Seed {found['seed']}. {places(found['pieces'])}"]
    lines += [
        "The slope is that of least squares within each life of the server. Its interval counts"
        " that samples which follow each other are alike (`tests/trend.py`).",
        f"More than {soak.FLAT:g} MB an hour at the upper end fails the run.",
    ]
    return "\n".join(lines) + "\n"


def _slope(found: Mapping[str, Any] | None) -> str:
    return Slope(**found).text if found else "too few samples"


def _list(found: Sequence[str]) -> str:
    """Return how many there are, and the first ones."""
    shown = "; ".join(f"`{one.replace('|', '/')}`" for one in found[:3])
    return f"{len(found)}: {shown}" if found else "0"


def places(found: Sequence[Mapping[str, Any]]) -> str:
    """Return where the pieces of a run have run."""
    said = [
        f"{one['pieces']} on {one['date']} (commit {one['commit']}, kernel {one['kernel']},"
        f" Docker {one['docker']}, {one['cpus']} CPUs)"
        for one in found
    ]
    return f"Pieces: {', '.join(said)}."


def page(text: str) -> str:
    """Return the page with the generated part made again."""
    pattern = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
    if not pattern.search(text):
        raise BadInput(f"{PAGE.name} has no part that is made.", f"git checkout {PAGE}")
    return pattern.sub(lambda _: made(), text)


def take(file: Path) -> None:
    """Read the file of a run, and keep its figures. Raises BadInput."""
    try:
        facts = json.loads(file.read_text().partition("\n")[0])
        kind = facts["of"]
        maker = {"kills": kills.figures, "soak": soak.figures}[kind]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{file} is no file of such a run.", "python -m tests.kills --help"
        ) from error
    found = maker(Rows(file, facts))
    FIGURES[kind].write_text(json.dumps(found, indent=1) + "\n")


def main() -> int:
    """Take figures over, and make the page."""
    wanted = argparse.ArgumentParser(prog="python -m tests.safety", description=__doc__)
    wanted.formatter_class = argparse.RawDescriptionHelpFormatter
    wanted.add_argument("files", nargs="*", type=Path)
    for file in wanted.parse_args().files:
        take(file)
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(pieces.program(main))
