"""Attacks: run the tests that attack, and write what came of it: `make security`.

docs/security.md has a row for each attack, SECURITY.md the line about the last run.
"""

from __future__ import annotations

import ast
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

from faultlab.core import git

REPO = Path(__file__).resolve().parents[1]
PAGE = REPO / "docs/security.md"
SUMMARY = REPO / "SECURITY.md"
_MADE = re.compile(r"(?<=<!-- made by `make security`; a test compares -->\n).*\n(?=<!-- end -->)")
# Of containers on a real engine, and of files and folders by the unit tests.
TESTS = (
    "tests/live/test_security.py",
    "tests/live/test_seats.py",
    "tests/live/test_flood_from_a_seat.py",
    "tests/live/test_users.py",
    "tests/unit/test_malformed.py",
    "tests/unit/test_walk.py::test_nobody_takes_the_lab_of_another_user",
    "tests/unit/test_lock.py::test_a_folder_of_somebody_else_is_refused",
    "tests/unit/test_images.py::test_a_link_out_of_the_folder_of_a_stranger_is_refused",
    "tests/unit/test_score.py::test_a_pattern_that_takes_for_ever_is_no_diagnosis",
    "tests/unit/test_lock.py::test_sweep_leaves_a_class_that_is_going_on",
    "tests/unit/test_scratch.py::test_a_killed_command_is_swept",
    "tests/unit/test_scratch.py::test_what_is_another_users_by_now_stays",
    "tests/unit/test_class_journal.py::test_a_clock_that_is_set_ends_no_lab",
    "tests/unit/test_connections.py",
    "tests/unit/test_malformed_requests.py",
    "tests/unit/test_solo.py::test_a_socket_that_was_closed_is_of_no_user",
    "tests/unit/test_class_attacks.py::test_a_link_takes_no_one_out_of_their_seat",
    "tests/unit/test_class_terminals.py::test_terminals_are_opened_one_a_second",
    "tests/unit/test_class_terminals.py::test_a_terminal_that_prints_without_end",
    "tests/unit/test_class_stacks.py::test_a_seat_that_fills_the_disk",
    "tests/unit/test_class_stacks.py::test_a_command_that_prints_a_line_without_end",
    "tests/unit/test_errors.py::test_docker_on_another_machine",
    "tests/unit/test_setup.py::test_a_bundle_with_more_than_it_names",
    "tests/unit/test_kubernetes.py::test_no_account_can_ask_a_kubelet",
    "tests/unit/test_kubernetes.py::test_both_accounts_are_kept_in_the_namespaces_of_stacks",
)
ABOUT = """\
# Attacks and what came of them

`make security` runs the tests below and writes this page. Each is an attack that worked once, or a
right that a learner must not have. `held`: the attack failed. [SECURITY.md](../SECURITY.md) says
what is defended against whom, and what is left; [proof.md](proof.md) has the cheats of each lab.

"""


def main() -> int:
    """Run the tests and write the page; return pytest's exit code."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as junit:
        command = [sys.executable, "-m", "pytest", "-q", *TESTS, f"--junitxml={junit.name}"]
        code = subprocess.run(command, cwd=REPO, check=False).returncode
        outcomes = read(Path(junit.name))
    where = f"{platform.release()}, Python {platform.python_version()}"
    when = f"Run on {datetime.now(UTC):%Y-%m-%d}, commit {git.commit()}, kernel {where}."
    PAGE.write_text(page(outcomes, when))
    SUMMARY.write_text(summary(SUMMARY.read_text(), PAGE.read_text()))
    return code


def page(outcomes: dict[str, list[bool]], when: str) -> str:
    """Return docs/security.md: what came of each attack; `when`: the line about the run."""
    lines = [when, "", "| attack | tries | outcome | test |", "|---|---|---|---|"]
    for test in tests():
        found = outcomes.get(test.name, [])
        came = "held" if found and all(found) else "not run" if not found else "**broken**"
        what = (ast.get_docstring(test) or "").splitlines() or [test.name[5:].replace("_", " ")]
        lines.append(f"| {what[0].rstrip('.')} | {len(found)} | {came} | `{test.name}` |")
    return ABOUT + "\n".join(lines) + "\n"


def summary(text: str, page: str) -> str:
    """Return SECURITY.md with the line about the last run, as docs/security.md has it."""
    ran = re.search(r"^Run on (.*)\.$", page, re.MULTILINE)
    rows = re.findall(r"^\| .* \| \d+ \| (.*) \| `.*` \|$", page, re.MULTILINE)
    held = rows.count("held")
    said = f"Last run: {ran[1] if ran else 'none'}; {held} of {len(rows)} attacks held.\n"
    made, count = _MADE.subn(lambda _: said, text)
    if count != 1:
        raise SystemExit(f"{SUMMARY.name} has no line that is made; git checkout {SUMMARY.name}")
    return made


def read(junit: Path) -> dict[str, list[bool]]:
    """Return of each test, by its name without parameters, whether each try passed."""
    found: dict[str, list[bool]] = {}
    for case in ET.parse(junit).getroot().iter("testcase"):
        held = not any(case.find(bad) is not None for bad in ("failure", "error", "skipped"))
        found.setdefault(case.get("name", "").split("[")[0], []).append(held)
    return found


def tests() -> list[ast.FunctionDef]:
    """Return the functions of the tests, in the order of TESTS."""
    found = []
    for one in TESTS:
        file, _, name = one.partition("::")
        for node in ast.parse((REPO / file).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith(name or "test_"):
                found.append(node)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
