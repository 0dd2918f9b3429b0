"""Forward: let this host reach a cluster in a network namespace of its own, by loopback only.

A socket stays in the network namespace that it was opened in. So `listen` opens sockets here and
then becomes the program that makes the namespace; `forward` is in it, and has inherited them.
`reach` is the way from the namespace to a program that this host gives it as a file.
"""

import os
import selectors
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial

FIRST = 10  # the number of the first inherited socket; shells use the lower ones


def listen(ports: list[int], command: list[str]) -> None:
    """Become the command, which inherits a listening socket for each port."""
    for number, port in enumerate(ports):
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
        os.dup2(listening.fileno(), FIRST + number)
        os.set_inheritable(FIRST + number, True)
    os.execvp(command[0], command)


def forward(ports: list[int]) -> None:
    """Pass each connection on an inherited socket on to the same port of this namespace."""
    for number, port in enumerate(ports):
        listening = socket.socket(fileno=FIRST + number)
        connect = partial(socket.create_connection, ("127.0.0.1", port))
        threading.Thread(target=_accept, args=(listening, connect)).start()


def reach(address: str, port: int, file: str) -> None:
    """Pass each connection to an address of this namespace on to the socket of that file."""
    _accept(socket.create_server((address, port), backlog=128), lambda: _opened(file))


def _opened(file: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.connect(file)
    return found


def _accept(listening: socket.socket, connect: Callable[[], socket.socket]) -> None:
    while True:
        there, _ = listening.accept()
        threading.Thread(target=_pass_on, args=(there, connect), daemon=True).start()


def _pass_on(there: socket.socket, connect: Callable[[], socket.socket]) -> None:
    with there:
        try:
            here = connect()
        except OSError:
            return
        with here, selectors.DefaultSelector() as ready:
            for one in (here, there):
                if one.family == socket.AF_INET:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(here, selectors.EVENT_READ, there)
            ready.register(there, selectors.EVENT_READ, here)
            try:
                while ready.get_map():
                    for key, _ in ready.select():
                        _copy(ready, key)
            except OSError:
                return


def _copy(ready: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    source, target = key.fileobj, key.data
    assert isinstance(source, socket.socket)
    if data := source.recv(1 << 16):
        target.sendall(data)
        return
    ready.unregister(source)
    target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "forward":
        forward([int(port) for port in words])
    elif verb == "reach":
        reach(words[0], int(words[1]), words[2])
    else:
        until = words.index("--")
        listen([int(port) for port in words[:until]], words[until + 1 :])
