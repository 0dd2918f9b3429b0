"""Probe: packets that belong to no connection, and how many of them reach a machine.

Sources: RFC 9293 for their form, raw(7) and packet(7). They look like those of a connection of
Linux: with time stamps, other windows, with data or without.
"""

from collections.abc import Sequence

from faultlab.engine.shell import Shell, json_of

# A packet is sent to its destination by way of a router by its own route, which is removed again.
_SEND = """python3 - <<'_end_'
import os, random, socket, struct, subprocess
ports, host, port, sender, by = {ports}, "{host}", {port}, "{sender}", "{by}"
target = socket.gethostbyname(host)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    probe.connect((target, port))
    source = socket.gethostbyname(sender) if sender else probe.getsockname()[0]
route = ["ip", "route", "replace", target, "via", socket.gethostbyname(by)] if by else []
if route:
    subprocess.run(route, check=True)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for number, ours in enumerate(ports):
    flags = (0x10, 0x18, 0x11)[number % 3]
    data = os.urandom(random.choice((1, 13, 20, 45, 300))) if flags == 0x18 else b""
    stamps = struct.pack("!BBBBII", 1, 1, 8, 10, *(random.getrandbits(32) for _ in range(2)))
    options = stamps if number % 4 else b""
    numbers = random.getrandbits(32), random.getrandbits(32)
    window = random.choice((501, 512, random.randint(64, 65535)))
    size = 20 + len(options)
    def made(check):
        head = (ours, port, *numbers, size << 2 << 8 | flags, window, check, 0)
        return struct.pack("!HHIIHHHH", *head) + options + data
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    words = ends + struct.pack("!HH", 6, size + len(data)) + made(0) + b"\\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{{len(words) // 2}}H", words))
    total = (total >> 16) + (total & 0xFFFF)
    check = ~(total + (total >> 16)) & 0xFFFF
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + size + len(data), 0, 0x4000, 64, 6, 0) + ends
    raw.sendto(ip + made(check), (target, 0))
if route:
    subprocess.run(["ip", "route", "del", *route[3:]], check=True)
_end_"""
# A packet socket sees what comes before any rule of the machine.
_COUNT = """python3 - <<'_end_'
import json, socket, struct, time
ports, port, end = set({ports}), {port}, time.monotonic() + {seconds}
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
seen = set()
while (left := end - time.monotonic()) > 0:
    tap.settimeout(left)
    try:
        packet, where = tap.recvfrom(2048)
    except TimeoutError:
        break
    if where[2] == socket.PACKET_HOST and packet[9] == 6:
        ends = struct.unpack_from("!HH", packet, 4 * (packet[0] & 15))
        if ends[1] == port and ends[0] in ports:
            seen.add(ends[0])
print(json.dumps(sorted(seen)))
_end_"""


def send(
    machine: Shell, ports: Sequence[int], host: str, port: int, *, sender: str = "", by: str = ""
) -> None:
    """Send a packet without a connection from each port.

    With `sender` they have the address of that machine, and `by` is the router on their way.
    """
    what = {"ports": list(ports), "host": host, "port": port, "sender": sender, "by": by}
    machine.must(_SEND.format(**what))


def arrived(machine: Shell, ports: Sequence[int], port: int, *, seconds: float) -> int:
    """Return from how many of these ports a packet comes within so many seconds."""
    what = {"ports": list(ports), "port": port, "seconds": seconds}
    return parse(machine.must(_COUNT.format(**what), timeout=seconds + 20))


def parse(out: str) -> int:
    """Count the ports in the list that the helper prints. Raises CannotRun without a list."""
    return len(json_of(out, "python3"))
