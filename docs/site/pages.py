"""Pages: what MkDocs asks for while it builds the site. It reads the repository as it is.

A page is known by its path in the repository, so that links which work on a forge work here too.
Its place in the site is shorter: docs/use.md is use.html. That of a ticket does not name the cause:
labs/mtu/ticket.md is labs/p02.html.
"""

import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from docs.site import commands, labs, schemas
from docs.site.commonmark import CommonMark
from faultlab.lab import collection, curriculum
from faultlab.lab.model import Lab

_LOG = logging.getLogger("mkdocs.site")  # MkDocs counts the warnings of its own loggers
ROOT = Path(__file__).parents[2]
SHOWN = {".svg", ".png", ".gif", ".json", ".css", ".js"}  # a browser shows or uses them as they are


class Site:
    """The build in progress: the files so far, the page that is read, and who hears of it."""

    config: MkDocsConfig
    files: Files
    page: str
    note: Callable[[str], None] = staticmethod(lambda _: None)


def on_config(config: MkDocsConfig) -> None:
    """Put the generated entries into the navigation, and our reader in front of MkDocs's."""
    Site.config = config
    config.nav = [*_filled(config.nav or [])]
    config.markdown_extensions.append(CommonMark(lead, place))  # type: ignore[arg-type]


def _filled(nav: list[Any]) -> Iterator[Any]:
    """Yield the navigation with a list in place of each `MADE NAME`."""
    made: dict[str, Callable[[], list[Any]]] = {
        "labs": lambda: ["labs/index.md", *_tracks()],
        "inputs": lambda: [_entry(f) for f in _schemas() if f.stem.endswith(".toml")],
        "json": lambda: (
            ["docs/json/index.md"] + [_entry(f) for f in _schemas() if not f.stem.endswith(".toml")]
        ),
        "project": _project,
        "decisions": lambda: ["docs/decisions/index.md", *map(_in_repository, _decisions())],
    }
    for entry in nav:
        match entry:
            case dict():
                [(title, its)] = entry.items()
                inner = [*_filled(its)] if isinstance(its, list) else its
                yield from [{title: inner}] if inner else []
            case str() if entry.startswith("MADE "):
                yield from made[entry.removeprefix("MADE ")]()
            case _:
                yield entry


def _entry(file: Path) -> dict[str, str]:
    return {file.stem: f"docs/json/{file.stem}.md"}


def _tracks() -> Iterator[dict[str, list[dict[str, str]]]]:
    for track, title in collection.ours().tracks.items():
        yield {title: [{x.code: f"labs/{x.id}/ticket.md"} for x in _labs() if x.track == track]}


def _project() -> list[str]:
    """Return the documents that a forge looks for."""
    return sorted(_in_repository(file) for file in ROOT.glob("[A-Z]*.md"))


def _decisions() -> list[Path]:
    return sorted(ROOT.glob("docs/decisions/*.md"))


@cache
def _labs() -> list[Lab]:
    return curriculum.of(collection.ours())


@cache
def _schemas() -> list[Path]:
    return sorted(ROOT.glob("docs/json/*.json"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the theme, and of the repository all that has a page."""
    theme = [file for file in files if file.src_dir != config.docs_dir]
    Site.files = Files(theme)
    assets = [_in_repository(file) for file in sorted(ROOT.glob("docs/site/assets/*"))]
    documents = [_in_repository(file) for file in sorted(ROOT.glob("docs/**/*.md"))]
    for name in [*assets, *documents, *_project()]:
        Site.files.append(copied(name))
    for name, text in _made():
        Site.files.append(_placed(File.generated(config, name, content=text)))
    for lab in _labs():
        lesson = copied(f"labs/{lab.id}/README.md")
        lesson.inclusion = InclusionLevel.NOT_IN_NAV  # a reader comes to the ticket first
        Site.files.append(lesson)
    return Site.files


def _made() -> Iterator[tuple[str, str]]:
    """Yield each page that no file holds: its path, and its Markdown."""
    yield "labs/index.md", labs.catalogue(_labs())
    for lab in _labs():
        yield f"labs/{lab.id}/ticket.md", labs.ticket(lab)
    yield "docs/cli.md", commands.page({file.stem for file in _schemas()})
    heads = [(file.read_text().partition("\n")[0], file.name) for file in _decisions()]
    links = [f"- [{head.removeprefix('# ')}]({name})" for head, name in heads]
    yield "docs/decisions/index.md", "\n".join(["# Decisions\n", *links])
    yield "docs/json/index.md", schemas.index(_schemas())
    for file in _schemas():
        yield f"docs/json/{file.stem}.md", schemas.page(file)


def _in_repository(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def _code(lab_id: str) -> str:
    return next((lab.code for lab in _labs() if lab.id == lab_id), lab_id)


def copied(name: str) -> File:
    """Return a file of the repository as a file of the site."""
    return _placed(File.generated(Site.config, name, abs_src_path=str(ROOT / name)))


def _placed(file: File) -> File:
    """Give a file its place in the site. Browsers show a file of another kind as text."""
    name = file.src_uri
    if name.startswith("labs/") and name.endswith(("/ticket.md", "/README.md")):
        _, lab, kind = name.split("/")
        name = f"labs/{_code(lab)}.html" if kind == "ticket.md" else f"labs/{lab}-lesson.html"
    elif name.endswith(".md"):
        name = name.removesuffix(".md") + ".html"
    elif Path(name).suffix not in SHOWN:
        name += ".txt"
    top = "" if "/" in name else "project/"
    file.dest_uri = top + name.removeprefix("docs/").removeprefix("site/")
    return file


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Say which page is read, and warn above a lesson. Search finds tickets before lessons."""
    name = page.file.src_uri
    Site.page = name
    Site.note(name)
    if name == "docs/index.md":
        page.meta["hide"] = ["navigation"]
    if name == "docs/proof.md":  # it has every word of every lab, and would come first
        page.meta["search"] = {"exclude": True}
    if not name.startswith("labs/"):
        return markdown
    if name.endswith("/ticket.md"):
        page.meta["search"] = {"boost": 4}
    if not name.endswith("/README.md"):
        return markdown
    page.meta["hide"] = ["navigation"]
    return labs.lesson(markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the dialog of the search, which has no name in the theme, for those who hear a page."""
    nameless = '<div class="md-search" data-md-component="search" role="dialog"'
    return output.replace(nameless, f'{nameless} aria-label="Search"')


def lead(link: str) -> str:
    """Return a link that MkDocs can follow: to the index of a folder, or to a copy of a file.

    MkDocs warns of those that lead nowhere.
    """
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return link
    here = dirname(Site.page)
    there = normpath(join(here, parts.path))
    if f"{there}/index.md" in Site.files.src_uris:
        there += "/index.md"
    elif there not in Site.files.src_uris and (ROOT / there).is_file() and parts.path[-3:] != ".md":
        Site.files.append(copied(there))
    return parts._replace(path=relpath(there, here or ".")).geturl()


def place(link: str) -> str:
    """Return where a file is in the site, as seen from the page. Warns if it is not there."""
    there = Site.files.src_uris.get(normpath(join(dirname(Site.page), lead(link))))
    if there is None:
        _LOG.warning(f"Doc file '{Site.page}' shows '{link}', which does not exist.")
        return link
    return there.url_relative_to(Site.files.src_uris[Site.page])
