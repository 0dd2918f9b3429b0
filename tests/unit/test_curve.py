"""Curves: the order of doses, what is said of them, what contradicts their rows, and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultlab.core.errors import BadInput
from faultlab.lab import loader as labs
from faultlab.report import curve_page
from faultlab.verify import curve
from faultlab.verify.curve import Curve, Dose, Points
from tests.unit.conftest import Run

FAILED = "pages that fail"


def test_the_hardest_dose_is_the_weakest_one_that_users_feel() -> None:
    assert labs.hardest(labs.load("php-workers")).id == "php-workers@7"
    assert labs.hardest(labs.load("mtu")).id == "mtu"


def dose(name: str, felt: int, *values: float, silent: bool = False, evident: int = 3) -> Dose:
    return Dose(name, {"n": 1.0}, silent, felt, evident, 3, [Points(FAILED, "%", [*values])])


def lab_curve(*doses: Dose) -> Curve:
    return Curve("mtu", "r", "local", "6.1", 2, [Points(FAILED, "%", [0])], [*doses])


WEAK, SOME, MOST = (
    dose("1", 0, 0, 0, 1, silent=True),
    dose("2", 3, 40, 41, 39),
    dose("3", 3, 99, 100, 98),
)


def test_the_weakest_dose_that_is_always_felt_and_the_shape() -> None:
    assert curve.said(lab_curve(WEAK, SOME, MOST)) == (
        "The weakest setting tried that users felt every time is 2. The harm grows step by step."
    )
    assert "is 3. The harm sets in all at once." in curve.said(
        lab_curve(WEAK, dose("2", 0, 1, 2, 0), MOST)
    )
    assert curve.said(lab_curve(WEAK, MOST)).endswith("felt every time is 3."), "two have no shape"
    assert curve.said(lab_curve(SOME, MOST)) == (
        "Users felt even the weakest setting tried, 2, every time."
    )
    assert (
        curve.said(lab_curve(WEAK, dose("2", 2, 0, 50, 50))) == "No setting was felt in every look."
    )
    assert SOME.measures[0].words == "40 (39-41) %"


def test_what_contradicts_the_rows() -> None:
    assert curve.wrong(lab_curve(WEAK, SOME, MOST)) == []
    loud = dose("1", 1, 0, 0, 50, silent=True, evident=2)
    assert curve.wrong(lab_curve(loud, dose("2", 2, 60, 61, 60), dose("3", 3, 50, 40, 50))) == [
        "mtu@1 is silent, but users felt it",
        "mtu@2 was felt in 2 of 3 looks",
        "mtu@1 had its evidence in 2 of 3 looks",
        "mtu@3 harms less than a weaker dose",
    ]


def test_the_file_and_the_page(tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    curve._write(file, [lab_curve(WEAK, SOME)])
    assert curve.read(file) == [lab_curve(WEAK, SOME)]
    text = curve_page.page(curve.read(file))
    assert "| 2 | 3 of 3 | 3 of 3 | 40 (39-41) % |" in text and "## mtu" in text
    assert "<svg" in curve_page.svg(lab_curve(WEAK, SOME))
    file.write_text('{"schema": 1, "curves": [{}]}')
    with pytest.raises(BadInput, match="is damaged"):
        curve.read(file)


def test_what_it_refuses(faultlab: Run) -> None:
    got = faultlab("curve", "mtu")
    assert got.code == 2 and "mtu has only one strength." in got.err
    got = faultlab("curve", "php-workers", "--looks", "0")
    assert got.code == 2 and "--looks takes a number from 1 up." in got.err


def test_a_file_is_shown_and_drawn(faultlab: Run, tmp_path: Path) -> None:
    file = tmp_path / "curves.json"
    curve._write(file, [lab_curve(WEAK, SOME, MOST)])
    shown = faultlab("curve", "--file", str(file))
    assert (
        shown.code == 0
        and "The weakest setting tried that users felt every time is 2." in shown.out
    )
    assert faultlab("curve", "--file", str(file), "--markdown").out.startswith("## mtu")
    drawn = faultlab("curve", "--file", str(file), "--pictures", str(tmp_path))
    assert drawn.code == 0 and "<svg" in (tmp_path / "curve-mtu.svg").read_text()
    both = faultlab("curve", "mtu", "--file", str(file))
    assert both.code == 2 and "Name labs to measure, or a file to show." in both.err
    alone = faultlab("curve", "mtu", "--markdown")
    assert alone.code == 2 and "--markdown and --pictures need --file." in alone.err
