"""Freshness: digests of what a picture shows. A picture is stale when one of them has changed."""

from __future__ import annotations

import hashlib

from faultlab.core import paths
from faultlab.lab import loader
from faultlab.run import digest


def labs(*names: str) -> dict[str, str]:
    """Return the digest of each lab: its fault, stack and check, and its ticket."""
    found = [loader.load(name) for name in names]
    return {lab.id: _of(f"{digest.fault(lab)}{lab.title}{lab.ticket}".encode()) for lab in found}


def files(*names: str) -> dict[str, str]:
    """Return the digest of each file of the project."""
    return {name: _of((paths.root() / name).read_bytes()) for name in names}


def _of(what: bytes) -> str:
    return hashlib.sha256(what).hexdigest()[:12]
