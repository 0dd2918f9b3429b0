"""Certainty: how sure a learner was of answers, beside how often they were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from faultlab.core.statistics import brier


@dataclass(frozen=True)
class Certainty:
    """Answers with a certainty: how many, how sure on average and how often right (per cent).

    `brier`: the mean of (certainty - right)², each from 0 to 1.
    """

    answers: int
    sure: float
    right: float
    brier: float

    @property
    def sentences(self) -> list[str]:
        """Return what it says, in sentences for the learner."""
        many = f"{self.answers} answer{'' if self.answers == 1 else 's'}"
        return [
            f"You were {self.sure:.0f}% sure on average, and right in {self.right:.0f}% of {many}.",
            f"Brier score {self.brier:.2f}: 0 is best, and 0.25 is what 50% always gives.",
        ]


def of(said: Sequence[tuple[int, bool]]) -> Certainty | None:
    """Return it of answers: how sure, in per cent, and whether right. None without an answer."""
    score = brier([(sure / 100, right) for sure, right in said])
    if score is None:
        return None
    sure, right = fmean(sure for sure, _ in said), fmean(100.0 * right for _, right in said)
    return Certainty(len(said), round(sure, 1), round(right, 1), round(score, 4))
