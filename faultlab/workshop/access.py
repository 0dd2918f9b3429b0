"""Access: tokens, certificates, and limits on how often a client can ask.

A link carries a token of 256 bits, and the browser that opens it gets a cookie with it. Tokens are
compared in constant time and are valid for some hours. A new token ends the old one.
"""

import hashlib
import hmac
import json
import os
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from faultlab.core import command, paths
from faultlab.core.errors import BadInput, CannotRun

TRAINER = 0  # not the number of any seat
_MOST_KEYS = 10_000  # of an allowance


@dataclass(frozen=True)
class Visitor:
    """The holder of a valid token: the trainer, or the participant at a seat (from 1)."""

    number: int

    @property
    def trainer(self) -> bool:
        """Return whether this is the trainer, who can see and do everything."""
        return self.number == TRAINER

    def may(self, seat: int) -> bool:
        """Return whether this visitor can use this seat."""
        return self.trainer or self.number == seat


class Keys:
    """The tokens of a class, in a file that only its owner can read."""

    def __init__(self, file: Path, now: Callable[[], float] = time.time) -> None:
        """Read the tokens. Raises CannotRun if the file is damaged.

        `now`: the clock by which they are valid: that of a class is not set as one of a machine is.
        """
        self.file = file
        self._now = now
        self._tokens: dict[int, tuple[str, float]] = {}
        if file.exists():
            try:
                self._tokens = {
                    int(number): (str(token), float(until))
                    for number, (token, until) in json.loads(file.read_text()).items()
                }
            except (ValueError, TypeError, AttributeError) as error:
                raise CannotRun(
                    f"{file.name} is damaged: {error}.",
                    f"rm {file}, then the same command again: all links will be new",
                ) from error

    def make(self, numbers: Iterable[int], hours: float) -> None:
        """Make a token for each number that has no valid one."""
        until = self._now() + 3600 * hours
        old = [n for n in numbers if self._tokens.get(n, ("", 0.0))[1] <= self._now()]
        self._keep({number: (secrets.token_urlsafe(32), until) for number in old})

    def replace(self, number: int, hours: float) -> None:
        """Replace a token; the old one is no longer valid. Raises CannotRun, as on a full disk."""
        self._keep({number: (secrets.token_urlsafe(32), self._now() + 3600 * hours)})

    def token(self, number: int) -> str:
        """Return the token in the link of a seat, or of the trainer."""
        return self._tokens[number][0]

    def visitor(self, token: str) -> Visitor | None:
        """Return the visitor with this token, or None. It takes the same time for every token."""
        found = None
        for number, (known, until) in self._tokens.items():
            same = hmac.compare_digest(known.encode(), token.encode())
            if same and self._now() < until:
                found = Visitor(number)
        return found

    def _keep(self, new: dict[int, tuple[str, float]]) -> None:
        """Let new tokens count once they are on the disk."""
        every = {**self._tokens, **new}
        with paths.whole(self.file) as part:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(every, file)
        self._tokens = every


@dataclass
class Allowance:
    """A token bucket for each key: `rate` per second, at most `stock`. It drops old keys."""

    rate: float
    stock: float
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Use part of the allowance of a key; return False if not enough is left."""
        now = time.monotonic()
        left, then = self._left.pop(key, (self.stock, now))
        left = min(self.stock, left + (now - then) * self.rate)
        enough = left >= amount
        self._left[key] = (left - amount if enough else left, now)
        if len(self._left) > _MOST_KEYS:
            self._left.popitem(last=False)
        return enough


def certificate(folder: Path, names: Iterable[str]) -> tuple[Path, Path]:
    """Return a self-signed certificate for these names and addresses, and its key.

    openssl makes it once. Raises CannotRun.
    """
    cert, key, made_for = (folder / name for name in ("cert.pem", "key.pem", "cert.names"))
    alternatives = ",".join(f"{_kind(name)}:{name}" for name in dict.fromkeys(names))
    if made_for.exists() and made_for.read_text() == alternatives:
        with suppress(BadInput):  # a power failure can have left half of them
            usable(str(cert), str(key))
            return cert, key
    done = command.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "365", "-subj", "/CN=faultlab workshop"),
            *("-addext", f"subjectAltName={alternatives}"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        timeout=30,
    )
    if done.returncode != 0:
        raise CannotRun(
            f"openssl could not make a certificate: {done.stderr.strip().splitlines()[-1]}",
            "add --cert FILE --key FILE",
        )
    key.chmod(0o600)
    made_for.write_text(alternatives)
    return cert, key


def _kind(name: str) -> str:
    return "IP" if name.replace(".", "").isdigit() or ":" in name else "DNS"


def usable(cert: str, key: str) -> None:
    """Raise BadInput if a server cannot use this certificate and this key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except OSError as error:  # ssl's own errors are of this class too
        reason = error.strerror or str(error)
        raise BadInput(f"--cert, --key: {reason}", f"ls -l {cert} {key}") from error


def fingerprint(cert: Path) -> str:
    """Return the SHA-256 of a certificate, as browsers show it. Raises CannotRun."""
    try:
        raw = ssl.PEM_cert_to_DER_cert(cert.read_text())
    except (OSError, ValueError) as error:
        raise CannotRun(
            f"{cert} is not a certificate: {error}", f"openssl x509 -in {cert}"
        ) from error
    return hashlib.sha256(raw).digest().hex(":").upper()
