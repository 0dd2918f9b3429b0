"""mtu: a SYN fits through an MTU of 100, and a request does not."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.asks import page
from faultlab.lab.check import Check, Measure
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.lab.measures import ends, grows, steady
from faultlab.probes import capture, connect, curl, interface

NO_ANSWER = 65_535  # without a SYN-ACK nothing is announced: the largest value


@dataclass(frozen=True)
class Look:
    """The port and the page, as a user meets them."""

    syn: connect.Handshakes
    page: curl.Page


@dataclass(frozen=True)
class Inspection:
    """The server's interface, and the segment size that it announces."""

    eth0: interface.Interface
    mss: int


def look(stack: Stack) -> Look:
    """Open five connections, then request the page."""
    return Look(connect.tried(stack.user(), "web"), curl.get(stack.user(), "http://web/"))


def inspect(stack: Stack) -> Inspection:
    """Read the counters of the interface of web, and one SYN-ACK."""
    eth0 = interface.read(stack.sidecar("web"))
    return Inspection(eth0, capture.announced_mss(stack.user(), "web"))


CHECK = Check(
    look=look,
    inspect=inspect,
    symptom=(
        steady("SYNs without an answer", "syn.unanswered", at_most(0)).says(
            "Every connection to the port opens.", "Some connections to the port do not open."
        ),
        Measure("page: curl's exit code", "page.exit_code", exactly(0), exactly(28)).says(
            "The request for the page succeeds.", "The request for the page fails."
        ),
        Measure("page: size", "page.bytes", at_least(100), at_most(0), "bytes").says(
            "The page arrives whole.", "The page does not arrive."
        ),
    ),
    evidence=(
        grows("web drops what it receives on eth0", "eth0.rx_dropped", at_least(1), "packets").seen(
            "web", "netstat -i"
        ),
        ends(
            "web announces a tiny segment size",
            lambda now: now.mss or NO_ANSWER,
            at_most(536),
            "bytes",
        ).seen("client", "tcpdump -nn -i eth0 'tcp[tcpflags] & tcp-syn != 0'"),
    ),
    asks=(page("http://web/"),),
)
