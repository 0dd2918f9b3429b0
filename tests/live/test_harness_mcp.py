"""The MCP server, with a real client: the one of the SDK. It needs the extra `mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from faultlab.core.naming import stack_name
from faultlab.engine.docker.local import LocalEngine
from faultlab.engine.stack import Stack
from faultlab.lab import loader as labs
from tests.live.stacks import container
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(
        find_spec("mcp") is None, reason="the extra is not installed: pip install -e '.[mcp]'"
    ),
    pytest.mark.rotates(minutes=0.5),
    pytest.mark.beside,
    pytest.mark.filterwarnings("default"),
]
CASE = "case-41"
TRUTH = {"component": "web", "resource": "network", "cause": "mtu"}


def sdk() -> Any:
    """Import the SDK, which takes a second, only where it is used: each worker reads this file."""
    return import_module("mcp")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """The server removes its stack after its client has gone, whatever the client does to it."""
    yield
    engine = LocalEngine()
    until(lambda: engine.leftovers(stack_name(CASE)) == [], 120)


class Agent:
    """A client, and all that it was told."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.told: list[str] = []
        self.beats = 0

    async def call(self, tool: str, **arguments: Any) -> Any:
        async def beat(progress: float, total: float | None, message: str | None) -> None:
            self.beats += 1

        result = await self.client.call_tool(tool, arguments, progress_callback=beat)
        self.told += [part.text for part in result.content]
        return result

    async def run(self, machine: str, command: str, **how: Any) -> dict[str, Any]:
        result = await self.call("run", machine=machine, command=command, **how)
        assert not result.is_error, self.told[-1]
        output: dict[str, Any] = result.structured_content
        return output


@asynccontextmanager
async def serving(log: Path, *words: str) -> AsyncIterator[Agent]:
    mcp = sdk()
    args = ["-m", "faultlab", "mcp", *words, "--number", "41", "--later", "0"]
    server = mcp.StdioServerParameters(command=sys.executable, args=args, env={**os.environ})
    with log.open("w") as errors:
        async with mcp.Client(mcp.stdio_client(server, errlog=errors)) as client:
            yield Agent(client)


def said(log: Path) -> str:
    """What the server printed for the person who started it, once it has measured the result.

    On a busy machine it measures a fault that is still there three times, each in its own turn.
    """
    until(lambda: log.read_text().strip() != "", 300)
    return log.read_text().strip()


def test_a_client_repairs_a_lab_blind(tmp_path: Path) -> None:
    async def work() -> Agent:
        async with serving(tmp_path / "log", "mtu") as agent:
            tools = (await agent.client.list_tools()).tools
            assert {tool.name for tool in tools} == {"ticket", "run", "diagnose", "check"}
            agent.told += [f"{tool.description} {tool.input_schema}" for tool in tools]
            assert labs.load("mtu").ticket.rstrip() in (await agent.call("ticket")).content[0].text
            assert agent.beats > 0, "the start takes seconds, and the client is told so"
            early = await agent.call("check")
            assert early.is_error and "Say what is wrong first" in agent.told[-1]
            where = "hostname; env; cat /etc/hosts /proc/1/cmdline /proc/*/cmdline"
            await agent.run("web", where)
            assert "mtu 100" in (await agent.run("web", "ip link show eth0"))["out"]
            told = [text.replace("mtu 100", "") for text in agent.told]
            wrong = await agent.call("diagnose", component="web", resource="network", cause="x")
            assert wrong.is_error and "'x' is no cause" in agent.told[-1]
            assert not (await agent.call("diagnose", **TRUTH)).is_error
            lost = await agent.call("run", machine="mars", command="id")
            assert lost.is_error and "There is no machine 'mars'" in agent.told[-1]
            fixed = await agent.run("web", "ip link set dev eth0 mtu 1500")
            assert fixed["code"] == 0
            checked = (await agent.call("check")).structured_content
            assert checked["fixed"] is True and checked["says"]
            agent.told = [*told, agent.told[-1]]
        return agent

    agent = anyio.run(work)
    words = [line for text in agent.told for line in text.splitlines() if " - cause:" not in line]
    assert "mtu" not in "\n".join(words).lower()
    assert "faultlab" not in "\n".join(words)
    result = said(tmp_path / "log")
    assert "repaired True, cause True, component True, resource True, false_alarm False" in result


def test_a_container_that_ends_is_a_failure_of_the_agent(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "log", "mtu") as agent:
            await agent.run("web", "true")
            stack = Stack(LocalEngine(), stack_name(CASE))
            container(stack["web"]).kill()
            done = await agent.run("web", "true")
            assert done["code"] == 126 and "web has ended" in done["err"]

    anyio.run(work)
    assert "repaired False" in (result := said(tmp_path / "log"))
    assert "aborted by the agent" in result


def test_a_client_that_goes_at_once_leaves_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path / "log", "mtu") as agent:
            await agent.client.list_tools()

    anyio.run(work)
    assert said(tmp_path / "log")
