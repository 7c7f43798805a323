"""Whatever a node says: torn, oversized and garbled messages, in any order. The client ends with an
error of p2pdiloco's, at once.

P2PDILOCO_TEST_SEED gives other conversations, P2PDILOCO_TEST=nightly more of them.
"""

import nodestub  # noqa: F401  (puts the package of this tree first)

import array
import errno
import logging
import os
import pathlib
import random
import shutil
import socket
import struct
import tempfile
import threading
import unittest

import support
from p2pdiloco import Error
from p2pdiloco.attach import wire
from p2pdiloco.attach.session import Offer, Session
from p2pdiloco.attach.wire import Message
from p2pdiloco.flat import FlatHeld

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "attach" / "testdata" / "wire"
OFFSET, SIZE = 1 << 16, (1 << 16) + 64
MORE = 10 if support.NIGHT else 1
EXTREME = (0, 1, 10, 11, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def drawn():
    return random.Random(support.SEED)


def sane():
    """A node's part of a conversation of a rank with 10 elements: what it says, and how many
    descriptors go with it; -1: one of the two is of less memory."""
    share = Message(
        wire.SHARE, 2, elements=10, offset=OFFSET, size=SIZE, epoch=1, writes=b"\1\1"
    )
    said = [
        Message(wire.WELCOME, 1, version=wire.VERSION, run="storm", data_dir="/data", pid=1), share,
        Message(wire.INFO, 0, run_id="abcd", mode="sync", inner_steps=3), Message(wire.FILL, 1),
        Message(wire.LOAD, 2, end=10, generation=1), Message(wire.EVALUATE, 3),
        Message(wire.TRAIN, 4, slot=1, steps=3, look=1, export=1, member_ids="a\nb"),
        Message(wire.GO, 3), Message(wire.NOTICE, 0, text="paused"),
        Message(wire.EXPORT, 6, begin=2, end=9, what=wire.PARAMETERS),
        Message(wire.RESTORE, 8, folder="/1", world=2),
        Message(wire.LOAD, 10, begin=3, end=4, generation=2),
        Message(wire.ERROR, 0, code=11, text="the run has ended"),
    ]
    return [(wire.pack(m), 2 if m is share else 0) for m in said]


def garbled(r, raw):
    """A message that no node sends."""
    b = bytearray(raw)
    kind = r.randrange(5)
    if kind == 0:
        for _ in range(1 + r.randrange(4)):
            b[r.randrange(len(b))] = r.randrange(256)
    elif kind == 1:
        b[:4] = struct.pack("<I", r.getrandbits(32) >> r.randrange(32))
    elif kind == 2:
        b[4:6] = struct.pack("<H", r.randrange(40))
    elif kind == 3 and len(b) >= 32:
        at = 24 + 16 * r.randrange((len(b) - 16) // 16)
        b[at : at + 8] = struct.pack("<Q", r.choice(EXTREME))
    else:
        b += b[16:]
        if r.randrange(2):
            value = bytes(r.randrange(100_000))
            b += struct.pack("<HHI", r.randrange(17), 0, len(value)) + value
        b[:4] = struct.pack("<I", len(b) - 16)
    return bytes(b)


def storm(r):
    said = sane()
    for _ in range(1 + r.randrange(3)):
        i = r.randrange(len(said))
        raw, files = said[i]
        kind = r.randrange(8)
        if kind == 0:
            return [*said[:i], (raw[: r.randrange(len(raw))], files)]
        if kind == 1:
            j = r.randrange(len(said))
            said[i], said[j] = said[j], said[i]
        elif kind == 2 and len(said) > 1:
            del said[i]
        elif kind == 3:
            said[i] = (raw, r.choice((0, 1, 3, -1)))
        else:
            said[i] = (garbled(r, raw), files)
    return said


class Storm(unittest.TestCase):
    def test_bytes_are_a_message_or_an_error(self):
        r = drawn()
        messages = [bytes.fromhex(path.read_text()) for path in sorted(GOLDEN.glob("*.hex"))]
        read = refused = 0
        for _ in range(20_000 * MORE):
            raw = r.choice(messages)
            for _ in range(r.randrange(1, 4)):
                raw = garbled(r, raw)
            raw = raw[: r.randrange(16, len(raw) + 1)] if r.randrange(3) == 0 else raw
            try:
                _, kind, id = wire.unpack_header(raw[:16])
                message = wire.unpack(kind, id, raw[16:])
            except wire.WireError as err:
                self.assertTrue(str(err))
                refused += 1
                continue
            read += 1
            if message is not None:  # what was taken is what would be sent
                again = wire.pack(message)
                self.assertEqual(wire.pack(wire.unpack(kind, id, again[16:])), again)
        self.assertGreater(min(read, refused), 1000)

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "attach.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(30)

    def speak(self, said):
        """Says all of it to the next rank, whatever that answers, until the rank hangs up."""
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(30)
            ears = threading.Thread(target=self.hear, args=(connection,))
            ears.start()
            try:
                for raw, files in said:
                    self.say(connection, raw, files)
                connection.shutdown(socket.SHUT_WR)
            except OSError as err:
                if err.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                    raise
            ears.join()

    @staticmethod
    def hear(connection):
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass

    @staticmethod
    def say(connection, raw, files):
        fds = [os.memfd_create("storm") for _ in range(abs(files) or 0)] if raw else []
        if files == -1:
            fds.append(os.memfd_create("storm"))
        for fd in fds:
            os.ftruncate(fd, SIZE)
        if files == -1 and fds:
            os.ftruncate(fds[1], 4096)
        try:
            if fds:
                socket.send_fds(connection, [raw[:1]], fds)
                raw = raw[1:]
        finally:  # also where the rank has hung up
            for fd in fds:
                os.close(fd)
        connection.sendall(raw)

    def test_a_conversation_ends_with_an_error(self):
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        r = drawn()
        before = len(os.listdir("/proc/self/fd"))
        for n in range(400 * MORE):
            said = storm(r) if n else sane()
            node = threading.Thread(target=self.speak, args=(said,))
            node.start()
            live = array.array("f", bytes(40))
            try:
                ended = self.train(live)
            except Error as err:
                ended = None
                self.assertTrue(str(err))
            except BaseException:
                print(n, said)
                raise
            finally:
                node.join(30)
            self.assertFalse(node.is_alive(), f"conversation {n}: the rank still waits")
            self.assertEqual(len(live), 10)
            if n == 0:
                self.assertTrue(ended)
        self.assertLess(len(os.listdir("/proc/self/fd")), before + 20, "descriptors are left open")

    def train(self, live):
        """Trains as the node says, until it is the run's end."""
        held = FlatHeld([("w", (3, 2)), ("b", (4,))], live)
        paths = [self.path]  # once: no node comes back
        session = Session(
            lambda: paths.pop() if paths else None, held, rank=1, world=2, set="storm",
            connect_timeout=-1, node_timeout=-1,
        )
        offer = None
        try:
            while (train := session.border(offer)) is not None:
                steps = 0
                while steps < min(train.steps, 3):
                    steps += 1
                    session.progress(steps)
                    if session.look == steps and not session.at(steps):
                        break
                offer = Offer(steps, steps)
            return session.ended
        finally:
            session.close()


if __name__ == "__main__":
    unittest.main()
