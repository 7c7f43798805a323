"""What crashes of script and node cost, over a real node; run as test_swarm.py says."""

import json
import time
import unittest

from peers import LISTEN, NIGHT, PATIENCE, SwarmCase, TorchProcess

ROUNDS, H = 5, 4
KILLS = {1: (2, 8, 10), 2: (4, 6)} if NIGHT else {1: (10,), 2: (4,)}  # at which steps, by ranks
KINDS = ("AdamW", "SGDm", "SGD") if NIGHT else ("AdamW",)


class Crashes(SwarmCase):
    def ranks(self, name, world=1, **settings):
        """All ranks of a peer."""
        settings = {
            "run": f"{self.run_name}-{name}", "bootstrap": [self.bootstrap], "listen": [LISTEN],
            "found": True, "preset": "lan", "data_dir": str(self.folder / name), "rounds": ROUNDS,
            "inner_steps": H, "seed": 7, **settings,
        }
        self.set = getattr(self, "set", 0) + 1
        return [
            TorchProcess(
                self, f"{name} {rank}", "kept_peer.py", json.dumps(settings), RANK=str(rank),
                WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(self.set), P2PDILOCO_BINARY=self.program,
            )
            for rank in range(world)
        ]

    def result(self, ranks):
        """What all ranks have at the end, but for what is of this process alone."""
        done = [rank.report("done") for rank in ranks]
        for rank in ranks:
            rank.end()
        return [{k: v for k, v in one.items() if k not in ("rounds", "resets")} for one in done]

    def killed(self, who, at, world, want):
        name, once = f"{who}-{at}-{world}", str(self.folder / f"once-{who}-{at}-{world}")
        ranks = self.ranks(name, world, kill=who, at=at, once=once)
        if who != "node":
            deadline = time.monotonic() + PATIENCE
            while all(rank.process.poll() is None for rank in ranks):
                self.assertLess(time.monotonic(), deadline, f"{name}: no rank has killed itself")
                time.sleep(0.05)
            for rank in ranks:  # as torchrun does: another may still wait for the rank that is gone
                rank.kill()
                rank.process.wait()
            ranks = self.ranks(name, world, kill=who, at=at, once=once)
        self.assertEqual(self.result(ranks), want, f"killed: {name}")
        said = [json.loads(line)["text"] for line in ranks[0].seen if "went on at step" in line]
        slot = at // H
        self.assertEqual(
            said, [f"went on at step {slot * H} of {ROUNDS * H} (slot {slot + 1}); optimizer kept"]
        )

    def test_a_crash_costs_the_open_round_and_no_more(self):
        """Script, node or both are killed with -9 in the midst of a round, or as one has begun. At
        the end learning rate, Adam's steps, loss and model are those of a run without a crash."""
        for world, kills in KILLS.items():
            want = self.result(self.ranks(f"whole-{world}", world))
            self.assertEqual([one["steps"] for one in want], [ROUNDS * H] * world)
            for who in ("script", "node", "both"):
                for at in kills:
                    with self.subTest(who=who, at=at, world=world):
                        self.killed(who, at, world, want)

    def test_a_batch_with_nan_costs_its_round(self):
        """The optimizer holds the NaN, and so would every later step. After reset the peer
        contributes to all rounds that are left."""
        for kind in KINDS:
            for keeps in (True, False):
                with self.subTest(kind=kind, keeps=keeps):
                    name = f"{kind}-{keeps}"
                    once = str(self.folder / f"once-{name}")
                    ranks = self.ranks(name, optimizer=kind, keeps=keeps, nan=2 * H - 1, once=once)
                    done = ranks[0].report("done")
                    self.assertEqual((done["rounds"], done["resets"]), (ROUNDS, 1))
                    if keeps:
                        self.assertEqual(done["schedule"], ROUNDS * H)
                    ranks[0].end()


if __name__ == "__main__":
    unittest.main()
