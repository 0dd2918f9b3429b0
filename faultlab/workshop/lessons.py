"""Lessons: the parts of a lesson that a trainer needs, as text that can be put elsewhere.

Links of a lesson lead to files beside it, so only their words are kept.
"""

import re
import textwrap
from collections.abc import Iterator

_COMMENT = re.compile(r"[ \t]*<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^]]*)\]\([^)\s]*\)")
_FENCE = re.compile(r"^( *)```.*?^\1```[ ]*\n?", re.DOTALL | re.MULTILINE)
_RULE = re.compile(r"^\*\*(?:The rule|Rule)[:.]\*\*\s*", re.IGNORECASE)
_ITEM = re.compile(r"^(?:[-*]|\d+\.) +", re.MULTILINE)
_ANSWER = re.compile(r"<details><summary>Answer</summary>(.*?)</details>", re.DOTALL)
_SENTENCE = re.compile(r"(.+?[.:?!])(?:\s+(?=[A-Z`])|\s*$)", re.DOTALL)
_NESTED = re.compile(r"\n\n|\n *[-*] ")  # what comes after the first paragraph of an item
_WORDS = 12  # that say something


def section(lesson: str, name: str) -> str:
    """Return a section of a lesson without its heading, comments and links; empty without one."""
    found = re.search(
        rf"^## {re.escape(name)}$\n(.*?)(?=^## |\Z)", lesson, re.DOTALL | re.MULTILINE
    )
    return plain(found[1]).strip() if found else ""


def plain(text: str) -> str:
    """Return Markdown without comments, and with links as their words."""
    return _LINK.sub(r"\1", _COMMENT.sub("", text))


def rule(lesson: str) -> str:
    """Return the rule of a lesson: the first paragraph of its section on one's own servers."""
    first = section(lesson, "On your servers").partition("\n\n")[0]
    found = one_line(_RULE.sub("", first))
    return found[:1].upper() + found[1:]


def causes(lesson: str, most: int = 4) -> list[str]:
    """Return the begin of each step of the cause: its first sentences, until they say something."""
    text = _FENCE.sub("", section(lesson, "Cause"))
    parts = items(text) if _ITEM.search(text) else text.split("\n\n")
    return [_begin(part) for part in parts if part.strip()][:most]


def alike(lesson: str) -> list[str]:
    """Return what a lesson says about labs that look alike, each in a paragraph."""
    return [
        one_line(each) for each in items(section(lesson, "Wrong turns").partition("<details>")[0])
    ]


def questions(lesson: str) -> Iterator[tuple[str, str]]:
    """Yield the questions of a lesson with their answers."""
    for each in items(section(lesson, "Questions")):
        found = _ANSWER.search(each)
        if found:
            yield one_line(each[: found.start()]), textwrap.dedent(found[1]).strip()


def items(text: str) -> list[str]:
    """Return the items of the first level of a list, each without its mark and its indent."""
    starts = [found.start() for found in _ITEM.finditer(text)]
    ends = [*starts[1:], len(text)] if starts else []
    found = []
    for start, end in zip(starts, ends, strict=True):
        mark = _ITEM.match(text, start)
        width = mark.end() - start if mark else 0
        found.append(textwrap.dedent(" " * width + text[start + width : end]).strip())
    return found


def one_line(text: str) -> str:
    """Return a paragraph without line breaks."""
    return " ".join(text.split())


def _begin(text: str) -> str:
    """Return the first sentences of a paragraph that have enough words together."""
    found = ""
    for sentence in _SENTENCE.findall(one_line(_NESTED.split(text)[0])):
        found = f"{found} {sentence}".strip()
        if len(found.split()) >= _WORDS:
            break
    return found.removesuffix(":") + ("." if found.endswith(":") else "")


def short(command: str, most: int) -> str:
    """Return a command in at most so many characters of its first line."""
    first, _, rest = command.partition("\n")
    return f"{first[:most].rstrip()} …" if rest or len(first) > most else first


def without_make(text: str) -> str:
    """Replace `make shell-…` by the terminal, because a browser has no shell with `make`."""
    return re.sub(r"\bmake (shell)-\S+ AT=(\w+)", r"the terminal of \2", text)
