"""Collections: what is found where, how its labs are called, and how one is added from Git."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from faultlab.cli.main import VERBS
from faultlab.core import make, naming
from faultlab.core.errors import BadInput
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.kubernetes.engine import KubernetesEngine
from faultlab.engine.vm.engine import VmEngine
from faultlab.lab import checks, collection, curriculum, images, vocabulary
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab
from faultlab.learn import mystery
from faultlab.run import digest, placement
from faultlab.run import run as runs
from faultlab.run.contract import Contract, walk
from faultlab.run.phase import FAULTY, FIXED
from faultlab.run.record import Record
from faultlab.run.run import Run
from faultlab.verify.case import Runner
from faultlab.workshop import plan
from tests.unit.conftest import REPO, Project, said
from tests.unit.conftest import Run as Verbs
from tests.unit.fake import FakeEngine, FakeMachine, Network

EXAMPLE = REPO / "tests/collection"
PAGE = (REPO / "docs/adding-a-collection.md").read_text()
CLIENTS, EVICT = "acme/redis-clients", "acme/redis-evict"


@pytest.fixture
def acme(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the example, beside a copy of the project, and on the path."""
    root = tmp_path / "acme"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv(collection.PATH, str(root))
    return root


def another(acme: Path, name: str, lab: str) -> Path:
    """Make a collection of this name with one lab beside the example."""
    root = acme.with_name(name)
    shutil.copytree(acme, root)
    shutil.rmtree(root / "labs/redis-clients")
    (root / "labs/redis-evict").rename(root / "labs" / lab)
    toml = root / "labs" / lab / "lab.toml"
    toml.write_text(toml.read_text().replace('needs      = ["redis-clients"]\n', ""))
    facts = root / collection.FILE
    facts.write_text(facts.read_text().replace('"acme"', f'"{name}"'))
    return root


def test_ours_is_a_collection_like_others() -> None:
    ours = collection.ours()
    assert (ours.root, ours.stack) == (REPO, REPO / "labs/stack.yaml")
    assert labs.ids() == labs.ours() == ours.ids()
    assert labs.load(ours.control).control and labs.load("mtu").collection == ours
    assert {lab.tier for lab in curriculum.of(ours)} == {*ours.tiers}
    assert [*dict.fromkeys(lab.track for lab in curriculum.of(ours))] == [*ours.tracks]


def test_the_page_shows_the_example() -> None:
    found = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in found] == ["collection.toml", "stack.yaml"]
    for name, text in found:
        assert text == (EXAMPLE / name).read_text()
    table = PAGE[PAGE.index("| key |") : PAGE.index("Stacks, containers")]
    own = {name for name, its in collection.Collection.model_fields.items() if not its.exclude}
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == own


def test_its_labs_come_after_ours(acme: Path) -> None:
    assert labs.ids() == [*labs.ours(), CLIENTS, EVICT]
    lab = labs.load(EVICT)
    assert (lab.id, lab.folder, lab.needs) == (EVICT, acme / "labs/redis-evict", [CLIENTS])
    assert [fault.id for fault in lab.faults] == ["redis-evict"]
    assert lab.services.needed(lab.daemons) == ["client", "store", "redis"]
    assert [one.id for one in curriculum.labs_in_order()][-2:] == [CLIENTS, EVICT]
    assert curriculum.heading(EVICT, lab.track) == "acme: Rooms"
    assert checks.load(lab).symptom[0].name == "users who stay logged in, of 1000"


def test_its_images_are_its_own_and_ours(acme: Path) -> None:
    lab = labs.load(EVICT)
    assert lab.services.images(lab.daemons) == ["machine", "acme/redis"]
    assert images.folder("acme/redis") == acme / "images/redis"
    assert images.tag("acme/redis").startswith("faultlab/acme-redis:")
    (stack,) = lab.services.documents("x", lab.daemons, "198.18.0.0/24", {})
    assert stack["services"]["redis"]["image"] == images.tag("acme/redis")
    assert stack["services"]["store"]["image"] == images.tag("machine")


def test_its_images_are_built_with_ours(acme: Path) -> None:
    """Where labs of both are verified; an engine that has ready-made images does not take it."""
    chosen = [labs.load("mtu"), labs.load(EVICT)]
    assert placement._images(chosen[:1]) is None
    assert placement._images(chosen) == [*images.names(), "acme/redis"]
    assert "acme/redis" in VmEngine.cannot(object.__new__(VmEngine), chosen[1])
    assert "acme/redis" in KubernetesEngine.cannot(object.__new__(KubernetesEngine), chosen[1])


def test_an_image_of_a_collection_that_is_gone() -> None:
    with pytest.raises(BadInput, match="There is no collection 'acme'"):
        images.folder("acme/redis")


def test_its_names_have_no_slash(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert naming.stack_name(EVICT) == "faultlab-acme-redis-evict"
    record = Record.create(EVICT, naming.stack_name(EVICT), {})
    assert re.fullmatch(r"\d{8}-\d{6}-acme-redis-evict-[0-9a-f]{4}", record.id)
    assert Record.ids(EVICT) == [record.id] and Record.ids(CLIENTS) == []
    assert Record.read(record.id).facts["lab"] == EVICT
    every = {naming.flat(lab_id) for lab_id in labs.ids()}
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in every)


def test_what_make_cannot_say_is_said_with_faultlab() -> None:
    """A target of make has no slash."""
    assert make.plain(f"Next: make check-{EVICT}") == f"Next: faultlab check {EVICT}"
    assert make.plain(f"make reset-{EVICT} fix-{EVICT}") == (
        f"faultlab reset {EVICT}; faultlab fix {EVICT}"
    )
    assert make.plain("make check-mtu; see docs/use.md") == "make check-mtu; see docs/use.md"


def test_two_labs_of_one_name_for_stacks(acme: Path, project: Project, faultlab: Verbs) -> None:
    shutil.copytree(project.root / "labs/mtu", project.root / "labs/acme-redis-evict")
    assert faultlab("list") == said(
        f"The labs acme-redis-evict and {EVICT} would have stacks of one name: acme-redis-evict.",
        f"env {collection.PATH}=, or rename one of them",
    )


def test_two_labs_of_two_collections(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = another(acme, "acme-redis", "evict")
    monkeypatch.setenv(collection.PATH, f"{acme}:{other}")
    with pytest.raises(BadInput, match=f"The labs {EVICT} and acme-redis/evict would have"):
        labs.ids()


def test_two_collections_of_one_name(
    acme: Path, monkeypatch: pytest.MonkeyPatch, faultlab: Verbs
) -> None:
    other = acme.with_name("copy")
    shutil.copytree(acme, other)
    monkeypatch.setenv(collection.PATH, f"{acme}:{other}")
    what = f"Two collections have the name 'acme': {acme} and {other}."
    assert faultlab("start", EVICT) == said(what, f"env {collection.PATH}=")


def test_one_folder_twice_is_one_collection(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(collection.PATH, f"{acme}:{acme}/")
    assert [its.name for its in collection.others()] == ["acme"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"acme"', '"Acme"', "name: String should match pattern '^[a-z][a-z0-9-]*$', got 'Acme'"),
        ('"acme"', '"faultlab"', "name: expected another name, got 'faultlab'"),
        ('"0.1"', '"99.0"', "faultlab: expected at most 0.1.0, got '99.0'"),
        ('["store", "control"]', "[]", "tiers: List should have at least 1 item after validation"),
        ('client   = "client"', 'clients = "x"', "clients: unknown key"),
        ('faultlab = "0.1"\n', "", "faultlab: missing key"),
    ],
)
def test_a_mistake_in_its_facts(
    old: str, new: str, problem: str, acme: Path, faultlab: Verbs
) -> None:
    file = acme / collection.FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    got = faultlab("list")
    assert got.code == 2 and got.err.startswith(f"faultlab: {file}: {problem}")
    assert f"\n  next: edit {file}" in got.err


def test_a_client_that_is_no_machine(acme: Path, faultlab: Verbs) -> None:
    file = acme / collection.FILE
    file.write_text(file.read_text().replace('= "client"', '= "shop"'))
    file = acme / "stack.yaml"
    assert faultlab("start", EVICT) == said(f"{file}: services.shop: missing key", f"edit {file}")


def test_another_client(acme: Path) -> None:
    for file in (acme / collection.FILE, acme / "stack.yaml"):
        text = file.read_text().replace('"client"', '"shop"').replace("client-user:", "shop-user:")
        file.write_text(text.replace("  client:\n", "  shop:\n"))
    assert labs.load(EVICT).services.needed(["redis"]) == ["shop", "store", "redis"]


def test_a_path_from_here(monkeypatch: pytest.MonkeyPatch, faultlab: Verbs) -> None:
    """Some commands are started in another folder."""
    monkeypatch.setenv(collection.PATH, "tests/collection")
    assert faultlab("list") == said(
        "FAULTLAB_PATH: expected paths from / on, got 'tests/collection'.",
        f"export FAULTLAB_PATH={Path('tests/collection').absolute()}",
    )


@pytest.mark.parametrize("value", ["acme_labs:where", "acme_labs:folder"])
def test_an_installed_package(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names a folder, or something that returns one."""
    site = tmp_path / "site"
    (site / "acme-1.0.dist-info").mkdir(parents=True)
    (site / "acme-1.0.dist-info/METADATA").write_text("Name: acme\nVersion: 1.0\n")
    points = f"[{collection.GROUP}]\nacme = {value}\n"
    (site / "acme-1.0.dist-info/entry_points.txt").write_text(points)
    code = f"where = {str(EXAMPLE)!r}\n\ndef folder():\n    return where\n"
    (site / "acme_labs.py").write_text(code)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "acme_labs", raising=False)
    assert [its.root for its in collection.others()] == [EXAMPLE]


# --- verbs -----------------------------------------------------------------------------------


def test_the_list(acme: Path, faultlab: Verbs) -> None:
    got = faultlab("list")
    assert got.code == 0 and "acme: Doors" in got.out and EVICT in got.out
    found = json.loads(faultlab("list", "--json", "--tier", "store").out)
    assert [lab["id"] for lab in found] == [CLIENTS, EVICT]
    assert "acme" not in faultlab("list", "--markdown", "labs").out


def test_an_unknown_lab_of_it(acme: Path, faultlab: Verbs) -> None:
    what = f"There is no lab called 'acme/redis-evct'; did you mean {EVICT}?"
    for verb in ("start", "hint", "check", "debrief", "down"):
        assert faultlab(verb, "acme/redis-evct") == said(what, f"faultlab start {EVICT}")


def test_its_lesson(acme: Path, faultlab: Verbs) -> None:
    got = json.loads(faultlab("debrief", EVICT, "--json").out)
    assert got["lab"] == EVICT and got["truth"]["cause"] == "redis-evict"
    assert "docker restart faultlab-acme-redis-evict-redis" in got["lesson"]


def test_a_mystery_of_it(acme: Path) -> None:
    """A control of another stack would tell that nothing is wrong."""
    assert [lab.id for lab in mystery.candidates("store", None)] == [CLIENTS, EVICT]
    assert {CLIENTS, "mtu", "healthy"} <= {lab.id for lab in mystery.candidates(None, None)}
    assert mystery.answered("store", "memory", "redis-evict")["cause"] == "redis-evict"
    assert vocabulary.words(labs.load(EVICT).collection).causes == ["redis-clients", "redis-evict"]
    assert "redis-evict" not in vocabulary.words(collection.ours()).causes


def test_the_words_of_its_diagnosis(acme: Path) -> None:
    """Without a meaning, except for those that faultlab has as well."""
    found = vocabulary.meanings(labs.load(EVICT))
    assert found["cause"] == {"redis-clients": "", "redis-evict": "", "none": "nothing is wrong"}
    assert set(found["component"]) == {"store", "none"}
    assert "redis-evict" not in vocabulary.meanings(labs.load("mtu"))["cause"]


def test_a_class_with_ours_and_one_of_it(acme: Path, tmp_path: Path) -> None:
    file = tmp_path / "class.toml"
    file.write_text(f'title = "x"\nseats = ["Ada"]\nlabs = ["mtu", "{EVICT}"]\n')
    assert [lab.id for lab in plan.read(str(file)).wanted()] == ["mtu", EVICT]


def test_a_matrix_is_of_one_stack(acme: Path, faultlab: Verbs) -> None:
    got = faultlab("matrix", "mtu", EVICT)
    assert got.code == 2 and f"{EVICT} and mtu have two stacks" in got.err


@pytest.mark.parametrize("name", ["fix", "check", "down", "hint", "reset"])
def test_help_is_the_same(name: str, acme: Path) -> None:
    assert VERBS[name].make_context(name, [EVICT]).params["lab"] == EVICT


# --- checks and digests ----------------------------------------------------------------------


MIXED = """
import os

def test_well() -> None:
    assert os.environ["FAULTLAB_LAB"] == "acme/redis-evict"

def test_ill() -> None:
    assert 0, "measured 5, wanted 0"
"""


def test_verify_runs_the_check_in_its_folder(acme: Path) -> None:
    """The verdicts come by our conftest.py, which is not beside it."""
    (acme / "labs/redis-evict/check.py").write_text(MIXED)
    (acme / "labs/redis-evict/conftest.py").write_text("raise SystemExit(5)\n")
    case = Runner({EVICT: LocalEngine.name}).run(labs.load(EVICT), 1)
    told = [(test["test"], test["verdict"], test["text"]) for test in case.tests]
    assert told == [("test_well", "pass", ""), ("test_ill", "fail", "measured 5, wanted 0")]
    assert (case.lab, case.verdict) == (EVICT, "fail") and case.lab_digest


def test_every_test_of_a_lab_is_in_it(acme: Path) -> None:
    """It cannot run here, so each of them is skipped or broken; none is missing."""
    case = Runner({EVICT: LocalEngine.name}).run(labs.load(EVICT), 1)
    names = {name for name in vars(Contract) if name.startswith("test_")}
    assert {test["test"] for test in case.tests} == names


def test_a_check_can_be_beside_ours_or_in_the_folder(project: Project) -> None:
    assert checks.files(labs.load("mtu")) == [project.root / "checks/test_mtu.py"]
    was = digest.walk("mtu")
    (project.root / "checks/test_mtu.py").rename(project.root / "labs/mtu/check.py")
    assert checks.files(labs.load("mtu")) == [project.root / "labs/mtu/check.py"]
    assert checks.load(labs.load("mtu")).symptom and digest.walk("mtu") == was


def test_a_check_that_is_missing(acme: Path, faultlab: Verbs) -> None:
    file = acme / "labs/redis-evict/check.py"
    file.unlink()
    what = f"{file}: missing file; every lab has its check"
    assert faultlab("doctor", EVICT) == said(what, "see docs/adding-a-lab.md")


def test_its_digest(acme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its check, steps, stack and image count; comments and another lab do not."""
    before, file = digest.walk(EVICT), acme / "labs/redis-evict/check.py"
    text = file.read_text()
    file.write_text(f"# a comment\n{text}")
    assert digest.walk(EVICT) == before
    other = acme / "labs/redis-clients/check.py"
    other.write_text(other.read_text().replace("SHOPS = 60", "SHOPS = 61"))
    assert digest.walk(EVICT) == before
    file.write_text(text.replace("USERS = 1000", "USERS = 1001"))
    assert digest.walk(EVICT) != before
    file.write_text(text)
    conf = acme / "images/redis/lab.conf"
    conf.write_text(conf.read_text() + "# another\n")
    images.tag.cache_clear()
    assert digest.walk(EVICT) != before


def test_no_collection_changes_a_digest_of_ours(
    acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = digest.walk("mtu"), digest.fault(labs.load("mtu")), digest.program("mtu")
    monkeypatch.delenv(collection.PATH)
    assert (digest.walk("mtu"), digest.fault(labs.load("mtu")), digest.program("mtu")) == with_it


# --- a whole lab on the fake engine ----------------------------------------------------------


class Redis(Network):
    """Redis, as far as the check of redis-clients sees it."""

    file = running = 1000
    rejected = 0

    def answer(self, command: str, machine: str) -> str | None:
        if found := re.search(r"maxclients \.\*/maxclients (\d+)", command):
            self.file = int(found[1])
        elif found := re.fullmatch(r"redis-cli config set maxclients (\d+)", command):
            self.running = int(found[1])
        elif "PING" in command:
            self.rejected += max(0, 60 - self.running)
            return f"{min(60, self.running)}\n"
        elif "info stats" in command:
            return f"rejected_connections:{self.rejected}\r\n"
        elif "set ask-" in command:
            return "48bdcd2e9d7ffafd\n"
        elif not command.startswith(("sed", "sysctl")):
            return super().answer(command, machine)
        return ""


class RedisEngine(FakeEngine):
    """Stacks with a Redis."""

    def launch(self, lab: Lab, stack: str, run_id: str, folder: Path, slot: str = "") -> None:
        super().launch(lab, stack, run_id, folder)
        self.stacks_up[stack].network = Redis()


def test_a_whole_walk(acme: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def restart(machine: FakeMachine) -> None:
        its = machine.fake.stacks_up[machine.stack].network
        assert isinstance(its, Redis)
        its.running, its.rejected = its.file, 0

    monkeypatch.setattr(FakeMachine, "restart", restart)
    monkeypatch.setattr(runs, "_TAKES_EFFECT", 0.0)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    begun = Run.begin(RedisEngine(), labs.load(CLIENTS), naming.stack_name(CLIENTS))
    walk(begun)
    begun.down()
    assert {FAULTY, FIXED} <= {*begun.phases}
    assert begun.record.facts["images"].keys() == {"machine", "acme/redis"}
    told = Contract()
    for name in (name for name in dir(Contract) if name.startswith("test_")):
        getattr(told, name)(begun)


# --- add -------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(project: Project, tmp_path: Path) -> tuple[Path, str]:
    """The example in a repository, and the commit that has it; there is a later one."""
    root = tmp_path / "remote"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("__pycache__"))
    git(root.parent, "init", "-q", "-b", "main", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "labs")
    commit = git(root, "rev-parse", "HEAD")
    shutil.rmtree(root / "labs/redis-evict")
    git(root, "commit", "-qam", "one lab less")
    return root, commit


def test_a_collection_is_added_at_its_commit(repository: tuple[Path, str], faultlab: Verbs) -> None:
    root, commit = repository
    got = faultlab("add", f"{root}@{commit[:9]}", "--yes", "--json")
    assert got.code == 0, got.err
    added = json.loads(got.out)
    folder = collection.added() / "acme"
    assert (added["name"], added["commit"], added["folder"]) == ("acme", commit, str(folder))
    assert added["labs"] == [CLIENTS, EVICT]
    assert added["code"] == {
        "python": ["labs/redis-clients/check.py", "labs/redis-evict/check.py"],
        "dockerfiles": ["images/redis/Dockerfile"],
        "commands": {CLIENTS: 7, EVICT: 8},
    }
    assert git(folder, "rev-parse", "HEAD") == commit
    assert EVICT in labs.ids() and EVICT in faultlab("list").out


def test_its_code_is_shown(repository: tuple[Path, str], faultlab: Verbs) -> None:
    root, commit = repository
    out = faultlab("add", f"{root}@{commit}", "--yes").out
    for part in ("with your rights", "redis-evict/check.py", "images/redis/Dockerfile", "as root"):
        assert part in out


def test_a_bundle_of_git(repository: tuple[Path, str], tmp_path: Path, faultlab: Verbs) -> None:
    root, commit = repository
    git(root, "bundle", "create", "-q", str(tmp_path / "labs.bundle"), "main")
    assert faultlab("add", f"{tmp_path}/labs.bundle@{commit}", "--yes").code == 0
    assert EVICT in labs.ids()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("\n", 3), ("n\n", 3)])
def test_it_asks(
    answer: str,
    code: int,
    repository: tuple[Path, str],
    faultlab: Verbs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, commit = repository
    typed = io.StringIO(answer)
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)
    got = faultlab("add", f"{root}@{commit}")
    assert got.code == code and "Do you trust this code" in got.err
    assert [*collection.added().iterdir()] == ([] if code else [collection.added() / "acme"])


def test_without_a_person_it_is_not_added(
    repository: tuple[Path, str], faultlab: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, commit = repository
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    got = faultlab("add", f"{root}@{commit}")
    assert got.code == 3 and "no terminal to ask you in" in got.err
    assert f"next: faultlab add {root}@{commit} --yes" in got.err
    assert [*collection.added().iterdir()] == []


def refused(faultlab: Verbs, source: str, code: int, what: str) -> None:
    """`add` does not take it, and leaves nothing."""
    before = sorted(collection.added().glob("*"))
    got = faultlab("add", source, "--yes")
    assert (got.code, what in got.err) == (code, True), got.err
    assert sorted(collection.added().glob("*")) == before


def test_what_is_not_added(repository: tuple[Path, str], faultlab: Verbs) -> None:
    root, commit = repository
    for source in (str(root), f"{root}@main", f"{root}@", f"@{commit}"):
        refused(faultlab, source, 2, "expected URL@COMMIT")
    refused(faultlab, f"-x@{commit}", 2, "No such option '-x'")
    refused(faultlab, f"{root}@{'0' * 40}", 3, "git says nothing of")
    refused(faultlab, f"{root}/nowhere@{commit}", 3, "cannot be cloned")
    git(root, "branch", "abcdef1", commit)
    refused(faultlab, f"{root}@abcdef1", 3, "abcdef1")
    assert faultlab("add", f"{root}@{commit}", "--yes").code == 0
    refused(faultlab, f"{root}@{commit}", 2, "There is a collection 'acme' already")


def test_a_link_out_of_it(repository: tuple[Path, str], faultlab: Verbs) -> None:
    root, _ = repository
    (root / "labs/redis-clients/more.md").symlink_to("/etc/hostname")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a link")
    link = "labs/redis-clients/more.md is a link to a place outside the collection"
    refused(faultlab, f"{root}@{git(root, 'rev-parse', 'HEAD')}", 2, link)


def test_no_code_of_it_runs_before_it_is_trusted(
    repository: tuple[Path, str], faultlab: Verbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = repository
    mark = tmp_path / "ran"
    (root / "labs/redis-clients/check.py").write_text(f"open({str(mark)!r}, 'w')\n")
    git(root, "commit", "-qam", "a check that does something")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert faultlab("add", f"{root}@{git(root, 'rev-parse', 'HEAD')}").code == 3
    assert not mark.exists()
