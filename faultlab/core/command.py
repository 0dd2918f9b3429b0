"""Command: every program that we start on the host goes through `run` or `stream`."""

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from faultlab.core.errors import CannotRun
from faultlab.core.text import colourless

# The kernel kills the child when we die, so `kill -9` of our process leaves nothing running.
# Source: prctl(2), PR_SET_PDEATHSIG; setpriv(1) sets it without a hook between fork and exec.
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")

# We parse the output of programs, so it must be English. LANGUAGE is empty, because a set one
# overrides LC_ALL unless that is exactly C, and C would lose letters beyond ASCII.
ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}

# Ctrl-C in a terminal reaches the whole process group, so also the programs of a clean-up.
_POSTPONED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_UNHEARD = ("env", "--ignore-signal=INT,TERM,HUP")

_cleaning_up: list[bool] = []  # one for each `uninterrupted` that has not ended

_CLEAN_UP = 30  # seconds, for a script that is told to end

_SOME = 1 << 16  # bytes; a longer line loses its beginning


def run(
    command: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its exit code and both outputs as text.

    `timeout` in seconds; `env` is added to ours and to ENGLISH. Raises CannotRun if the program is
    not installed or still runs after the timeout. The caller judges a non-zero exit code.
    """
    if shutil.which(command[0]) is None:
        raise CannotRun(f"{command[0]} is not installed.", "make setup")
    first = _UNHEARD if _cleaning_up else ()
    # A program inherits this, so a signal that comes before it is ignored has to wait.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _POSTPONED if _cleaning_up else ())
    try:
        return subprocess.run(
            [*first, *DIE_WITH_US, *command],
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
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def stream(
    command: Sequence[str],
    note: Callable[[str], None],
    env: Mapping[str, str] | None = None,
    *,
    patience: float = 1800,
) -> None:
    """Run a program that takes long; `note` gets each line of its output.

    `patience`: it is ended after this many seconds without output. Raises CannotRun, with the
    reason and the next commands that a script of ours has printed last.
    """
    with subprocess.Popen(
        [*DIE_WITH_US, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **ENGLISH, **(env or {})},
    ) as process:
        assert process.stdout is not None
        said = deque(["it printed nothing"], maxlen=20)
        late = ""
        try:
            for line in _lines(process.stdout.fileno(), patience):
                text = colourless(line)
                if text:
                    said.append(text)
                    note(text)
        except TimeoutError:
            process.kill()
            late = f"it had said nothing for {patience:.0f} s; "
        except BaseException:  # such as Ctrl-C: what it has started must not go on
            _end(process)
            raise
    if process.returncode != 0:
        reason, hint = _reason(list(said))
        raise CannotRun(f"{command[0]} failed: {late}{reason}", hint or shlex.join(command))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let a program clean up and end; after 30 s or another Ctrl-C it is killed."""
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CLEAN_UP)
    finally:
        process.kill()


def _reason(said: list[str]) -> tuple[str, str]:
    """Return why a program failed, and the next commands if it has named some: see setup/lib.sh."""
    at = max((number for number, text in enumerate(said) if text.startswith("next: ")), default=0)
    if at == 0:
        return said[-1], ""
    return said[at - 1], "; ".join([said[at].removeprefix("next: "), *said[at + 1 :]])


def _lines(pipe: int, patience: float) -> Iterator[str]:
    """Yield each line as it arrives. Raises TimeoutError after `patience` seconds of silence."""
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
    """Do the job in parallel with the body, and wait for both. Raises what the job raises.

    The job must not start a program that outlives it: DIE_WITH_US ends the program with its thread.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        done = pool.submit(job)
        yield
    done.result()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a clean-up finish: Ctrl-C and SIGTERM count when it has ended.

    If one of them has already ended what is being cleaned up, more of them are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending, told = _is_ending(), list[int]()
    numbers = [each for each in _POSTPONED if signal.getsignal(each) is not signal.SIG_IGN]
    old = [signal.signal(number, lambda number, _: told.append(number)) for number in numbers]
    _cleaning_up.append(True)
    try:
        yield
    finally:
        _cleaning_up.pop()
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler or signal.SIG_DFL)  # None: another library's, in C
        if told and not ending:
            signal.raise_signal(told[0])


def _is_ending() -> bool:
    """Return whether Ctrl-C or SIGTERM is being handled."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
