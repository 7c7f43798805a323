"""A node that is there and does nothing, and one that waits for the other ranks."""

import nodestub  # first: it puts the package on the path

import array
import contextlib
import os
import socket
import threading
import time
import unittest
from unittest import mock

from p2pdiloco import Lost, NodeGone
from p2pdiloco.attach import session, watch, wire
from p2pdiloco.attach.session import Offer, Session
from p2pdiloco.attach.wire import Message
from p2pdiloco.flat import FlatHeld


def held():
    return FlatHeld([("w", (2,))], array.array("f", [1.0, 2.0]))


class WatchCase(unittest.TestCase):
    def setUp(self):
        for module, name, value in (
            (watch, "QUIET", 0.3), (session, "_IDLE", 0.05), (session, "_GATHERS", 0.2),
            (watch, "_ANSWER", 0.2),
        ):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.over = threading.Event()

    def attach(self, play, **options):
        self.stub = nodestub.Stub(self, play)
        self.addCleanup(self.over.set)  # before the stub's own, which waits for play
        options = {"node_timeout": 1.0, **options}
        attached = Session(self.stub.find, held(), **options)
        self.addCleanup(attached.close)
        return attached

    def refused(self, logs, *texts):
        """One warning, and an error, have said what to do."""
        self.assertEqual(len(logs.output), 1, logs.output)
        for text in ("has shown no sign of life", "p2pdiloco status", *texts):
            self.assertIn(text, logs.output[0])


class Quiet(WatchCase):
    def test_a_node_that_does_not_answer(self):
        """A stopped process, in whose name the system takes connections."""
        path = os.path.join(nodestub.tempfile.mkdtemp(), "attach.sock")
        self.addCleanup(nodestub.shutil.rmtree, os.path.dirname(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen()
            pid, began = os.getpid(), time.monotonic()
            with self.assertLogs("p2pdiloco", "WARNING") as logs, self.assertRaisesRegex(
                NodeGone, rf"\(pid {pid}\) has shown no sign of life for 1 s: .*kill -CONT {pid}"
            ):
                Session(lambda: path, held(), connect_timeout=1.0)
        self.refused(logs, f"pid {pid}")
        self.assertLess(time.monotonic() - began, 10)

    def test_a_node_that_falls_silent_while_a_border_waits(self):
        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            self.over.wait(30)

        attached = self.attach(play)
        attached.border()
        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.assertRaisesRegex(
            NodeGone, rf"\(pid {os.getpid()}\) has shown no sign of life for 1 s: it is stopped"
        ):
            attached.border(Offer(1, 1))
        self.refused(logs, f"--data-dir {os.path.dirname(self.stub.path)}")

    def test_a_node_that_falls_silent_while_a_rank_asks_whether_to_go_on(self):
        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=9, look=1)
            self.over.wait(30)

        attached = self.attach(play)
        attached.border()
        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.assertRaises(NodeGone):
            attached.at(1)
        self.refused(logs)

    def test_a_node_that_falls_silent_in_the_midst_of_a_message(self):
        def play(node):
            node.gather()
            raw = wire.pack(Message(wire.LOAD, 1, end=2, generation=1))
            node.ranks[0].sendall(raw[:20])
            self.over.wait(30)

        attached = self.attach(play)
        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.assertRaises(NodeGone):
            attached.border()
        self.refused(logs)

    def test_a_long_reduction_is_not_silence(self):
        """The node sends nothing for longer than the timeout, and its beat goes on."""

        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            until = time.monotonic() + 2
            while time.monotonic() < until:
                node.beat()
                time.sleep(0.02)
            node.load([2.0, 2.0])
            node.train(slot=2, steps=1)

        attached = self.attach(play)
        attached.border()
        with self.assertNoLogs():
            self.assertEqual(attached.border(Offer(1, 1)).slot, 2)
        attached.close()

    def test_a_node_that_was_stopped_for_a_while(self):
        def play(node):
            node.gather()
            self.over.wait(30)
            node.load([1.0, 1.0])
            node.train(steps=1)

        attached = self.attach(play, node_timeout=60.0)
        threading.Timer(1, self.over.set).start()
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            self.assertEqual(attached.border().steps, 1)
        self.assertEqual(len(logs.output), 2, logs.output)
        self.assertIn(f"the node of this machine (pid {os.getpid()}) goes on", logs.output[1])
        attached.close()

    def test_time_in_which_this_process_was_stopped_does_not_count(self):
        """As with Ctrl-Z, which stops the node as well."""
        quiet = watch.Watch()
        quiet.begin(10.0)
        with self.assertLogs("p2pdiloco", "WARNING"):
            quiet.silent(3600.0)

    @contextlib.contextmanager
    def assertNoLogs(self):
        with mock.patch.object(watch, "_log") as log:
            yield
        self.assertEqual(log.mock_calls, [])


class Gathering(WatchCase):
    def play(self, seconds, lives=True, notices=0):
        """Plays a node that one of two ranks has attached to, and that waits so long for the
        other. Meanwhile it refuses those who only look whether it lives."""

        def play(node):
            connection, hello = node.accept()
            node.welcome(connection, hello)
            layout = node.receive(connection)
            for _ in range(notices):
                text = "the trainer is not complete: rank 1 of 2 has not attached"
                node.send(connection, Message(wire.NOTICE, 0, level=1, text=text))
            until = time.monotonic() + seconds
            node._listener.settimeout(0.05)
            while time.monotonic() < until and not self.over.is_set():
                try:
                    other, _ = node.accept() if lives else self.over.wait(0.05) or (None, None)
                except socket.timeout:
                    continue
                if other is not None:
                    node.send(other, Message(wire.ERROR, 0, code=1, text="PING before HELLO"))
                    other.close()
            node.send(connection, Message(
                wire.ERROR, layout.id, code=10, text="rank 1 of 2 has not attached for 2s"
            ))

        return play

    def test_the_missing_rank_is_named(self):
        """By the node, to one of the ranks that are there; it may not be rank 0."""
        for rank in (0, 1):
            with self.subTest(rank), self.assertLogs("p2pdiloco", "WARNING") as logs:
                with self.assertRaisesRegex(Lost, "rank 1 of 2 has not attached for 2s"):
                    self.attach(self.play(0.5, notices=1), rank=rank, world=2, set="both")
            self.assertEqual(len(logs.output), 1, logs.output)
            self.assertIn("not complete: rank 1 of 2 has not attached", logs.output[0])

    def test_a_node_that_falls_silent(self):
        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.assertRaises(NodeGone):
            self.attach(self.play(10, lives=False), world=2, set="both")
        self.refused(logs)


if __name__ == "__main__":
    unittest.main()
