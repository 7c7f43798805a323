"""A node that does what a test tells it: the other side of the attach protocol, in a thread."""

import support  # noqa: F401  (puts the package of this tree first)

import array
import json
import mmap
import os
import shutil
import socket
import tempfile
import threading

from p2pdiloco.attach import wire
from p2pdiloco.attach.wire import Message

OFFSET = 1 << 16
PATIENCE = 30  # seconds for a rank to connect, or to answer


class Stub:
    """Listens at path. play(stub) runs in a thread of its own; its exception is join's."""

    def __init__(self, test, play):
        folder = tempfile.mkdtemp()
        test.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "attach.sock")
        self.ranks, self.layouts, self._id, self._error = {}, {}, 0, None
        self.hellos = {}
        self._accepted = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self._play = play
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        test.addCleanup(self.close)

    def _run(self):
        try:
            self._play(self)
        except BaseException as err:
            self._error = err
            self._listener.close()  # else a rank waits for it
            self.hang_up()

    def find(self):
        return self.path

    def join(self, timeout=30):
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise AssertionError("the stub still waits for a rank")

    def close(self):
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes an accept
        except OSError:
            pass
        self._listener.close()
        for connection in self._accepted:
            connection.close()
        self._thread.join(30)

    def hang_up(self):
        """Closes all connections, as a node does that is killed."""
        for rank in self.ranks.values():
            rank.close()
        self.ranks = {}

    # What a node does.

    def accept(self):
        """The next connection with a HELLO, and that. Others only look whether a node listens."""
        while True:
            connection, _ = self._listener.accept()
            connection.settimeout(PATIENCE)
            self._accepted.append(connection)
            try:
                return connection, self.receive(connection)
            except EOFError:
                connection.close()

    def welcome(self, connection, hello, **fields):
        here = os.path.dirname(self.path)
        fields = dict(dict(version=wire.VERSION, run="test", data_dir=here, pid=1), **fields)
        self.send(connection, Message(wire.WELCOME, hello.id, **fields))

    def gather(self, world=1, epoch=1):
        """Takes so many ranks in, and shares memory with them."""
        for _ in range(world):
            connection, hello = self.accept()
            self.welcome(connection, hello)
            self.layouts[hello.rank], self.hellos[hello.rank] = self.receive(connection), hello
            self.ranks[hello.rank] = connection
        tensors = self.layouts[0].tensors
        self.elements = sum(t.elements for t in tensors)
        self.share(epoch)

    def share(self, epoch):
        size = OFFSET + 4 * self.elements
        files = [os.memfd_create(name) for name in ("start", "local")]
        for fd in files:
            os.ftruncate(fd, size)
        self._maps = [mmap.mmap(fd, size) for fd in files]
        self.start, self.local = (memoryview(m)[OFFSET:].cast("f") for m in self._maps)
        read_only = os.open(f"/proc/self/fd/{files[0]}", os.O_RDONLY)
        written = set()
        for rank, connection in sorted(self.ranks.items()):
            layout = self.layouts[rank]
            writes = bytes(p not in written for p in layout.pieces)
            written.update(layout.pieces)
            share = Message(
                wire.SHARE, layout.id, elements=self.elements, offset=OFFSET, size=size,
                epoch=epoch, writes=writes,
            )
            raw = wire.pack(share)
            socket.send_fds(connection, [raw[:1]], [read_only, files[1]])
            connection.sendall(raw[1:])
        for fd in (*files, read_only):
            os.close(fd)

    def word(self, rank):
        """The steps that a rank shows in its line of words."""
        return int.from_bytes(self._maps[1][64 * rank : 64 * rank + 8], "little")

    def send(self, connection, message):
        connection.sendall(wire.pack(message))

    def tell(self, message):
        for connection in self.ranks.values():
            self.send(connection, message)

    def receive(self, connection):
        raw = self._exactly(connection, 16)
        size, kind, id = wire.unpack_header(raw)
        return wire.unpack(kind, id, self._exactly(connection, size))

    @staticmethod
    def _exactly(connection, size):
        raw = b""
        while len(raw) < size:
            part = connection.recv(size - len(raw))
            if not part:
                raise EOFError("the rank has closed the connection")
            raw += part
        return raw

    def ask(self, kind, **fields):
        """A request to all ranks, and their answers by rank."""
        self._id += 1
        self.tell(Message(kind, self._id, **fields))
        answers = {rank: self.receive(c) for rank, c in self.ranks.items()}
        for answer in answers.values():
            if answer.kind in (wire.DONE, wire.OFFER) and answer.id != self._id:
                raise AssertionError(f"{answer} answers {self._id}")
        return answers

    def beat(self):
        """Counts the beat on in start's words."""
        beat = int.from_bytes(self._maps[0][:8], "little")
        self._maps[0][:8] = (beat + 1).to_bytes(8, "little")

    def load(self, values=None, generation=1, **fields):
        if values is not None:
            self.start[:] = array.array("f", values)
        return self.ask(wire.LOAD, begin=0, end=self.elements, generation=generation, **fields)

    def train(self, slot=1, steps=2, **fields):
        fields = dict(dict(export=wire.GRADIENT, members=1), **fields)
        return self.ask(wire.TRAIN, slot=slot, steps=steps, **fields)

    def error(self, code, text):
        self.tell(Message(wire.ERROR, 0, code=code, text=text))
        self.hang_up()

    def end(self):
        self.error(11, "the run has ended")


class Run:
    """Plays a run that one peer is alone in, and whose outer step goes half of the way. offers and
    gradients are what came; anchor is the newest one.

    In an overlapped mode a slot is applied when the next one is offered, and a rank loads what is
    ahead of the anchor: the start of its own steps, and half of them. status is what the node's API
    would say.
    """

    def __init__(self, steps=2, rounds=3, mode="sync", spec=None):
        self.steps, self.rounds, self.mode, self.spec = steps, rounds, mode, spec or {}
        self.offers, self.gradients, self.anchor = [], [], None
        self.slot = 0  # that is applied
        self.left, self.id = "", "a run"
        self._flight = None  # a pseudo-gradient that is not applied yet

    def __call__(self, node):
        node.gather()
        epoch = 1
        while True:
            try:
                return self._serve(node)
            except (EOFError, ConnectionError):  # the rank is gone: another one is waited for
                node.hang_up()
                if self.left:
                    return
                epoch += 1
                node.gather(epoch=epoch)

    def status(self, data_dir=""):
        if self._flight is not None:
            self._apply()  # time goes by
        return {
            "phase": "running", "slot": self.slot, "last_slot": self.rounds, "state_root": "root",
            "members": ["a peer"],
        }

    def _serve(self, node):
        node.tell(Message(
            wire.INFO, 0, run_id=self.id, peer="a peer", mode=self.mode, inner_steps=self.steps,
            last_slot=self.rounds, spec=json.dumps(self.spec),
        ))
        if self.anchor is None:
            node.ask(wire.FILL)
            self.anchor = node.local.tolist()
        while self.slot < self.rounds:
            node.load(self._begin())
            self._train(node)
        node.load(self.anchor)
        node.tell(Message(
            wire.INFO, 0, run_id=self.id, last_slot=self.rounds, slot=self.slot, root="the last",
        ))
        node.end()

    def _begin(self):
        if self._flight is None:
            return self.anchor
        return [a - g for a, g in zip(self.anchor, self._flight)]

    def _train(self, node):
        at = self.slot + (self._flight is not None)
        answer = node.train(
            slot=at + 1, steps=self.steps, seed=7, part=at, part_steps=self.steps
        )[0]
        if answer.kind == wire.LEAVE:
            self.left = answer.reason
            raise EOFError
        self.offers.append(answer)
        self.gradients.append(node.local.tolist())
        if self._flight is not None:
            self._apply()
        self._flight = self.gradients[-1]
        if self.mode == "sync" or self.slot + 1 == self.rounds:
            self._apply()

    def _apply(self):
        self.anchor = [a - g / 2 for a, g in zip(self.anchor, self._flight)]
        self.slot, self._flight = self.slot + 1, None
