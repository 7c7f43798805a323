"""Peers as a wheel's user has them: an environment with the wheel alone, without Go, a compiler,
numpy and PyTorch; and one with this system's PyTorch, for the example.

    P2PDILOCO_TEST_PROGRAM=VENV/bin/p2pdiloco P2PDILOCO_TEST_WHEEL=WHEEL \\
        VENV/bin/python -m unittest test_wheel
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

import p2pdiloco
from peers import EXAMPLE, LISTEN, Process, SwarmCase

READY = 60  # seconds that a user may wait from the installation to the first agreed slot


class Wheel(SwarmCase):
    def test_two_peers(self):
        here = pathlib.Path(p2pdiloco.__file__).parent
        self.assertTrue((here / "bin" / "p2pdiloco").is_file(), "this is no wheel's package")
        self.assertIsNone(shutil.which("go"))
        settings = dict(inner_steps=5, rounds=3, start_peers=2, min_peers=2)
        peers = [
            self.peer(f"peer-{k}", "flat_peer.py", weight=k, **settings) for k in (1, 2)
        ]
        done = [p.report("done") for p in peers]
        for p in peers:
            p.end()
        self.assertEqual([d["slot"] for d in done], [3, 3])
        self.assertEqual(done[0]["params"], done[1]["params"])
        self.assertNotEqual(done[0]["params"], [0.0] * 10)

    def test_from_pip_install_to_the_first_agreed_slot(self):
        """Two peers train the PyTorch example, in an environment that pip has just installed the
        wheel into."""
        there, python = self.folder / "venv", getattr(sys, "_base_executable", sys.executable)
        subprocess.run([python, "-m", "venv", "--system-site-packages", there], check=True)
        path = f"{there}/bin:/usr/bin:/bin"
        self.assertIsNone(shutil.which("go", path=path))
        began = time.monotonic()
        subprocess.run(
            [there / "bin" / "pip", "install", "--quiet", "--no-index",
             os.environ["P2PDILOCO_TEST_WHEEL"]], check=True,
        )
        installed = time.monotonic() - began
        peers = [
            Process(
                self, f"peer {i}",
                [str(there / "bin" / "python"), str(EXAMPLE), "--run", self.run_name,
                 "--bootstrap", self.bootstrap, "--preset", "lan", "--start-peers", "2",
                 "--rounds", "3", "--sync-every", "10", "--data-dir", str(self.folder / str(i))],
                PATH=path, P2PDILOCO_LISTEN=LISTEN, P2PDILOCO_FOUND="true",
            )
            for i in range(2)
        ]
        for p in peers:
            p.line(lambda line: line.startswith("slot 1 of 3"))
        took = time.monotonic() - began
        print(f"the first slot is agreed on after {took:.1f} s, {installed:.1f} s of them pip's")
        self.assertLess(took, READY)
        roots = [p.line(lambda line: line.startswith("state root")).split()[2] for p in peers]
        self.assertEqual(roots[0], roots[1])
        for p in peers:
            p.end()


if __name__ == "__main__":
    unittest.main()
