"""Figures: those that a lesson says in its prose are those that its transcripts show.

A figure that is computed has its sum beside it: `<!-- 1092 = 131072 / 120 -->`.
"""

from __future__ import annotations

import ast
import operator
import re
from pathlib import Path

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.verify import transcript

NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w]*\d)")
SUM = re.compile(r"<!-- ([\d.]+) = ([-+*/ ().\d]+) -->")
VERSION = re.compile(
    r"(Linux|nginx|PHP|Java|MariaDB|MySQL|Docker|JDK|update|Tomcat|in|RFC) [\d.]+|\d+\.\d+\.\d+"
)
# Statuses of HTTP, ends of processes, units, and defaults of Linux.
CONSTANTS = {*("404", "409", "499", "500", "502", "503", "504", "143", "137"), "65536", "128"}
UNITS = {1000.0, 1024.0}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def numbers(text: str) -> set[float]:
    """Return every number of a text, however it is written."""
    plain = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    return {float(found) for found in re.findall(r"\d+(?:\.\d+)?", plain)}


def shown(lab: Lab) -> set[float]:
    """Return the numbers of a lesson's transcripts, and those that its lab and its check set."""
    texts = [body for _, _, body in transcript.blocks(lab.lesson)]
    files = [file for file in lab.folder.rglob("*") if file.is_file() and file.suffix != ".md"]
    texts += [file.read_text(errors="replace") for file in [*files, *checks.files(lab)]]
    table = [line for line in lab.lesson.splitlines() if line.startswith("|")]
    return numbers("\n".join([*texts, *table]))


def prose(lesson: str) -> str:
    """Return the sentences of a lesson that tell what was measured."""
    text = re.sub(r"<!-- wrong turns -->[\s\S]*?<!-- end -->", "", lesson)
    text = re.sub(r"## (On your servers|Questions)\n[\s\S]*?(?=\n## |\Z)", "", text)
    for left_out in (r"```.*?```", r"<!--.*?-->", r"(?m)^( {4,}|\||#).*$", r"`[^`]*`"):
        text = re.sub(left_out, "", text, flags=0 if "(?m)" in left_out else re.DOTALL)
    return VERSION.sub("", text)


def near(figure: str, known: set[float]) -> bool:
    """Return whether a figure is one of these numbers, rounded to its last digit but zeros."""
    value, (whole, _, decimals) = float(figure), figure.partition(".")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    half = 0.5 * 10.0 ** (zeros - len(decimals))
    return any(abs(value - one) <= half for one in known)


def computed(sum_: str, known: set[float]) -> float:
    """Return the result of a sum of known numbers, units, and numbers below 100."""

    def of(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return float(OPERATORS[type(node.op)](of(node.left), of(node.right)))
        assert isinstance(node, ast.Constant) and isinstance(node.value, int | float), sum_
        value = float(node.value)
        assert value < 100 or value in known | UNITS, f"{value:g} of {sum_} is on no page"
        return value

    return of(ast.parse(sum_.strip(), mode="eval").body)


@pytest.mark.parametrize("lab_id", labs.ids())
def test_figures_come_from_the_transcripts_of_the_page(lab_id: str) -> None:
    lab = labs.load(lab_id)
    known = shown(lab)
    for figure, sum_ in SUM.findall(lab.lesson):
        assert near(figure, {computed(sum_, known)}), f"{figure} is not {sum_}"
        known.add(float(figure))
    said = {found.replace(",", "") for found in NUMBER.findall(prose(lab.lesson))}
    figures = {one for one in said if len(one.replace(".", "")) > 2} - CONSTANTS
    assert sorted(one for one in figures if not near(one, known)) == []


def test_a_figure_from_nowhere_is_found(tmp_path: Path) -> None:
    assert near("277", {276.65}) and not near("278", {276.65})
    assert near("52000", {52219.0}) and not near("52000", {53000.0})
    assert near("0.6", {0.59}) and not near("0.60", {0.59})
    assert computed("131072 / 120", {131072.0, 120.0}) == pytest.approx(1092, abs=0.5)
    with pytest.raises(AssertionError, match="777 of 777 / 2 is on no page"):
        computed("777 / 2", set())
    assert prose("It is 3.\n```\n4\n```\n`5` | 6\n| 7\n## Questions\n8\n").split() == [
        *("It", "is", "3.", "|", "6")
    ]
