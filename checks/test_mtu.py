"""mtu: a SYN fits through an MTU of 100, a request does not."""

from dataclasses import dataclass

from faultlab.engine.stack import Stack
from faultlab.lab.check import Check, Measure, Sign
from faultlab.lab.limits import at_least, at_most, exactly
from faultlab.probes import capture, curl, hping3, interface


@dataclass(frozen=True)
class Look:
    """The port and the page, as the client meets them."""

    syn: hping3.Handshakes
    page: curl.Page


@dataclass(frozen=True)
class Watch:
    """The server's interface, and the segment size that it announces."""

    eth0: interface.Interface
    mss: int


def look(at: Stack) -> Look:
    """Knock five times, then ask for the page."""
    return Look(hping3.syn(at["client"], "web"), curl.get(at["client"], "http://web/"))


def watch(at: Stack) -> Watch:
    """Read the counters of web's interface, and one SYN-ACK."""
    return Watch(interface.read(at["web"]), capture.announced_mss(at["client"], "web"))


STEADY = at_most(0)
NO_ANSWER = 65_535  # no SYN-ACK, so no announcement: the largest value

CHECK = Check(
    look=look,
    watch=watch,
    symptom=(
        Measure("SYNs without an answer", lambda r: r.syn.unanswered, STEADY, STEADY),
        Measure("page: curl's exit code", lambda r: r.page.exit_code, exactly(0), exactly(28)),
        Measure("page: size", lambda r: r.page.bytes, at_least(100), at_most(0), "bytes"),
    ),
    evidence=(
        Sign(
            "web drops what it receives on eth0",
            lambda before, after: after.eth0.rx_dropped - before.eth0.rx_dropped,
            at_least(1),
            at="web",
            command="netstat -i",
            unit="packets",
        ),
        Sign(
            "web announces a tiny segment size",
            lambda before, after: after.mss or NO_ANSWER,
            at_most(536),
            at="client",
            command="tcpdump -nn -i eth0 'tcp[tcpflags] & tcp-syn != 0'",
            unit="bytes",
        ),
    ),
)
