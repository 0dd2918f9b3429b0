"""CommonMark: let MkDocs read Markdown as forges and the pages of a class read it.

MkDocs calls Python-Markdown, which wants four spaces below an item of a list and reads no Markdown
inside HTML. Our documents have other indents. So markdown-it reads them, and what MkDocs adds
(contents, titles, the check of links) works on the tree that comes out.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from html.parser import HTMLParser
from xml.etree import ElementTree

from markdown import Markdown
from markdown.blockparser import BlockParser
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.lexers.shell import BashSessionLexer
from pygments.util import ClassNotFound

VOID = {"area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
PROMPT = re.compile(r"[a-z-]*[#$] ")  # of a transcript: `web# `, `$ `


class Transcript(BashSessionLexer):
    """A session with the prompts of our machines."""

    _ps1rgx = re.compile(r"^([a-z-]*[#$] )(.*\n?)")


def code(text: str, language: str) -> str:
    """Return a block of code as HTML. One without a language, or with prompts, is not copied."""
    lexer: Lexer = TextLexer()
    if language == "console" or (not language and PROMPT.match(text)):
        lexer, language = Transcript(), ""
    elif language:
        with suppress(ClassNotFound):  # a diagram, which only a forge draws
            lexer = get_lexer_by_name(language)
    lexer.stripnl = False
    classes = "highlight" if language else "highlight no-copy"
    shown: str = highlight(text, lexer, HtmlFormatter(cssclass=classes, wrapcode=True))
    return shown


def reader() -> MarkdownIt:
    """Return the reader of our Markdown: CommonMark, tables, and code in colours."""
    made = MarkdownIt("commonmark").enable("table")
    made.add_render_rule("fence", lambda _, tokens, i, *__: _code(tokens[i]))
    made.add_render_rule("code_block", lambda _, tokens, i, *__: _code(tokens[i]))
    return made


def _code(token: Token) -> str:
    return code(token.content, token.info.strip())


class Tree(HTMLParser):
    """The tree of a page. Comments are for the programs that make a document: they are left out.

    Entities stay as they are written, because Python-Markdown writes text with entities.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.builder = ElementTree.TreeBuilder()
        self.builder.start("div", {})

    def root(self) -> ElementTree.Element:
        """Return the whole tree."""
        self.builder.end("div")
        return self.builder.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID:
            self.builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        if tag not in VOID:
            self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.builder.data(data)

    def handle_entityref(self, name: str) -> None:
        """Add an entity with a name."""
        self.builder.data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        """Add an entity with a number."""
        self.builder.data(f"&#{name};")


class Reader(BlockParser):
    """What turns lines into a tree, in place of Python-Markdown's own."""

    def parseDocument(self, lines: Iterable[str]) -> ElementTree.ElementTree:
        """Return the tree of a document."""
        tree = Tree()
        tree.feed(reader().render("\n".join(lines)))
        tree.close()
        return ElementTree.ElementTree(tree.root())


class CommonMark(Extension):
    """The reader above as an extension of Python-Markdown, and the links of a page.

    `lead` returns a link that MkDocs can follow; `place` follows one that MkDocs does not see.
    """

    def __init__(self, lead: Callable[[str], str], place: Callable[[str], str]) -> None:
        super().__init__()
        self.lead = lead
        self.place = place

    def extendMarkdown(self, md: Markdown) -> None:
        """Take out what reads Markdown, and put in ours."""
        for name in ("html_block", "fenced_code_block"):
            md.preprocessors.deregister(name)
        for name in ("inline", "prettify"):
            md.treeprocessors.deregister(name)
        md.parser = Reader(md)
        md.treeprocessors.register(Finish(md, self), "finish", 50)


class Finish(Treeprocessor):
    """The links, pictures and tables of a page."""

    def __init__(self, md: Markdown, of: CommonMark) -> None:
        super().__init__(md)
        self.of = of

    def run(self, root: ElementTree.Element) -> None:
        """Change each link, and let a wide table scroll by itself, also by the keyboard."""
        for element in root.iter():
            key = {"a": "href", "img": "src"}.get(element.tag)
            if key and key in element.attrib:
                element.set(key, self.of.lead(element.attrib[key]))
            elif element.tag == "source":
                element.set("srcset", self.of.place(element.attrib["srcset"]))
            elif element.tag == "a":  # an anchor; MkDocs takes every `a` for a link
                element.tag = "span"
            elif element.tag == "th" and not (element.text or len(element)):
                element.tag = "td"  # nothing that a screen reader could read out
        for parent in [*root.iter()]:
            for i, child in enumerate(parent):
                if child.tag == "table":
                    parent[i] = ElementTree.Element("div", {"class": "table", "tabindex": "0"})
                    parent[i].append(child)
