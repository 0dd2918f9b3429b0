"""Every sentence that a check prints is true of what was measured, in whatever state a stack is.

For each measure a check prints one of two sentences. Each must hold over its whole range: a value
at the limit, one just beyond it, and what was recorded while the fault was there and after its fix.
"""

from __future__ import annotations

import re

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.check import Measure
from faultlab.run.phase import FAULTY, FIXED, HEALTHY
from faultlab.run.readings import Measured
from faultlab.run.record import Record
from tests.unit.test_recorded import RECORDED, RUNS

ALL = re.compile(r"^(Every|All|Each|No)\b|\b(always|never)\b")  # one exception is enough to lie
MANY = re.compile(
    r"\b(many|hardly|large part|every|each|all|none|nothing|always|most (users|pages|of))\b"
    r"|(?<!far )(?<!too )\bfew\b",
    re.IGNORECASE,
)
# The limit leaves room for what is said: so many fail that the words hold just beyond it, too.
ROOM = {
    "Many users of a page of PHP wait for a second.": "one in five and more",
    "Many pages do not come at once while the crowd is there.": "a quarter and more",
    "Many users do not get their page while the crowd is there.": "a third and more",
    "Many honest users of the crowd's machine do not get their page.": "a third and more",
}
MEASURES = [
    (lab_id, measure) for lab_id in labs.ids() for measure in checks.load(labs.load(lab_id)).symptom
]


def strict(measure: Measure[object]) -> bool:
    """Return whether the good limit lets no exception pass."""
    good = measure.good
    return good.op == "exactly" or (good.op, good.limit) in {("at most", 0), ("at least", 100)}


@pytest.mark.parametrize(("lab_id", "measure"), MEASURES)
def test_a_sentence_holds_at_the_limit_and_just_beyond_it(
    lab_id: str, measure: Measure[object]
) -> None:
    good, bad = measure.when_good, measure.when_bad
    assert good and bad, "the learner reads a sentence in both states"
    assert strict(measure) or not ALL.search(good), f"{good} At the limit that need not be so."
    assert bad in ROOM or not MANY.search(bad), f"{bad} Just beyond the limit that need not be so."


@pytest.mark.parametrize("lab_id", RECORDED)
def test_the_sentences_of_recorded_states(lab_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTLAB_STATE", str(RUNS.parent))
    lab, check = labs.load(lab_id), checks.load(labs.load(lab_id))
    run = Measured(lab, check, Record.read(RECORDED[lab_id]))
    for phase in (HEALTHY, FAULTY, FIXED):
        said = {finding.name: finding.says for finding in run.good(phase)}
        ill = phase == FAULTY and not lab.control
        bad = [measure for measure in check.symptom if said.get(measure.name) == measure.when_bad]
        assert bool(bad) is ill, (phase, [measure.when_bad for measure in bad])
