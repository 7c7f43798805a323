"""A node that the trainer starts: which options are not for it, and when it is ended."""

import nodestub  # first: it puts the package on the path

import array
import json
import os
import pathlib
import unittest
from unittest import mock

from p2pdiloco import Flat, errors
from p2pdiloco.attach import rendezvous, wire
from p2pdiloco.attach.wire import Message


class OwnNode(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(nodestub.tempfile.mkdtemp())
        self.addCleanup(nodestub.shutil.rmtree, self.folder)

    def join(self, play, **options):
        """A Flat that starts its node. A process that waits is the program, and play speaks."""
        stub = nodestub.Stub(self, play)
        program = self.folder / "program"
        program.write_text(
            f'#!/bin/sh\n(echo "$P2PDILOCO_TICKET"; echo "$@") >{self.folder}/given\n'
            f"echo {stub.path} >{self.folder}/attach\nexec sleep 60\n"
        )
        program.chmod(0o700)
        patch = mock.patch.dict(os.environ, {rendezvous.BINARY_VARIABLE: str(program)})
        patch.start()
        self.addCleanup(patch.stop)
        self.stub = stub
        return self.again(**options)

    def again(self, **options):
        params = array.array("f", [0.0])
        return Flat([("w", ())], params, run="r", data_dir=str(self.folder), **options)

    def end_node(self, flat):
        node = flat._node._node
        node.kill()
        node.wait()

    def test_options_that_come_too_late(self):
        """A script is started again with other options, and its node still runs with the first
        ones. Without a word it would train with these."""
        first = self.join(nodestub.Run(rounds=100), outer_lr="0.7", rounds=100, found=True).start()
        self.addCleanup(self.end_node, first)
        first.close()
        file = self.folder / "node.options"
        given = json.loads(file.read_text())
        file.write_text(json.dumps({**given, "pid": 1}))  # that of the stub
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            self.again(outer_lr="0.7", rounds=100, found=True).start().close()  # the same
            self.again(outer_lr="0.5", rounds=100, bootstrap=["a"]).start().close()
        self.assertEqual(len(logs.output), 1)
        self.assertIn("ran already (pid 1), and keeps the settings", logs.output[0])
        self.assertIn("given here for bootstrap, found, outer_lr is not for it", logs.output[0])
        self.assertIn("kill 1", logs.output[0])

    def test_no_command_line_has_the_ticket(self):
        """All users of a machine can read command lines, for as long as the node runs."""
        flat = self.join(nodestub.Run(rounds=100), ticket="a secret", outer_lr="0.7").start()
        self.addCleanup(self.end_node, flat)
        flat.close()
        pid = flat._node._node.pid
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        given = (self.folder / "given").read_text().splitlines()
        self.assertNotIn(b"secret", line)
        self.assertEqual(given[0], "a secret")
        self.assertIn("--outer-lr=0.7", given[1])
        self.assertNotIn("ticket", given[1])

    def test_a_node_that_is_just_leaving(self):
        """As after Ctrl-C, twice, and a start at once. Its end is waited for."""

        def play(node):
            connection, _ = node.accept()
            node.send(connection, Message(wire.ERROR, 0, code=12, text="the peer leaves the run"))
            connection.close()
            nodestub.Run()(node)

        flat = self.join(play).start()
        self.addCleanup(self.end_node, flat)
        flat.close()

    def test_a_node_that_nobody_can_attach_to_is_ended(self):
        """The layout is refused, say. The node would wait for a trainer for ever."""

        def play(node):
            connection, _ = node.accept()
            node.send(connection, Message(wire.ERROR, 0, code=6, text="is held by no rank"))
            connection.close()

        flat = self.join(play)
        with self.assertRaisesRegex(errors.Invalid, "is held by no rank"):
            flat.start()
        self.assertIsNotNone(flat._node._node.poll())


if __name__ == "__main__":
    unittest.main()
