"""Who comes in to a class: links, certificates, and where its server listens."""

from __future__ import annotations

import asyncio.constants
import json
import os
import re
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync import client
from websockets.typing import Origin

from faultlab.core import paths
from faultlab.core.errors import BadInput, CannotRun
from faultlab.workshop import (
    access,
    address,
    connections,
)
from faultlab.workshop.access import TRAINER, Allowance, Keys
from faultlab.workshop.journal import Event, Journal
from tests.unit.served import (
    Served,
    served,
)


def test_addresses_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bridge to somebody's network is one of them, and Docker's are none."""
    links = {"br-lan": "198.18.1.1", "br-0123456789ab": "198.18.2.1", "docker0": "198.18.3.1"}
    told = [
        {"ifname": name, "addr_info": [{"family": "inet", "local": local}]}
        for name, local in links.items()
    ]
    (tmp_path / "ip").write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    names = address.hosts("0.0.0.0", [])
    assert "198.18.1.1" in names and not {"198.18.2.1", "198.18.3.1"} & {*names}


def test_tokens(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = Keys(file)
    keys.make([TRAINER, 1, 2], 1)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({keys.token(number) for number in (TRAINER, 1, 2)}) == 3
    assert all(len(keys.token(number)) >= 43 for number in (TRAINER, 1, 2))  # 256 bits
    one = keys.token(1)
    again = Keys(file)
    again.make([TRAINER, 1, 2], 1)
    assert again.token(1) == one
    found = again.visitor(one)
    assert found is not None and found.may(1) and not found.may(2) and not found.trainer
    again.replace(1, 1)
    assert again.visitor(one) is None and Keys(file).visitor(again.token(1)) == found
    for wrong in ("", one[:-1], one + "x", "é"):
        assert again.visitor(wrong) is None
    file.write_text("[]")
    with pytest.raises(CannotRun, match="damaged"):
        Keys(file)


def on_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will say what was put on the disk, and when a file took its name."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def replaced(part: Path, target: Path) -> Path:
        done.append(f"{target.name} is new")
        return replace(part, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    return done


def test_what_is_written_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a power failure: links that were handed out, records, the name of a new journal."""
    done = on_disk(monkeypatch)
    here = tmp_path.name
    Keys(tmp_path / "keys.json").make([1], 1)
    assert done == ["keys.json.part", "keys.json is new", here]
    done.clear()
    paths.write_whole(tmp_path / "run.json", "{}")
    assert done == ["run.json.part", "run.json is new", here]
    done.clear()
    journal = Journal(tmp_path / "events.jsonl")
    for _ in range(2):
        journal.add(Event.OPENED)
    assert done == ["events.jsonl", here, "events.jsonl"]


def test_a_link_that_cannot_be_written_does_not_end_the_old_one(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = here.keys.token(1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = here.post(TRAINER, "/trainer/seat/1/new-link")
    assert answer.status_code == 409 and "No space left" in answer.json()["error"]
    assert here.keys.token(1) == old and here.get(1, "/seat/1").status_code == 200
    assert Keys(here.keys.file).token(1) == old


def test_half_a_certificate_is_made_again(tmp_path: Path) -> None:
    """As after a power failure."""
    cert, key = access.certificate(tmp_path, ["lab.example"])
    for file in (cert, key):
        file.write_text("")
        access.usable(*map(str, access.certificate(tmp_path, ["lab.example"])))


def test_a_token_expires(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    keys.make([1], -1)
    old = keys.token(1)
    assert keys.visitor(old) is None
    keys.make([1], 1)
    assert keys.visitor(old) is None and keys.visitor(keys.token(1)) is not None


def test_an_allowance_is_used_up_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    some = Allowance(rate=1, stock=3)
    assert [some.take("a") for _ in range(4)] == [True, True, True, False]
    assert some.take("b")
    now[0] = 2.0
    assert [some.take("a") for _ in range(3)] == [True, True, False]
    now[0] = 99.0  # a long silence buys no more than the stock
    assert [some.take("a") for _ in range(4)] == [True, True, True, False]


def test_a_certificate(tmp_path: Path) -> None:
    cert, key = access.certificate(tmp_path, ["lab.example", "192.0.2.1"])
    assert key.stat().st_mode & 0o777 == 0o600
    first = cert.read_bytes()
    assert access.certificate(tmp_path, ["lab.example", "192.0.2.1"]) == (cert, key)
    assert cert.read_bytes() == first
    assert access.certificate(tmp_path, ["other"]) == (cert, key)
    assert cert.read_bytes() != first
    assert re.fullmatch(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", access.fingerprint(cert))
    with pytest.raises(CannotRun, match="is not a certificate"):
        access.fingerprint(key)


def test_a_chain_of_certificates(tmp_path: Path) -> None:
    """The server's own comes first, and a file can have text around it."""
    for name in ("own", "authority"):
        (tmp_path / name).mkdir()
    own, key = access.certificate(tmp_path / "own", ["lab.example"])
    authority, _ = access.certificate(tmp_path / "authority", ["authority.example"])
    chain = tmp_path / "chain.pem"
    chain.write_text(f"subject=CN = lab.example\n{own.read_text()}\n{authority.read_text()}")
    access.usable(str(chain), str(key))
    for cert in (authority, key, tmp_path / "none.pem"):
        with pytest.raises(BadInput, match=r"^--cert, --key: "):
            access.usable(str(cert), str(key))


def test_a_link_that_was_replaced_holds_no_more(here: Served) -> None:
    old = here.keys.token(1)
    with (
        here.events(1, "/seat/1/events") as views,
        here.terminal(1, "/seat/1/terminal/web") as page,
        here.terminal(1, "/seat/1/terminal/client") as other,
        here.terminal(1, "/seat/1/terminal/nginx") as closing,
    ):
        next(views)
        closing.close()
        link = here.post(TRAINER, "/trainer/seat/1/new-link").json()["link"]
        assert [told for told in views if told == {}] == [{}]  # it is told to go
        for one in (page, other):
            with pytest.raises(ConnectionClosed):
                one.recv(5)
    assert here.get(old, "/seat/1").status_code == 401
    assert here.get(None, f"/join?token={old}").status_code == 401
    assert here.get(None, link.removeprefix(here.url)).status_code == 303


def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cookie is for TLS only, terminals too; who says nothing is sent away."""
    cert, key = access.certificate(tmp_path, ["127.0.0.1"])
    trust = ssl.create_default_context(cafile=str(cert))
    with served(tmp_path, tls=(str(cert), str(key))) as it:
        url = f"https://127.0.0.1:{it.port}"
        answer = httpx.get(f"{url}/join?token={it.keys.token(1)}", verify=trust)
        assert answer.status_code == 303 and "Secure" in answer.headers["set-cookie"]
        assert answer.headers["set-cookie"].startswith("__Host-faultlab-class=")
        assert "Path=/;" in answer.headers["set-cookie"]
        assert "Domain" not in answer.headers["set-cookie"]
        cookie = f"__Host-faultlab-{it.session.plan.id}={it.keys.token(1)}"
        for origin, wanted in ((it.url, 403), (url, 200)):
            answer = httpx.post(
                f"{url}/seat/1/hint", headers={"origin": origin, "cookie": cookie}, verify=trust
            )
            assert answer.status_code == wanted
        with client.connect(
            f"wss://127.0.0.1:{it.port}/seat/1/terminal/web",
            origin=Origin(url),
            additional_headers={"cookie": cookie},
            ssl=trust,
        ) as page:
            page.send(json.dumps({"input": "ls"}))
            assert page.recv(5) == b"ls"
        assert asyncio.constants.SSL_HANDSHAKE_TIMEOUT == connections._PATIENCE == 10
        # Only now: on a busy machine the handshakes above may take longer than this.
        monkeypatch.setattr(asyncio.constants, "SSL_HANDSHAKE_TIMEOUT", 1.0)
        with socket.create_connection(("127.0.0.1", it.port), 10) as silent:
            assert silent.recv(1) == b""  # no handshake, no place
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{it.port}/")


def test_where_it_listens(tmp_path: Path) -> None:
    """Loopback alone is without TLS; names are those that a browser sends."""
    assert all(map(address.loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(address.loopback, ("0.0.0.0", "::", "192.0.2.1", "lab.example")))
    assert address.hosts("127.0.0.1", ["Lab.Example"])[0] == "lab.example"
    assert socket.gethostname().lower() in address.hosts("0.0.0.0", [])
    with pytest.raises(BadInput):
        address.listening("", 0)
    with pytest.raises(CannotRun, match=r"Cannot listen on .*, port 99999"):
        address.listening("127.0.0.1", 99999)
    with address.listening("127.0.0.1", 0) as line:
        assert line.getsockname()[0] == "127.0.0.1"
        with pytest.raises(CannotRun, match="Address already in use"):
            address.listening("127.0.0.1", line.getsockname()[1])
