"""Forward: let this host reach a cluster in a network namespace of its own, by loopback only.

A socket stays in the network namespace that it was opened in. So `listen` opens sockets here and
then becomes the program that makes the namespace; `forward` is in it, and has inherited them.
"""

import os
import selectors
import socket
import sys
import threading

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
        threading.Thread(target=_accept, args=(listening, port)).start()


def _accept(listening: socket.socket, port: int) -> None:
    while True:
        there, _ = listening.accept()
        threading.Thread(target=_pass_on, args=(there, port), daemon=True).start()


def _pass_on(there: socket.socket, port: int) -> None:
    with there:
        try:
            here = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return
        with here, selectors.DefaultSelector() as ready:
            for one in (here, there):
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
    else:
        until = words.index("--")
        listen([int(port) for port in words[:until]], words[until + 1 :])
