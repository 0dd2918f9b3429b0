"""Probe: one page, fetched by curl. Source: curl(1), `--write-out %{json}`."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell, json_of

_OUTCOME = r"-w '%{http_code} %{exitcode}\n'"


@dataclass(frozen=True)
class Page:
    """The answer that curl got. `exit_code` 0: complete, 28: a time-out; times in seconds."""

    exit_code: int
    status: int
    bytes: int
    connect: float
    total: float


def get(machine: Shell, url: str, max_time: float = 3, *, gzip: bool = False) -> Page:
    """Fetch a page from a machine and wait at most `max_time` seconds for it.

    With `gzip` it may come compressed, and `bytes` are those that came.
    """
    accept = "-H 'Accept-Encoding: gzip' " if gzip else ""
    command = f"curl -sS -o /dev/null --max-time {max_time:g} -w '%{{json}}' {accept}{url}"
    return parse(machine.run(command, timeout=max_time + 10).out)


def parse(out: str) -> Page:
    """Read curl's JSON. Raises CannotRun when there is none."""
    facts = json_of(out, "curl")
    return Page(
        exit_code=facts["exitcode"],
        status=facts["http_code"],
        bytes=facts["size_download"],
        connect=facts["time_connect"],
        total=facts["time_total"],
    )


def arriving(machine: Shell, url: str, *, tries: int, max_time: float) -> int:
    """Count how many of `tries` fetches, begun at once, end with their page within `max_time`."""
    command = (
        f"curl -s -o /dev/null --parallel --parallel-immediate --parallel-max {tries} "
        f"--max-time {max_time:g} {_OUTCOME} '{url}?[1-{tries}]'"
    )
    return _arrived(machine.run(command, timeout=max_time + 20).out)


def one_by_one(machine: Shell, url: str, *, count: int, max_time: float, seconds: float) -> int:
    """Count how many of `count` fetches, one by one, end with their page within `max_time`.

    `url` has a query already. After `seconds` the rest is not tried any more.
    """
    command = (
        f"timeout {seconds:g} curl -s -o /dev/null --max-time {max_time:g}"
        f" {_OUTCOME} '{url}&visit=[1-{count}]'"
    )
    return _arrived(machine.run(command, timeout=seconds + 20).out)


def _arrived(out: str) -> int:
    """Count the fetches that ended with their page, from a line of `_OUTCOME` for each."""
    return out.splitlines().count("200 0")
