"""Tickets: neither a ticket nor a title has the cause of its lab, nor the instrument that finds it.

`faultlab lint` compares both with the commands of `inject`. Here they are compared with the id, the
truth, what the lab's evidence is read with, and a list of words for each lab.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from faultlab.lab import checks
from faultlab.lab import loader as labs
from faultlab.lab.model import Lab

# The beginnings of words, in lower case, that would name a lab's cause or what finds it. An
# underscore is also a space, and at the end of a word it is the end of a whole word. The lists of
# controls say what would end the search at once.
TELLING = {
    "bandwidth": "bandwidth throughput limit throttl shap qdisc tbf bucket mbit link sar nic",
    "busy": "nothing_is_wrong healthy false_alarm control legitimate",
    "cache-connections": "connection limit maxconn slot descriptor refuse -c stats listen_disabled",
    "certificate": "cert expir tls ssl openssl x509 reload renew not_after handshake sighup",
    "conntrack": "conntrack track nf_ netfilter table iptables firewall stateful dmesg sysctl",
    "cpu-quota": "quota throttl cgroup cfs cpu limit core docker_update cpus",
    "dead-resolver": "resolv dns name nameserver lookup dig getent udp hosts /etc",
    "deleted-log": "deleted unlink open_file lsof inode rotat reopen usr1 access.log rm_ df_ du_",
    "descriptors": "descriptor file ulimit nofile rlimit emfile worker_ limit too_many open_",
    "fpm-backlog": "backlog queue listen eagain socket somaxconn pm. max_children worker",
    "gzip": "gzip compress encod deflat brotli content-enc accept-enc vary",
    "healthy": "nothing_is_wrong healthy control placebo",
    "heap-leak": "leak heap garbage gc jcmd jmap jstat histogram dump map session reference",
    "heap-oom": "oom outofmemory heap xmx killed killer cgroup jcmd dmesg inspect 137 -xx",
    "id-exhausted": "auto_incr autoincr exhaust int_ integer bigint range overflow column 2147 max",
    "idle-drop": "idle conntrack track timeout keepalive keep-alive nat established tcpdump pool",
    "inodes": "inode df_ small_files many_files session.gc gc_ garbage sess_ enospc",
    "iptables-drop": "iptables drop rule filter firewall nft netfilter probability statistic tcpd",
    "keepalive-race": "keepalive keep-alive keep_alive race idle reset rst reuse upstream tcpdump",
    "latent": "latent sysctl nothing_is_wrong tcp_ somaxconn buffer keepalive swappiness",
    "max-connections": "max_conn max-conn connection limit too_many pool processlist show_ thread",
    "metadata-lock": "lock alter ddl schema transaction processlist innodb_trx uncommitted waiting",
    "missing-index": "index key scan explain primary slow_log digest drop_ full_table",
    "mtu": "mtu packet segment mss fragment icmp tcpdump netstat interface jumbo",
    "nagle": "nagle delay ack nodelay nopush cork segment tcpdump nstat buffer_ flush",
    "netem-loss": "netem loss lose lost packet qdisc tc_ retransmi tcpdump queueing",
    "packet-loss": "mtu mss netem loss drop iptables qdisc tc_ fragment tcpdump rule packet",
    "php-workers": "worker child pm. max_ch pool process fpm queue backlog slow_log status",
    "pmtu-black-hole": "pmtu mtu icmp fragment black segment mss tcpdump packet iptables type_3",
    "pool-leak": "leak pool connection borrow close dbcp abandon return catalina session thread",
    "port-range": "port range ephemeral local_ address tuple eaddrnotavail assign sysctl time_wait",
    "query-cache": "cache query_ qcache digest deprecat slow_log removed",
    "regex": "regex pattern expression backtrack preg pcre catastroph nested slow_log match",
    "repeat-queries": "quer n+1 loop repeat com_select per_row round_trip general_log",
    "retry-storm": "retr storm again_and amplif backoff 499 access.log duplicat attempt",
    "reverse-dns": "dns revers resolv name ptr skip host_cache lookup processlist unauth",
    "scale-out": "scale balanc upstream left_out rotation drain down_ pool cpuacct weight",
    "session-lock": "lock session flock serial concurren slow_log write_close handler",
    "silent-dependency": "timeout silent depend drop firewall iptables syn thread memcach connect_",
    "slow-join": "join index explain plan filesort nested scan history digest key",
    "slow-log": "slow_log long_query threshold performance_schema query_time summary statement",
    "softirq": "softirq interrupt irq rps hping flood syn taskset packet backlog ksoftirqd steer",
    "somaxconn": "somaxconn backlog listen queue overflow syn accept nstat ss_ sysctl kernel",
    "stale-upstream": "stale upstream dns resolv address ip_ cache getent reload proxy_pass record",
    "stampede": "stampede cache expir herd lock recompute processlist simultaneous ttl dogpile",
    "swap": "swap heap xmx page_in paging vmstat free_ swappiness overcommit gc garbage",
    "syn-flood": "syn flood attack cookie backlog half hping nstat queue spoof handshake -s_",
    "temp-tables": "temp tmp tables created_ on_disk filesort spill sort_buf extended max_heap",
    "thread-limit": "thread pids ulimit nproc fork clone native cgroup executor virtual",
    "throughput": "throughput conntrack backlog somaxconn max_ch worker time_wait ephemeral",
    "time-wait": "time_wait time-wait port ephemeral tuple upstream keepalive reuse ss_ range",
    "tls-resumption": "resum tls ssl session ticket handshake cache openssl key_exchange reconnect",
}
# What stays, because the check holds users to it, or because they cannot say it otherwise.
NEEDED = {
    "cache-connections": {"cache"},  # its machine
    "slow-join": {"slow"},
    "slow-log": {"slow"},
    "id-exhausted": {"id"},
}
# Programs of evidence that are English words: they count in code only.
ENGLISH = {"cat", "free", "head", "tail", "time", "timeout"}


def told(lab: Lab) -> str:
    """What a user reads before the work begins, in lower case, without the addresses of pages."""
    return re.sub(r"https?://\S+", "", f"{lab.title}\n{lab.ticket}").lower()


def of_its_name(lab: Lab) -> set[str]:
    """The words of the id and of the cause."""
    if lab.control:
        return set()
    return {word for name in (lab.id, lab.truth.cause) for word in [name, *name.split("-")]}


def instruments(lab: Lab) -> Iterator[str]:
    """Yield the programs that show the evidence, and the names that only an engineer would say."""
    for item in checks.load(lab).evidence:
        for part in re.split(r"[|;]|\$\(", item.command):
            program = re.search(r"(?:^|\s)([a-z][a-z0-9_-]+)", part)
            if program and program[1] not in ENGLISH:
                yield program[1]
        for name in re.findall(r"[\w.%-]+", item.command):
            if re.search(r"[a-z][A-Z]|_|^[a-z]+\.[a-z]+\.", name):
                yield name.strip("%").lower()


def telling(lab: Lab, text: str) -> list[str]:
    """Return what tells too much of a lab in a text."""
    words = {*of_its_name(lab), *instruments(lab)} - NEEDED.get(lab.id, set())
    found = [word for word in sorted(words) if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    for stem in TELLING[lab.id].split():
        begins = re.escape(stem.strip("_")).replace("_", "[ _]")
        whole = r"(?!\w)" if stem.endswith("_") else ""
        if re.search(rf"(?<!\w){begins}{whole}", text.replace("\n", " ")):
            found.append(stem)
    return found


@pytest.mark.parametrize("lab_id", labs.ours())
def test_a_ticket_has_neither_the_cause_nor_the_instrument(lab_id: str) -> None:
    lab = labs.load(lab_id)
    assert telling(lab, told(lab)) == []


@pytest.mark.parametrize(
    ("lab_id", "text", "word"),
    [
        ("syn-flood", "type on `crowd`: `hping3 -q -s -p 80 -i u100 -c 60000 web`", "hping"),
        ("softirq", "`timeout -s int 20 taskset -c 1 hping3 -q -s -p 80 --flood web`", "taskset"),
        ("slow-join", 'the plan says "using\nfilesort"', "plan"),
        ("mtu", "web has another mtu", "mtu"),
        ("pool-leak", "the pool leaks", "leak"),
        ("conntrack", "dmesg says so", "dmesg"),
        ("nagle", "tcpextdelayedacks grows", "tcpextdelayedacks"),
        ("deleted-log", "`df` shows it", "df_"),
        ("deleted-log", "pdf files", ""),
    ],
)
def test_what_tells_too_much(lab_id: str, text: str, word: str) -> None:
    found = telling(labs.load(lab_id), text)
    assert word in found if word else found == []


def test_each_lab_has_a_list() -> None:
    assert {*TELLING} == {*labs.ours()}
    assert {*NEEDED} <= {*TELLING}
    faults = [lab_id for lab_id in TELLING if not labs.load(lab_id).control]
    assert min(len(TELLING[lab_id].split()) for lab_id in faults) >= 7
