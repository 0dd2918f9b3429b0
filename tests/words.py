"""Words: check our text against docs/style.md, and measure how long it takes to read.

`python -m tests.words` checks all files of the project, `python -m tests.words FILE...` some of
them; `--measure` prints the words of each document and the minutes to read it instead.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

A_MINUTE = 200  # words
CODE = 3  # words of a code block are read as one

# What docs/style.md says to avoid. A pattern with a space matches across a line break, too.
AVOID = {
    r"whoever|whatever's": "say who: the client, the user, a program that",
    r"nobody|no one": "say what: no user, no request",
    r"for ever|forever": "say until when",
    r"(?:is|are|was|were|be|all|not|again|stays?|looks?) well(?=[,.;:]|$)": "healthy",
    r"stands|stood": "is, waits",
    r"there is none|there are none": "say what is missing",
    r"who asks": "the client",
    r"knock\w*": "SYN, connection attempt",
    r"dearest": "the one that costs most",
    r"riddle\w*": "question",
    r"document of origin": "name the source, docs/sources.md",
}
_AVOID = {
    re.compile(rf"\b(?:{words})\b".replace(" ", r"\s+"), re.I): why for words, why in AVOID.items()
}

# Records of what was said once, and what programs or other people wrote.
_LEFT_OUT = re.compile(
    r"^(CHANGELOG\.md|docs/style\.md|tests/|.*\.LICENSE$)"
    # A changed comment of an image makes every walk stale that has used it.
    r"|^(images/|tools/.*/(look|Dockerfile)$)"
)


@dataclass(frozen=True)
class Text:
    """A piece of prose, and the line that it begins in."""

    line: int
    words: str


def of(file: Path) -> Iterator[Text]:
    """Yield the prose of a document, a program, or a description of a lab or tool."""
    if file.suffix == ".md":
        yield from _document(file.read_text())
    elif file.suffix == ".py":
        yield from _program(file.read_text(), named="checks" in file.parts)
    elif file.suffix == ".toml":
        yield from _values(file.read_text())
    else:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if found := re.match(r"\s*(?:#|//)\s+(.*)", line):
                yield Text(number, found[1])


def _document(text: str) -> Iterator[Text]:
    """Yield the paragraphs of a document: no code, tables, headings, comments or addresses."""
    text = re.sub(r"<!--.*?-->", _blank, text, flags=re.S)
    text = re.sub(r"^( *)```.*?^\1```", _blank, text, flags=re.S | re.M)
    paragraph, began = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("    ") and not paragraph:
            continue  # code
        begins = re.match(r"\s*(?:[-*+]|\d+\.)\s+", line)
        ends = not line.strip() or line.startswith(("#", "|", "<")) or begins
        if ends and paragraph:
            yield Text(began, _plain(paragraph))
            paragraph = ""
        if line.strip() and not line.startswith(("#", "|", "<")):
            began = began if paragraph else number
            paragraph += " " + line[begins.end() if begins else 0 :].strip()


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _plain(text: str) -> str:
    """Return a paragraph with links as their text, and code as one word."""
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(`+).+?\1", "CODE", text)
    return re.sub(r"\*\*|__", "", text).strip()


def _program(text: str, named: bool) -> Iterator[Text]:
    """Yield the comments, docstrings and messages of a program.

    `named`: the first argument of a function is a name, as of a measure. Records have these names.
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string.lstrip("# "))
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    names = {id(node.args[0]) for node in calls if named and isinstance(node.func, ast.Name)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if " " in node.value and id(node) not in names:
            yield Text(node.lineno, re.sub(r"`[^`]*`", "CODE", node.value))


def _values(text: str) -> Iterator[Text]:
    """Yield what a lab.toml or tool.toml says to a reader."""
    tomllib.loads(text)
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*(?:title|why|text|about|says)\s*=\s*(.*)", line):
            yield Text(number, re.sub(r"`[^`]*`", "CODE", found[1].strip("\"'")))


def amiss(file: Path) -> Iterator[str]:
    """Yield what docs/style.md has against a file."""
    for text in of(file):
        for pattern, better in _AVOID.items():
            for found in pattern.finditer(text.words):
                yield f"{file}:{text.line}: “{found[0]}”: {better}"


def minutes(document: str) -> float:
    """Return how long a reader needs."""
    text = re.sub(r"<!--.*?-->", "", document, flags=re.S)
    prose = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M)
    said = len(prose.split())
    return (said + (len(text.split()) - said) / CODE) / A_MINUTE


def measures(file: Path) -> str:
    """Return a row: the words of a document, and the minutes to read it."""
    document = file.read_text()
    return f"| {file} | {len(document.split())} | {minutes(document):.1f} |"


def ours() -> list[Path]:
    """Return the files of the project that people read."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    kinds = (".md", ".py", ".toml", ".sh", ".js")
    names = [name for name in listed.splitlines() if name.endswith(kinds)]
    return [Path(name) for name in names if not _LEFT_OUT.match(name) and "uplot" not in name]


def main() -> int:
    """Check or measure the files that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="print words and minutes")
    parser.add_argument("files", nargs="*", type=Path)
    chosen = parser.parse_args()
    files = chosen.files or ours()
    if chosen.measure:
        print("| file | words | minutes to read |\n|---|---|---|")
        print("\n".join(measures(file) for file in files if file.suffix == ".md"))
        return 0
    found = [line for file in files for line in amiss(file)]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
