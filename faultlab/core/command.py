"""Every program that we start on the host goes through `run`."""

import os
import re
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from faultlab.core.errors import CannotRun

# The kernel kills the child when we die, so that `kill -9` of us leaves nothing running.
# Source: prctl(2), PR_SET_PDEATHSIG; setpriv(1) sets it without a hook between fork and exec.
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")

# We read what programs print, so they have to speak English. An empty LANGUAGE, since a set one
# counts for more than LC_ALL unless that is exactly C; and C would lose letters beyond ASCII.
ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}

_SOME = 1 << 16  # bytes; a line that is longer loses its beginning
_PAINT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and cursor movements of a terminal


def run(
    command: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its exit code and both outputs as text.

    `timeout` in seconds; `env` is added to ours and to ENGLISH. Raises CannotRun when the program
    is not there or still runs after the time-out; a non-zero exit code is the caller's to judge.
    """
    if shutil.which(command[0]) is None:
        raise CannotRun(f"{command[0]} is not installed.", "make setup")
    try:
        return subprocess.run(
            [*DIE_WITH_US, *command],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, **ENGLISH, **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotRun(
            f"{' '.join(command[:3])} did not end within {timeout:.0f} s.", "faultlab doctor"
        ) from error


def stream(
    command: Sequence[str],
    note: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    *,
    patience: float = 1800,
) -> None:
    """Run a program that takes long; `note` gets each line it prints.

    `patience`: seconds that it may say nothing, after which it is ended. Raises CannotRun.
    """
    with subprocess.Popen(
        [*DIE_WITH_US, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ENGLISH, **(env or {})},
    ) as process:
        assert process.stdout is not None
        last = "it printed nothing"
        try:
            for line in _lines(process.stdout.fileno(), patience):
                text = _PAINT.sub("", line).strip()
                if text:
                    last = text
                    note(last)
        except TimeoutError:
            process.kill()
            last = f"it had said nothing for {patience:.0f} s; {last}"
    if process.returncode != 0:
        raise CannotRun(f"{command[0]} failed: {last}", " ".join(command))


def _lines(pipe: int, patience: float) -> Iterator[str]:
    """Yield each line that comes. Raises TimeoutError when nothing comes for so many seconds."""
    rest = b""
    while select.select([pipe], [], [], patience)[0]:
        some = os.read(pipe, _SOME)
        *lines, rest = re.split(rb"[\r\n]", rest[-_SOME:] + some)
        yield from (line.decode(errors="replace") for line in lines)
        if not some:
            yield rest.decode(errors="replace")
            return
    raise TimeoutError


@contextmanager
def meanwhile(job: Callable[[], object]) -> Iterator[None]:
    """Do the job beside the body, and have it done when both have ended. Raises what it raises.

    No program that outlives the job may be started in it: DIE_WITH_US ends it with its thread.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        done = pool.submit(job)
        yield
    done.result()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a clean-up finish: Ctrl-C and SIGTERM wait for nobody here, they are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)
