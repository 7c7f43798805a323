"""Peers as processes of their own, over real nodes and loopback.

    P2PDILOCO_TEST_PROGRAM=./p2pdiloco python3 -m unittest discover -s bridge/python/tests/swarm

The package is the one that Python finds: an installed one, or that of PYTHONPATH.
"""

import concurrent.futures
import json
import re
import signal
import sys
import unittest

from peers import EXAMPLE, LISTEN, Process, SwarmCase, TorchProcess, ask


class Swarm(SwarmCase):
    def test_one_is_killed_and_one_comes_late(self):
        go = str(self.folder / "go")
        settings = dict(inner_steps=4, rounds=12, start_peers=4, hold=8, go=go)
        *stay, dies = first = [self.peer(f"peer-{i}", **settings) for i in range(4)]
        for p in first:
            self.assertEqual(p.report("joined")["every"], 4)
        dies.report("round")
        dies.crash(self.folder / "peer-3")
        late = self.peer("late", hold=8, go=go)
        joined = late.report("joined")
        self.assertEqual(joined["every"], 4)  # adopted
        self.assertGreater(joined["slot"], 0)
        open(go, "w").close()
        done = [p.report("done") for p in (*stay, late)]
        for p in (*stay, late):
            p.end()
        self.assertEqual({d["slot"] for d in done}, {12})
        self.assertEqual(len({d["state_root"] for d in done}), 1, done)
        self.assertEqual(len({d["weights"] for d in done}), 1, done)
        self.assertGreaterEqual(done[-1]["rounds"], 1)
        for slot in done[0]["parts"]:
            parts = [d["parts"][slot] for d in done if slot in d["parts"]]
            self.assertEqual(len(parts), len(set(parts)), f"slot {slot}: {parts}")

    def test_agreed_weights_on_demand(self):
        for mode in ("sync", "delayed"):
            settings = dict(inner_steps=4, rounds=5, start_peers=2, min_peers=2, mode=mode, force=6)
            name = f"{self.run_name}-{mode}"
            peers = [self.peer(f"{mode}-{i}", run=name, **settings) for i in range(2)]
            forced, done = [[p.report(kind) for p in peers] for kind in ("forced", "done")]
            self.assertEqual(forced[0], forced[1])
            self.assertEqual((forced[0]["slot"], forced[0]["steps"]), (2, 0))
            self.assertEqual(len({d["weights"] for d in done}), 1)
            for p in peers:
                p.end()

    def test_streaming(self):
        settings = dict(inner_steps=8, rounds=3, start_peers=2, mode="streaming", fragments=4)
        settings.update(min_peers=2, fragment_delay=1, force=9)
        peers = [self.peer(f"peer-{i}", **settings) for i in range(2)]
        forced, done = [[p.report(kind) for p in peers] for kind in ("forced", "done")]
        self.assertEqual(forced[0], forced[1])
        self.assertEqual((done[0]["slot"], done[0]["weights"]), (12, done[1]["weights"]))
        for slot, part in done[0]["parts"].items():
            self.assertNotEqual(part, done[1]["parts"].get(slot), f"slot {slot}")
        for p in peers:
            p.end()

    def test_questions(self):
        """Asked in the midst of a round, the peers answer with one anchor, the next; a peer without
        a function says so, and one whose function fails trains on."""
        for mode in ("sync", "streaming"):
            go, name = str(self.folder / f"go-{mode}"), f"{self.run_name}-{mode}"
            settings = dict(inner_steps=4, rounds=6, start_peers=3, min_peers=3, mode=mode,
                            hold=2, go=go, run=name)
            peers = [
                self.peer(f"{mode}-{i}", answers=i < 2, **settings) for i in range(3)
            ]
            for p in peers:
                while p.report("round")["slot"] < 2:
                    pass
            with concurrent.futures.ThreadPoolExecutor() as threads:
                asked = [
                    threads.submit(ask, self.folder / f"{mode}-{i}", "which?") for i in range(3)
                ]
                done, _ = concurrent.futures.wait(asked, timeout=1)
                self.assertFalse(done, "no round has begun meanwhile")
                open(go, "w").close()
                one, two, none = [a.result() for a in asked]
                failed = ask(self.folder / f"{mode}-0", "raise")
            self.assertGreaterEqual(one["slot"], 3 if mode == "sync" else 2)  # 3 is under way then
            self.assertRegex(one["text"], "^[0-9a-f]{64} False False$")
            if one["slot"] == two["slot"]:  # where slots are short one peer may be a round ahead
                self.assertEqual(one, two)
            self.assertIn("the trainer has nothing to answer with", none)
            self.assertIn("d.sampler_fn: ZeroDivisionError: no words", failed)
            done = [p.report("done") for p in peers]
            self.assertEqual(len({d["weights"] for d in done}), 1, done)
            for p in peers:
                p.end()

    def test_ctrl_c_leaves(self):
        settings = dict(inner_steps=4, rounds=500, start_peers=2)
        stays = self.peer("stays", events=["peer.left"], **settings)
        leaves = self.peer("leaves", **settings)
        peer = leaves.report("joined")["peer"]
        leaves.report("round")
        leaves.kill(signal.SIGINT)
        left = stays.report("peer.left")
        self.assertEqual((left["about"], left["detail"]), (peer, "left"))
        leaves.end(-signal.SIGINT)  # as of any Python program that Ctrl-C ends
        stays.report("round")
        stays.kill(signal.SIGINT)
        stays.end(-signal.SIGINT)

    def test_go_and_pytorch_in_one_run(self):
        sizes = dict(layers=2, width=32, heads=4, context=16, batch=8)
        data = str(EXAMPLE.parents[2] / "docs/spec/deciding.md")
        model = str(self.folder / "model.pt")
        go = Process(self, "go", [
            self.program, "join", "--run", self.run_name, "--bootstrap", self.bootstrap, "--found",
            "--listen", LISTEN, "--preset", "lan", "--rounds", "5", "--inner-steps", "10",
            "--start-peers", "2", "--data-dir", str(self.folder / "go"), "--json",
            "--data", data,
            "--model", ",".join(f"{k}={v}" for k, v in sizes.items()),
        ])
        script = [
            str(EXAMPLE), "--run", self.run_name, "--bootstrap", self.bootstrap,
            "--preset", "lan", "--rounds", "5", "--sync-every", "10", "--start-peers", "2",
            "--data-dir", str(self.folder / "torch"), "--data", data, "--save", model,
            *(f"--{k}={v}" for k, v in sizes.items()),
        ]
        settings = dict(
            P2PDILOCO_LISTEN=LISTEN, P2PDILOCO_FOUND="true", P2PDILOCO_BINARY=self.program
        )
        # with the kernels that PyTorch chooses here
        torch = Process(self, "torch", [sys.executable, *script], **settings)
        here = re.search("state root ([0-9a-f]{64})", torch.line(lambda line: "state root" in line))
        report = json.loads(go.line(lambda line: line.startswith("{")))
        torch.end()
        go.end()
        self.assertEqual(report["slot"], 5)
        self.assertEqual(report["state_root"], here[1])
        again = TorchProcess(self, "again", *script, **settings)
        self.assertIn(here[1], again.line(lambda line: "state root" in line))
        again.end()
        held_out = TorchProcess(self, "loss", "loss.py", model, data, json.dumps(sizes))
        self.assertAlmostEqual(held_out.report("loss")["loss"], report["loss_last"], delta=2e-6)
        held_out.end()


if __name__ == "__main__":
    unittest.main()
