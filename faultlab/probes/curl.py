"""Probe: one page, fetched by curl. Source: curl(1), `--write-out %{json}`."""

from dataclasses import dataclass

from faultlab.engine.shell import Shell, json_of

_OUTCOME = r"-w '%{http_code} %{exitcode}\n'"
# To stderr, because what is in the buffer of stdout is lost when `timeout` ends curl. But there
# curl also shows the progress of parallel fetches, even with -s.
_UNBUFFERED = r"-w '%{stderr}%{http_code} %{exitcode}\n' 2>&1"


@dataclass(frozen=True)
class Page:
    """The response that curl got. `exit_code` 0: complete, 28: a timeout. Times in seconds."""

    exit_code: int
    status: int
    bytes: int
    connect: float
    total: float


def get(machine: Shell, url: str, max_time: float = 3, *, gzip: bool = False) -> Page:
    """Fetch a page from a machine, and wait at most `max_time` seconds for it.

    With `gzip` the response can be compressed; `bytes` are those on the wire.
    """
    accept = "-H 'Accept-Encoding: gzip' " if gzip else ""
    command = f"curl -sS -o /dev/null --max-time {max_time:g} -w '%{{json}}' {accept}{url}"
    return parse(machine.run(command, timeout=max_time + 10).out)


def parse(out: str) -> Page:
    """Parse curl's JSON. Raises CannotRun if it is missing."""
    facts = json_of(out, "curl")
    return Page(
        exit_code=facts["exitcode"],
        status=facts["http_code"],
        bytes=facts["size_download"],
        connect=facts["time_connect"],
        total=facts["time_total"],
    )


def arriving(machine: Shell, url: str, *, tries: int, max_time: float) -> int:
    """Count how many of `tries` parallel fetches get their page within `max_time` seconds."""
    return _arrived(_at_once(machine, url, tries, max_time, _OUTCOME))


def apart(machine: Shell, url: str, *, tries: int, gap: float, max_time: float) -> int:
    """Count how many of `tries` users, `gap` seconds apart, get their page within `max_time`.

    Each comes alone and does not wait for the one before, so no moment can suit all of them.
    """
    fetch = f"curl -s -o /dev/null --max-time {max_time:g} {_OUTCOME} '{url}?'$n"
    command = f"for n in $(seq {tries}); do {fetch} & sleep {gap:g}; done; wait"
    return _arrived(machine.run(command, timeout=tries * gap + max_time + 20).out)


def prompt(machine: Shell, url: str, *, tries: int, within: float, max_time: float) -> int:
    """Count how many of `tries` parallel fetches get their page within `within` seconds.

    The others go on until `max_time`, so that the server meets them as it does those of users.
    """
    said = "-w '%{http_code} %{exitcode} %{time_total}\n'"
    return parse_prompt(_at_once(machine, url, tries, max_time, said), within)


def _at_once(machine: Shell, url: str, tries: int, max_time: float, said: str) -> str:
    command = (
        f"curl -s -o /dev/null --parallel --parallel-immediate --parallel-max {tries} "
        f"--max-time {max_time:g} {said} '{url}?[1-{tries}]'"
    )
    return machine.run(command, timeout=max_time + 20).out


def parse_prompt(out: str, within: float) -> int:
    """Count the lines `200 0 SECONDS` with at most `within` seconds."""
    rows = [line.split() for line in out.splitlines()]
    return sum(row[:2] == ["200", "0"] and float(row[2]) <= within for row in rows)


def one_by_one(machine: Shell, url: str, *, count: int, max_time: float, seconds: float) -> int:
    """Count how many of `count` fetches, one by one, get their page within `max_time` seconds.

    `url` must already have a query. After `seconds` the remaining fetches are not tried.
    """
    return each(machine, f"{url}&visit=[1-{count}]", max_time=max_time, seconds=seconds)


def each(machine: Shell, url: str, *, max_time: float, seconds: float) -> int:
    """Count how many pages of a URL with ranges such as `[1-6]` come, one by one, as above."""
    command = (
        f"timeout {seconds:g} curl -s -o /dev/null --max-time {max_time:g} {_UNBUFFERED} '{url}'"
    )
    return _arrived(machine.run(command, timeout=seconds + 20).out)


def paced(machine: Shell, url: str, *, count: int, per_second: int, seconds: int) -> int:
    """Count how many of `count` pages come within `seconds`, each over a new connection.

    At most `per_second` are asked for in a second, one after the other. A page that takes more than
    five seconds does not count.
    """
    command = (
        f"timeout {seconds} curl -s -o /dev/null --max-time 5 -H 'Connection: close'"
        f" --rate {per_second}/s {_UNBUFFERED} '{url}?visit=[1-{count}]'"
    )
    return _arrived(machine.run(command, timeout=seconds + 30).out)


def _arrived(out: str) -> int:
    """Count the fetches that got their page, from a line of `_OUTCOME` for each."""
    return out.splitlines().count("200 0")
