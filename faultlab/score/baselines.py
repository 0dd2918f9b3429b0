"""Baselines: guesses that see the truth of the labs and not the stacks.

They are computed and not run. A tool that is no better knows nothing about a stack.
"""

import random
from collections import Counter

from faultlab.lab import loader as labs
from faultlab.score import metrics
from faultlab.score.diagnosis import Diagnosis
from faultlab.score.results import Results, Trial

FREQUENT, CHANCE = "most-frequent-cause", "random"


def guesses(results: Results) -> Results:
    """Return what both guesses say in each look of these trials.

    most-frequent-cause: always an alarm, with the three most frequent causes and the most frequent
    machine of these very labs, so no constant guess is better. random: an alarm as often as
    something is wrong, with three causes and a machine drawn as often as they occur.
    """
    looks = {(t.lab, t.phase, t.number): t for t in results.trials.values()}
    faults = [labs.loaded(lab) for lab in sorted({t.lab for t in looks.values()})]
    truths = [(lab, truth) for lab in faults if not lab.control for truth in labs.truths(lab)]
    if not truths:
        return results.only(lambda _: False)
    causes = [truth.cause for _, truth in truths]
    machines = [lab.services.daemons.get(t.component, t.component) for lab, t in truths]
    constant = Diagnosis(True, _most(causes, metrics.GUESSES), _most(machines, 1)[0])
    share = sum(map(metrics.has_fault, looks.values())) / len(looks)
    found = []
    for (lab_id, phase, number), like in sorted(looks.items()):
        dice = random.Random(f"{results.facts.get('seed')} {lab_id} {phase} {number}")
        drawn = list(dict.fromkeys(dice.choices(causes, k=metrics.GUESSES)))
        guess = Diagnosis(True, drawn, dice.choice(machines))
        quiet = Diagnosis(False)
        for tool, said in (
            (FREQUENT, constant),
            (CHANCE, guess if dice.random() < share else quiet),
        ):
            where = lab_id, phase, number, "", like.lab_digest
            found.append(Trial(tool, *where, "diagnosis", said, way=like.way))
    return Results(results.file, results.facts, {}, {trial.key: trial for trial in found})


def rows(guessed: Results) -> list[metrics.ToolRow]:
    """Return the rows of the guesses, by name."""
    return sorted(metrics.rows(guessed), key=lambda row: row.tool)


def _most(words: list[str], count: int) -> list[str]:
    """Return the most frequent words; of those that are equally frequent, the first by name."""
    return [word for word, _ in sorted(Counter(words).items(), key=lambda x: (-x[1], x[0]))][:count]
