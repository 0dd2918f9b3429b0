"""Rulefile: the alert rules of a file, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from faultlab.core import scratch
from faultlab.core.errors import BadInput
from faultlab.data import promql, promtool

QUIET = ("info", "none")  # severities for people who are looking anyway


@dataclass(frozen=True)
class Rule:
    """An alert, or a recording rule without one. `wait`: the seconds of its `for`."""

    alert: str
    text: str
    wait: float = 0.0
    record: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Return whether it is an alarm; an alert with severity info or none is a note."""
        return bool(self.alert) and self.labels.get("severity") not in QUIET


def read(file: Path) -> list[Rule]:
    """Return the rules of a file. Raises BadInput with what Prometheus says of it, CannotRun."""
    try:
        document = yaml.safe_load(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else "not valid YAML"
        raise BadInput(f"{file} cannot be read: {why}.", f"ls -l {file}") from error
    if wrong := promtool.mistakes(file):
        raise BadInput(f"{file}: {wrong[0]}", f"promtool check rules {file}")
    found = list(_rules(document))
    if not any(rule.alert for rule in found):
        raise BadInput(f"{file} has no alert.", f"less {file}")
    return found


def _rules(document: Any) -> Iterator[Rule]:
    for group in (document or {}).get("groups") or []:
        for rule in group.get("rules") or []:
            yield Rule(
                alert=str(rule.get("alert", "")),
                text=str(rule["expr"]),
                wait=promql.seconds(rule.get("for", "0s")),
                record=str(rule.get("record", "")),
                labels={key: str(its) for key, its in (rule.get("labels") or {}).items()},
            )


def written(rules: Sequence[Rule]) -> str:
    """Return a file with these rules. Each alert has its place in them as its name: `r0`."""
    made = [
        {"record": rule.record, "labels": rule.labels, "expr": rule.text}
        if rule.record
        else {"alert": f"r{place}", "expr": rule.text, "for": f"{rule.wait * 1000:.0f}ms"}
        for place, rule in enumerate(rules)
    ]
    return yaml.safe_dump({"groups": [{"name": "rules", "rules": made}]}, sort_keys=False)


def wrong(rules: Sequence[Rule]) -> dict[int, str]:
    """Return what Prometheus says is wrong, by the place of the rule. Raises CannotRun."""
    with scratch.folder() as folder:
        file = folder / "rules.yml"
        file.write_text(written(rules))
        said = promtool.mistakes(file)
    found = {}
    for place in range(len(rules)):
        mine = [line for line in said if f'"r{place}"' in line]
        if mine:
            found[place] = mine[0].partition(f'"r{place}": ')[2] or mine[0]
    if said and not found:
        raise BadInput(f"Prometheus says of these rules: {said[0]}", "promtool --version")
    return found
