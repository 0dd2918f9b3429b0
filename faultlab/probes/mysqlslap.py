"""Probe: clients that send a query repeatedly, by mysqlslap. Source: mysqlslap(1)."""

import re
from dataclasses import dataclass

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell


@dataclass(frozen=True)
class Load:
    """The number of queries, the number of clients at a time, and the seconds that they took."""

    queries: int
    clients: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Return the queries per second."""
        return self.queries / self.seconds


def load(
    machine: Shell, *, host: str, schema: str, file: str, clients: int, queries: int, most: float
) -> Load:
    """Send the query in a file of the machine as the user `shop`.

    Raises CannotRun if it takes more than `most` seconds, or if a client could not connect.
    """
    access = f"--host={host} --user=shop --password=shop --create-schema={schema} --no-drop --csv"
    what = f"--query={file} --delimiter=';' --concurrency={clients} --number-of-queries={queries}"
    return parse(machine.must(f"mysqlslap {access} {what} 2>&1", timeout=most), queries)


def parse(out: str, queries: int) -> Load:
    """Parse the line `engine,kind,mean,least,most,clients,queries of each`; the engine is empty.

    Raises CannotRun for anything else: mysqlslap keeps counting for clients that cannot connect.
    """
    found = re.fullmatch(r",mixed,([\d.]+),[\d.]+,[\d.]+,(\d+),\d+", out.strip())
    if found is None:
        raise CannotRun(f"mysqlslap gave no result: {out[:80]!r}")
    return Load(queries, int(found[2]), float(found[1]))
