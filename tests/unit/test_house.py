"""What the folders promise: who may import whom, and how plain the code is."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.unit.conftest import REPO

PACKAGE = REPO / "faultlab"
# From the ground to the roof; those in one line do not import each other.
LAYERS = (
    {"core"},
    {"lab"},
    {"engine"},
    {"probes"},
    {"run"},
    {"admin", "observe", "verify"},
    {"report"},
    {"learn", "score"},
    {"data", "oncall"},
    {"agents", "workshop"},
    {"cli"},
)
# Of the engine, from the ground as well. Its modules that all share are in no room.
ROOMS = ({"", "measure"}, {"docker"}, {"vm", "kubernetes"})
MODULES = sorted(
    str(file.relative_to(REPO).with_suffix("")).replace("/", ".").removesuffix(".__init__")
    for file in PACKAGE.rglob("*.py")
)
# Words that begin a riddle, and no sentence.
RIDDLES = ("What", "Those", "Who", "Whoever")


def file_of(module: str) -> Path:
    path = REPO / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree(module: str) -> ast.Module:
    """Parse a module. Python 3.11 raises SystemError if a thread of another test parses too."""
    text = file_of(module).read_text()
    with suppress(SystemError):
        return ast.parse(text)
    time.sleep(1)
    return ast.parse(text)


def imported(module: str) -> Iterator[str]:
    """The modules and names of faultlab that a module imports, also later: `Later("…")`."""
    for node in ast.walk(tree(module)):
        match node:
            case ast.ImportFrom(module=str(base), names=names) if base.split(".")[0] == "faultlab":
                for alias in names:
                    yield f"{base}.{alias.name}"
            case ast.Import(names=names):
                yield from (a.name for a in names if a.name.split(".")[0] == "faultlab")
            case ast.Call(func=ast.Name(id="Later"), args=[ast.Constant(value=str(name))]):
                yield name


def strings(module: str) -> Iterator[str]:
    """The texts in a module that can be a command or a pattern, and are no docstrings."""
    nodes = list(ast.walk(tree(module)))
    said = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node.value


def folder(name: str) -> str:
    """The folder of a module or of a name in it; empty for the package itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""


def layer(of: str) -> int:
    return next(level for level, folders in enumerate(LAYERS) if of in folders)


def module_of(name: str) -> str:
    """The module that an imported name is, or is in."""
    return name if name in MODULES else name.rpartition(".")[0]


def test_every_folder_has_its_layer() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert folders == set().union(*LAYERS)
    for name in sorted(folders):
        text = ast.get_docstring(tree(f"faultlab.{name}")) or ""
        assert text.endswith("."), f"faultlab/{name} does not say what it is"


def test_imports_go_down() -> None:
    wrong = []
    for module in filter(folder, MODULES):
        for name in imported(module):
            here, there = folder(module), folder(name)
            if there and here != there and layer(there) >= layer(here):
                wrong.append(f"{module} imports {name}")
    assert not wrong


def room(name: str) -> str:
    """The room of the engine that a module or a name is in; empty for what all share."""
    parts = name.split(".")
    return parts[2] if len(parts) > 3 and (PACKAGE / "engine" / parts[2]).is_dir() else ""


def test_rooms_of_the_engine_import_down() -> None:
    engine = [module for module in MODULES if folder(module) == "engine"]
    level = {name: number for number, names in enumerate(ROOMS) for name in names}
    assert {room(module) for module in engine} == {*level}
    pairs = [(m, name) for m in engine for name in imported(m) if folder(name) == "engine"]
    for here, there in {(room(module), room(name)) for module, name in pairs}:
        assert here == there or level[there] < max(1, level[here]), f"{here} imports {there}"


def test_no_module_imports_itself_by_others() -> None:
    graph = {name: {module_of(to) for to in imported(name)} - {name} for name in MODULES}
    left = {name: {to for to in its if to in graph} for name, its in graph.items()}
    while ready := [name for name, its in left.items() if not its]:
        for name in ready:
            del left[name]
        left = {name: its - set(ready) for name, its in left.items()}
    assert not left, f"a circle among {', '.join(sorted(left))}"


def test_private_names_stay_at_home() -> None:
    every = [(module, name) for module in MODULES for name in imported(module)]
    last = [(module, name, name.rpartition(".")[2]) for module, name in every]
    assert not [x for x in last if x[2].startswith("_") and not x[2].endswith("__")]


def test_docker_stays_in_the_engine() -> None:
    """Above it there is neither the SDK, nor a kernel that may be None."""
    sdk = re.compile(
        r"^\s*(import docker|from docker)\b|Later\(\"docker|kernel is (not )?None"
        r"|\.client\.(containers|images|api|networks|volumes)\b",
        re.MULTILINE,
    )
    above = [module for module in MODULES if folder(module) not in ("engine", "")]
    assert not [module for module in above if sdk.search(file_of(module).read_text())]


def test_no_docstring_is_a_riddle() -> None:
    found = []
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                found += [text] if text.startswith(tuple(f"{word} " for word in RIDDLES)) else []
    assert not found


def test_no_setting_goes_by_the_environment() -> None:
    """A namespace is an argument. A program is given its environment when it is started."""
    found = []
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                found += [module] if ast.unparse(node.value) == "os.environ" else []
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        *("ip -json", "tc -json", "nstat -j", "ss -Hl", "iptables -w", "&& conntrack -S"),
        *("/proc/stat", "/proc/meminfo", "/proc/vmstat", "/proc/diskstats", "cgi-fcgi"),
        *("cd /sys/fs/cgroup", "total=", "SHOW GLOBAL STATUS", "sysctl -a"),
    ],
)
def test_one_module_reads_a_source(source: str) -> None:
    """Others call it. A bundle copies sources for other tools, and reads none."""
    found = [
        module
        for module in MODULES
        if any(source in text for text in strings(module)) and not module.endswith(".recording")
    ]
    assert len(found) == 1
