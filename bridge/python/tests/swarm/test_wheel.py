"""Two peers as a wheel's user has them: an environment with the wheel alone, without Go, a
compiler, numpy and PyTorch.

    P2PDILOCO_TEST_PROGRAM=VENV/bin/p2pdiloco VENV/bin/python -m unittest test_wheel
"""

import pathlib
import shutil
import unittest

import p2pdiloco
from peers import SwarmCase


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


if __name__ == "__main__":
    unittest.main()
