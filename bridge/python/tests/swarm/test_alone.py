"""What needs one kind of peer, over a real node and loopback; run as test_swarm.py says."""

import os
import unittest

from peers import EXAMPLE, SwarmCase

os.environ["P2PDILOCO_TEST_EXAMPLE"] = str(EXAMPLE.parent)


class Alone(SwarmCase):
    def test_the_outer_step_is_pytorchs(self):
        runs = [
            dict(outer="nesterov", outer_lr="0.7", momentum="0.9"),
            dict(outer="sgd", outer_lr="0.7", momentum="0"),
        ]
        peer = self.peer("peer", "parity_peer.py", inner_steps=3, rounds=6, runs=runs)
        for _ in runs:
            done = peer.report("done")
            self.assertEqual((done["rounds"], done["differing"]), (6, 0))
            self.assertGreater(done["moved"], 5 * done["elements"])
        peer.end()

    def test_data_loader_workers(self):
        settings = dict(inner_steps=4, rounds=3)
        peers = [
            self.peer(kind, run=f"{self.run_name}-{kind}", workers=kind, **settings)
            for kind in ("fork", "spawn")
        ]
        for peer in peers:
            self.assertEqual(peer.report("done")["slot"], 3)
            peer.end()

    def test_a_checkpoint_in_the_middle_of_a_round(self):
        file, settings = str(self.folder / "checkpoint"), dict(inner_steps=4, rounds=4)
        dies = self.peer("peer", save=file, **settings)
        saved = dies.report("saved")
        dies.end(9)
        self.assertEqual((saved["slot"], saved["steps"]), (1, 3))
        again = self.peer("peer", resume=file, **settings)
        joined = again.report("joined")
        for key in ("slot", "steps", "weights"):
            self.assertEqual(joined[key], saved[key], key)
        self.assertEqual(again.report("done")["rounds"], 3)
        again.end()

    def test_numpy_without_torch(self):
        settings = dict(inner_steps=20, rounds=10, start_peers=2, momentum="0.5")
        peers = [self.peer(f"peer-{i}", "numpy_peer.py", **settings) for i in range(2)]
        done = [p.report("done") for p in peers]
        for p in peers:
            p.end()
        self.assertEqual(done[0]["state_root"], done[1]["state_root"])
        self.assertLess(done[0]["off"], 0.5)


if __name__ == "__main__":
    unittest.main()
