"""What people see: the lines on stderr, and the names that settings have in Python."""

import nodestub  # first: it puts the package on the path

import array
import os
import pathlib
import subprocess
import sys
import unittest

from p2pdiloco import Flat, Invalid
from p2pdiloco.attach import wire
from p2pdiloco.attach.wire import Message

SCRIPT = """
import array, logging, os, sys
sys.path.insert(0, {package!r})
import p2pdiloco
os.environ["P2PDILOCO_ATTACH"] = {path!r}
{more}
with p2pdiloco.Flat([("w", ())], array.array("f", [0.0]), run="r"{options}):
    pass
"""
SAID = [
    (0, "slot 1/9 loss 3.1"),
    (1, "paused: give --start-peers 2, see p2pdiloco status --data-dir /d"),
]
SHOWN = ["slot 1/9 loss 3.1", "paused: give start_peers=2, see p2pdiloco status --data-dir /d"]


class Lines(unittest.TestCase):
    def script(self, more="", options=""):
        """What a script prints to stderr whose node says two lines."""

        def play(node):
            node.gather()
            for level, text in SAID:
                node.tell(Message(wire.NOTICE, 0, level=level, text=text))
            node.load([0.0])
            node.end()

        stub = nodestub.Stub(self, play)
        package = str(pathlib.Path(__file__).parents[1])
        code = SCRIPT.format(package=package, path=stub.path, more=more, options=options)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
            env={name: v for name, v in os.environ.items() if name != "P2PDILOCO_QUIET"},
        )
        stub.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.splitlines()

    def test_a_script_shows_what_its_node_says(self):
        """Without a word about logging. It was silent from its start to its end."""
        ours = ["p2pdiloco: " + line for line in ["run r: this peer starts", *SHOWN]]
        self.assertEqual(self.script(), ours)

    def test_a_program_that_handles_the_lines_itself(self):
        mine = "logging.basicConfig(format='mine %(message)s')"
        self.assertEqual(self.script(mine)[1:], ["mine " + line for line in SHOWN])
        mine += "; logging.getLogger('p2pdiloco').setLevel(logging.WARNING)"
        self.assertEqual(self.script(mine), ["mine " + SHOWN[1]])

    def test_quiet(self):
        self.assertEqual(self.script(options=", quiet=True"), [SHOWN[1]])
        self.assertEqual(self.script("os.environ['P2PDILOCO_QUIET'] = 'true'"), [SHOWN[1]])


class Names(unittest.TestCase):
    def test_settings_have_the_names_of_python(self):
        from p2pdiloco.lines import spelled

        for text, want in {
            "--outer-lr 0.7 --momentum 0.6 ends lower": "outer_lr=0.7 momentum=0.6 ends lower",
            "(Found, --found, overrides)": "(found, overrides)",
            "with --force (ExportConfig.Force)": "with force",
            "(--init, Config.InitFile)": "(init)",
            "--rounds: 0 is too few": "rounds: 0 is too few",
            "--rounds -1: too few, --codec int9: no": "rounds=-1: too few, codec=int9: no",
            "P2PDILOCO_TICKET=x: no ticket": "ticket=x: no ticket",
            "unknown flag: --outer-rl: did you mean --outer-lr?":
            "unknown setting: outer_rl: did you mean outer_lr?",
            "see p2pdiloco export --data-dir /a": "see p2pdiloco export --data-dir /a",
        }.items():
            self.assertEqual(spelled(text), want)


class Limits(unittest.TestCase):
    """What does not fit is told with its tensor, the limit, and what to do."""

    def test_tensors(self):
        with self.assertRaisesRegex(Invalid, "tensor w has 9 dimensions: 8 are allowed, so .*flat"):
            self.flat("w", (1,) * 9)
        with self.assertRaisesRegex(Invalid, "tensor xx.* has 300 bytes: 256 are allowed, so give"):
            self.flat("x" * 300, ())

    def test_tokens(self):
        flat = self.flat("w", ())
        for bad in (-1, 2**63):
            text = f"tokens\\({bad}\\): a weight is 0 or more, and of a round"
            with self.assertRaisesRegex(Invalid, text):
                flat.tokens(bad)

    def flat(self, name, shape):
        return Flat([(name, shape)], array.array("f", [0.0]), run="r")


if __name__ == "__main__":
    unittest.main()
