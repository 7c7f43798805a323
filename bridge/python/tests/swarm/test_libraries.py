"""Training libraries, as boxes of one or two ranks, in one run over loopback.

    P2PDILOCO_TEST_PROGRAM=./p2pdiloco python3 -m unittest discover -s bridge/python/tests/swarm \\
        -p test_libraries.py
"""

import json
import socket
import unittest

import peers
from peers import LISTEN, SwarmCase, TorchProcess

peers.PATIENCE = 240  # seven processes import PyTorch, on a machine that may be busy
BOXES = {"plain": 1, "trainer": 2, "accelerate": 2, "lightning": 1, "titan": 1}
ROUNDS, STEPS = 4, 5


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


class Libraries(SwarmCase):
    def box(self, kind, world):
        settings = {
            "kind": kind, "run": self.run_name, "found": True, "bootstrap": [self.bootstrap],
            "listen": [LISTEN], "preset": "lan", "data_dir": str(self.folder / kind),
            "inner_steps": STEPS, "rounds": ROUNDS, "start_peers": len(BOXES),
            "min_peers": len(BOXES),
        }
        port = free_port()
        return [
            TorchProcess(
                self, f"{kind} rank {rank}", "library_peer.py", json.dumps(settings),
                P2PDILOCO_BINARY=self.program, RANK=str(rank), LOCAL_RANK=str(rank),
                WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
            for rank in range(world)
        ]

    def test_all_of_them_in_one_run(self):
        ranks = [rank for kind, world in BOXES.items() for rank in self.box(kind, world)]
        done = [rank.report("done") for rank in ranks]
        for rank in ranks:
            rank.end()
        self.assertEqual({(d["slot"], d["rounds"]) for d in done}, {(ROUNDS, ROUNDS)}, done)
        self.assertTrue(all(d["moved"] for d in done), done)
        self.assertEqual(len({d["weights"] for d in done}), 1, done)


if __name__ == "__main__":
    unittest.main()
