"""Probe: clients that send a query again and again, by mysqlslap. Source: mysqlslap(1)."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Load:
    """So many queries, by so many clients at a time, and the seconds that took."""

    queries: int
    clients: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Queries a second."""
        return self.queries / self.seconds


def load(
    machine: Shell, *, host: str, schema: str, file: str, clients: int, queries: int, most: float
) -> Load:
    """Send the query in a file of the machine as the user `shop`.

    Raises CannotRun when it takes more than `most` seconds, or a client could not ask.
    """
    access = f"--host={host} --user=shop --password=shop --create-schema={schema} --no-drop --csv"
    what = f"--query={file} --delimiter=';' --concurrency={clients} --number-of-queries={queries}"
    return parse(machine.must(f"mysqlslap {access} {what} 2>&1", timeout=most), queries)


def parse(out: str, queries: int) -> Load:
    """Read the line `engine,kind,mean,least,most,clients,queries of each`; it names no engine.

    Raises CannotRun for anything else: mysqlslap goes on counting for clients that cannot connect.
    """
    found = re.fullmatch(r",mixed,([\d.]+),[\d.]+,[\d.]+,(\d+),\d+", out.strip())
    if found is None:
        raise CannotRun(f"mysqlslap gave no result: {out[:80]!r}")
    return Load(queries, int(found[2]), float(found[1]))
