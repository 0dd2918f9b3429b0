"""Process: a process of a machine or daemon, as the helper beside the stack sees it.

The helper reads /proc with its own programs. No process of the stack sees it.
"""

import shlex
from dataclasses import dataclass

from faultlab.engine.stack import Stack

# These only show things, if they are the same files as in the helper.
_SHOW = "cat head less mpstat iostat pidstat sar tail tcpdump top vi vim.tiny vmstat"
_SHELLS = ("bash", "dash", "sh", "ksh", "zsh", "busybox")
# Prints a line for each process of the given containers: its number, parent, group, session,
# terminal, the terminal's foreground group and its start; whether it sleeps, listens, only shows
# things; and in hexadecimal the path of its program and its command. `syscall` has the number of
# nanosleep and clock_nanosleep on x86 and on Arm.
_LIST = r"""
my %sleeps = `uname -m` =~ /^x86/ ? (35 => 1, 230 => 1) : (101 => 1, 115 => 1);
my %shows = map { $_ => 1 } split / /, shift;
sub text { open my $file, "<", $_[0] or return ""; local $/; my $text = <$file>; $text // "" }
for my $its (glob "/proc/[0-9]*") {
  my $groups = text("$its/cgroup");
  my ($mark) = grep { index($groups, $_) >= 0 } @ARGV or next;
  my ($stat) = text("$its/stat") =~ /.*\) (.*)/s or next;
  my @stat = split / /, $stat;
  my $program = readlink("$its/exe") // next;
  my $asleep = 0;
  for my $task (glob "$its/task/*") {
    my ($call) = text("$task/syscall") =~ /^(\d+)/;
    $asleep = 1 if ($call && $sleeps{$call}) || text("$task/wchan") =~ /nanosleep/;
  }
  my %open = map { (readlink($_) // "") =~ /^socket:\[(\d+)/ ? ($1 => 1) : () } glob "$its/fd/*";
  my $listens = 0;
  for (%open ? qw(tcp tcp6 udp udp6) : ()) {
    for (split /\n/, text("$its/net/$_")) {
      my @row = split;
      $listens = 1 if @row > 9 && $row[3] =~ /^(0A|07)$/ && $open{$row[9]};
    }
  }
  my ($name) = $program =~ m{([^/]*)$};
  my $shows = $shows{$name} && text("$its/exe") eq text($program) ? 1 : 0;
  print join(" ", $mark, substr($its, 6), @stat[1, 2, 3, 4, 5, 19], $asleep, $listens, $shows,
    unpack("H*", $program), unpack("H*", text("$its/cmdline")) || "-"), "\n";
}
"""


@dataclass(frozen=True)
class Process:
    """A process of a machine or daemon, by the numbers of the kernel below.

    `group`, `foreground`: its process group, and that of its terminal. `terminal`: 0 for none.
    `sleeps`, `listens`: it waits for a time, or for connections. `shows`: it can change nothing.
    """

    at: str
    pid: int
    parent: int
    group: int
    session: int
    terminal: int
    foreground: int
    start: int
    sleeps: bool
    listens: bool
    shows: bool
    program: str
    words: tuple[str, ...]

    @property
    def key(self) -> tuple[int, int]:
        """Return what no other process has."""
        return self.pid, self.start

    @property
    def command(self) -> str:
        """Return its command as text."""
        return " ".join(self.words)

    @property
    def name(self) -> str:
        """Return the name of its program."""
        return self.program.removesuffix(" (deleted)").rpartition("/")[2]

    @property
    def is_shell(self) -> bool:
        """Return whether it is a shell, of any kind."""
        return self.name in _SHELLS

    @property
    def is_for_a_person(self) -> bool:
        """Return whether it is a shell on a terminal that was given no commands."""
        given = [word for word in self.words[1:] if not word.startswith("-") or "c" in word]
        return self.is_shell and bool(self.terminal) and not given


def processes(stack: Stack) -> list[Process]:
    """Return the processes of all machines and daemons of a stack. Raises CannotRun."""
    marks = {machine.mark: name for name, machine in stack.items()}
    listed = stack.helper().must(shlex.join(["perl", "-e", _LIST, _SHOW, *marks]))
    return [_parsed(line, marks) for line in listed.splitlines()]


def _parsed(line: str, marks: dict[str, str]) -> Process:
    mark, *numbers, program, words = line.split()
    pid, parent, group, session, terminal, foreground, start, *flags = map(int, numbers)
    sleeps, listens, shows = map(bool, flags)
    command = bytes.fromhex(words.strip("-")).decode(errors="replace").split("\0")
    return Process(
        at=marks[mark],
        pid=pid,
        parent=parent,
        group=group,
        session=session,
        terminal=terminal,
        foreground=foreground,
        start=start,
        sleeps=sleeps,
        listens=listens,
        shows=shows,
        program=bytes.fromhex(program).decode(errors="replace"),
        words=tuple(word for word in command if word),
    )
