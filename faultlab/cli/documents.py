"""Documents: the JSON of each verb and file, and its schema, made from the dataclass behind it.

This module imports all verbs, which takes a second. Only `docs` imports it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from faultlab.admin import add, bundle, doctor, status
from faultlab.agents import harbor_tasks
from faultlab.agents.agent import Agent
from faultlab.core import events, paths
from faultlab.data import counters, dataset, lessons, rules, truth
from faultlab.engine.vm import boot
from faultlab.lab.collection import Collection
from faultlab.lab.model import Decoy, Lab
from faultlab.lab.repair import Repairs
from faultlab.learn import checking, exam, hints, join, learner, mystery, progress, start_many
from faultlab.observe import flame, top, watch
from faultlab.observe.use import table
from faultlab.oncall import shift
from faultlab.report import (
    catalogue,
    curve_page,
    history,
    index,
    judge,
    page,
    plot,
    references_page,
)
from faultlab.run import harmless, record
from faultlab.score import page as score_page
from faultlab.score import recording, results, scorecard, tryout
from faultlab.score.tool import Tool
from faultlab.verify import curve, judge_error, lint, matrix, reliability_page, verify, walks
from faultlab.workshop import guide, review, server, solo, verbs
from faultlab.workshop.plan import ClassPlan


@dataclass(frozen=True)
class ChangedFiles:
    """The files that `docs` changed."""

    written: list[str]


# The functions whose results a verb prints with --json.
VERBS: dict[str, tuple[Callable[..., object], ...]] = {
    "start": (learner.start, start_many.start),
    "hint": (hints.hint,),
    "check": (checking.check,),
    "fix": (learner.fix,),
    "debrief": (learner.debrief, mystery.debrief),
    "mystery": (mystery.start,),
    "diagnose": (mystery.diagnose,),
    "join": (join.join,),
    "exam": (exam.exam,),
    "oncall": (shift.oncall,),
    "next": (progress.next_,),
    "progress": (progress.show,),
    "reset": (learner.reset,),
    "down": (learner.down,),
    "use": (table.show,),
    "flame": (flame.flame,),
    "top": (top.top,),
    "watch": (watch.watch,),
    "verify": (verify.verify,),
    "curve": (curve.show, curve_page.again),
    "decoys": (harmless.show, harmless.prove),
    "matrix": (matrix.show,),
    "judge-error": (judge_error.try_repairs,),
    "reliability": (reliability_page.show,),
    "try": (tryout.try_out,),
    "record": (recording.record,),
    "scorecard": (scorecard.scorecard, score_page.write),
    "dataset": (dataset.make,),
    "counters": (counters.show,),
    "harbor": (harbor_tasks.write,),
    "runs": (history.runs,),
    "show": (history.show,),
    "judge": (judge.judge,),
    "report": (page.show, index.show),
    "plot": (plot.draw,),
    "list": (catalogue.show,),
    "terms": (catalogue.terms,),
    "origins": (references_page.show,),
    "doctor": (doctor.show,),
    "status": (status.show,),
    "sweep": (status.sweep,),
    "bundle": (bundle.bundle,),
    "add": (add.add,),
    "setup": (doctor.setup,),
    "lint": (lint.show,),
    "images": (doctor.images,),
    "vm": (boot.up, boot.down),
    "page": (solo.serve,),
    "class": (
        server.welcome,
        verbs.status,
        verbs.end,
        verbs.write,
        guide.lint,
        guide.write,
        review.write,
    ),
}
# The JSON of `docs` itself, of errors and events, and of files.
OTHERS: dict[str, Any] = {
    "docs": ChangedFiles,
    "error": events.Failure,
    "events": events.Event,
    "file-matrix": matrix.Document,
    "file-run": record.Facts,
    "file-score": results.Document,
    "file-reliability": walks.Document,
    "file-rules": rules.Report | lessons.Lessons,
    "file-truth": truth.Document,
}
# The files that people write.
TOML: dict[str, Any] = {
    "collection.toml": Collection,
    "decoy.toml": Decoy,
    "lab.toml": Lab,
    "repairs.toml": Repairs,
    "tool.toml": Tool | Agent,
    "class.toml": ClassPlan,
}
# Keys that come from the name of the file or folder.
_NOT_IN_A_FILE = ("id", "folder", "collection", "dose", "root", "ours")
_BY_A_VERB = ("blind", "neutral", "by_number", "folders", "decoys")  # when a lab is started


def schemas() -> dict[Path, str]:
    """Return the text of each schema, by its file."""
    printed = {
        verb: reduce(or_, [get_type_hints(make, include_extras=True)["return"] for make in makers])
        for verb, makers in VERBS.items()
    }
    folder = paths.root() / "docs/json"
    every = {name: _schema(kind) for name, kind in (printed | OTHERS).items()}
    every |= {name: _written(name, model) for name, model in TOML.items()}
    return {folder / f"{name}.json": text for name, text in every.items()}


def _schema(kind: Any) -> str:
    return json.dumps(TypeAdapter(kind).json_schema(mode="serialization"), indent=1) + "\n"


def _written(name: str, kind: Any) -> str:
    """Return the schema of a file that people write, for their editors."""
    schema = TypeAdapter(kind).json_schema()
    schema.pop("title", None)
    forms = [schema["$defs"][form["$ref"].split("/")[-1]] for form in schema.get("anyOf", [])]
    for its in forms or [schema]:
        for key in (*_NOT_IN_A_FILE, *(_BY_A_VERB if kind is Lab else ())):
            its["properties"].pop(key, None)
        given = ("daemons", "scope") if "of" in its["properties"] else ()  # by the labs it names
        its["required"] = [
            key for key in its["required"] if key in its["properties"] and key not in given
        ]
    for unused in ("Collection", *(("Blind", "Decoy") if kind is Lab else ())):
        schema.get("$defs", {}).pop(unused, None)  # it was the type of such a key
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    return json.dumps(head | schema, indent=1) + "\n"
