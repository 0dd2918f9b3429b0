"""Compose: start the services of a stack with the installed Docker Compose."""

import os
import shutil
from functools import cache
from pathlib import Path

from faultlab.core import paths
from faultlab.core.command import run
from faultlab.core.errors import CannotRun

# Where `docker` looks for plugins, after the user's folder.
# Source: github.com/docker/cli, cli-plugins/manager/manager_unix.go.
_PLUGINS = tuple(
    Path(folder, "docker/cli-plugins")
    for folder in ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
)

# A slow machine, such as an emulated VM in use, may need more than a minute for one container.
PATIENCE = 300


class PoolOverlap(Exception):
    """Docker refused the subnet because another network uses it by now."""


@cache
def program() -> tuple[str, ...]:
    """Return the plugin of `docker`, else the program docker-compose. Raises CannotRun.

    The plugin is run directly. As a child of `docker` some versions continue when `docker` is
    killed, and create containers that no command knows. Source: github.com/docker/cli/issues/4332.
    """
    for folder in (paths.docker_config() / "cli-plugins", *_PLUGINS):
        if os.access(folder / "docker-compose", os.X_OK):
            return (str(folder / "docker-compose"),)
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise CannotRun("Docker Compose is not installed.", "make setup")


@cache
def _quicker() -> dict[str, str]:
    """Return settings that spare Debian's Compose v1 the import of setuptools (0.2 s)."""
    python = Path("/usr/bin/python3").resolve()
    script = shutil.which("docker-compose")
    if program() != ("docker-compose",) or not script:
        return {}
    with Path(script).open("rb") as file:
        own = file.readline().strip() == b"#!/usr/bin/python3"
    if own and Path("/usr/lib", python.name, "distutils/spawn.py").is_file():
        return {"SETUPTOOLS_USE_DISTUTILS": "stdlib"}
    return {}


def up(stack: str, files: list[Path], env: dict[str, str]) -> None:
    """Start the services. Raises PoolOverlap, or CannotRun with Compose's error."""
    chosen = [word for file in files for word in ("-f", str(file))]
    command = [*program(), "-p", stack, *chosen, "up", "-d", "--no-build"]
    # Compose v1 is a Python program and must not import our libraries. It would wait 60 s at most.
    ours = {
        "COMPOSE_IGNORE_ORPHANS": "1",
        "COMPOSE_HTTP_TIMEOUT": str(PATIENCE),
        "PYTHONPATH": "",
    }
    done = run(command, timeout=PATIENCE, env={**env, **_quicker(), **ours})
    if done.returncode == 0:
        return
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    if any("overlap" in line for line in lines):
        raise PoolOverlap(lines[-1])
    errors = [line for line in lines if "error" in line.lower()] or lines or ["no reason given"]
    raise CannotRun(f"Docker Compose could not start {stack}: {errors[-1]}", "faultlab doctor")
