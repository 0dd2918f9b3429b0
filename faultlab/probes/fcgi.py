"""Probe: PHP-FPM's status page, asked over FastCGI itself. Source: PHP manual, "FPM Status Page".

Not through nginx: it may be the one that is stuck. It waits in the queue like any other page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

SECONDS = 5  # without an answer in that time no worker was free

_ADDRESS = "$(sed -n 's/^listen = //p' /etc/php/*/fpm/pool.d/www.conf)"
_PAGE = "SCRIPT_NAME=/status SCRIPT_FILENAME=/status REQUEST_METHOD=GET"
TYPED = f"{_PAGE} cgi-fcgi -bind -connect {_ADDRESS}"
COMMAND = f"{_PAGE} QUERY_STRING=json timeout {SECONDS} cgi-fcgi -bind -connect {_ADDRESS}"


@dataclass(frozen=True)
class Pool:
    """Workers busy and in all, and connections that wait for one.

    `grown_out`: how often since its start a pool that grows could not grow any more.
    """

    busy: int
    workers: int
    waiting: int
    grown_out: int


def parse(out: str) -> Pool:
    """Read the JSON below the headers. The worker that makes this page is not counted as busy."""
    facts = json.loads(out[out.index("{") :])
    return Pool(
        busy=facts["active processes"] - (0 if facts["listen queue"] else 1),
        workers=facts["total processes"],
        waiting=facts["listen queue"],
        grown_out=facts["max children reached"],
    )
