"""What needs one kind of peer, over a real node and loopback; run as test_swarm.py says."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest
from unittest import mock

from p2pdiloco import Error
from p2pdiloco.attach.session import Session
from p2pdiloco.attach.wire import Box, TensorSpec
from peers import EXAMPLE, LISTEN, NIGHT, PATIENCE, Process, SwarmCase, TorchProcess, node_pid

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
        kinds = {"fork": 2, "spawn": 2 if NIGHT else 1}  # each that is spawned imports PyTorch
        peers = [
            self.peer(kind, run=f"{self.run_name}-{kind}", workers=(kind, n), **settings)
            for kind, n in kinds.items()
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

    def test_ctrl_c_while_the_run_waits_for_a_second_peer(self):
        """The node leaves within seconds, and the next start attaches to a new one. A node that
        heard of it only at the first round would refuse that start."""
        data = self.folder / "peer"
        for _ in range(2):
            peer = self.peer("peer", "box_peer.py", inner_steps=4, rounds=4, start_peers=2)
            self.until(lambda: "waits for start_peers" in self.status(data))
            node = node_pid(data)
            self.addCleanup(self.end_process, node)
            peer.kill(signal.SIGINT)
            self.until(lambda: not os.path.exists(f"/proc/{node}"), 5)
            peer.end(-signal.SIGINT)
            self.assertNotIn("has not ended within", peer.told())

    def test_a_killed_trainer_with_workers_is_the_same_peer_again(self):
        """Its workers live on for some seconds. They kept its directory and its connection, so that
        it came back as another peer, beside the one that it was."""
        with mock.patch.dict(os.environ, XDG_STATE_HOME=str(self.folder)):
            settings = dict(data_dir=None, inner_steps=4, rounds=4, workers=("fork", 2), hold=1)
            killed = self.peer("killed", **settings)
            joined = killed.report("joined")
            killed.report("round")
            killed.kill()
            go = self.folder / "go"
            go.touch()
            again = self.peer("again", go=str(go), **settings)
            self.assertEqual(again.report("joined")["peer"], joined["peer"])
            again.report("done")
            again.end()
        folder = self.folder / "p2pdiloco" / self.run_name / ("host-" + socket.gethostname())
        self.assertEqual([path.name for path in folder.iterdir()], ["attach-1"])

    def test_a_model_that_the_machine_has_no_room_for(self):
        """It is refused before the first step, and the node says why in its own lines, too."""
        data, text = self.folder / "box", "too little memory: a vector that is shared with the"
        node = Process(self, "node", [
            self.program, "join", "--run", self.run_name, "--found", "--bootstrap", self.bootstrap,
            "--listen", LISTEN, "--data-dir", str(data), "--trainer", "attach",
        ])
        self.until((data / "attach").exists)
        side = 1 << 20
        held = mock.Mock(
            tensors=[TensorSpec("w", (side, side))], pieces=[Box(0, (0, 0), (side, side))], saves=0
        )
        with self.assertRaisesRegex(Error, f"^{text} trainer takes 4194304 MiB, and [0-9]+ MiB"):
            Session(lambda: (data / "attach").read_text().strip(), held)
        self.assertEqual(held.method_calls, [])
        self.until(lambda: f"refused before its first step: {text}" in node.told())
        self.assertIn(f'"a trainer was refused" err="{text}', node.told())

    def test_a_trainer_that_dies_before_all_its_ranks_are_there(self):
        """As torchrun ends rank 0, when rank 1 has failed at an import. Its node would wait for a
        trainer for ever."""
        rank, node = self.rank_0_of_2()
        rank.kill()
        self.until(lambda: not os.path.exists(f"/proc/{node}"), 5)

    def test_a_rank_that_never_comes_is_named_where_the_others_print(self):
        """As with DiLoCo in rank 0 alone, which waited without a line: its node prints to a file,
        and the API has no status yet. The end is an exception that names the rank as well."""
        rank, node = self.rank_0_of_2(trainer_timeout="15s")
        rank.end(1)
        missing = "rank 1 of 2 has not attached"
        self.assertIn(f"the trainer is not complete: {missing}. Training", rank.told())
        self.assertIn(f"p2pdiloco.errors.Lost: {missing} for 15s (trainer_timeout)", rank.told())
        self.assertFalse(os.path.exists(f"/proc/{node}"))

    def rank_0_of_2(self, **settings):
        """A rank that has started its node, and waits for the other rank."""
        data = self.folder / "box"
        settings = dict(
            run=self.run_name, found=True, bootstrap=[self.bootstrap], listen=[LISTEN],
            data_dir=str(data), kind="flat", **settings,
        )
        rank = TorchProcess(
            self, "rank 0", "box_peer.py", json.dumps(settings),
            P2PDILOCO_BINARY=self.program, RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1", MASTER_PORT="1",
        )
        self.until((data / "attach").exists)
        node = node_pid(data)
        self.addCleanup(self.end_process, node)
        return rank, node

    def test_numpy_without_torch(self):
        settings = dict(inner_steps=20, rounds=10, start_peers=2, momentum="0.5")
        peers = [self.peer(f"peer-{i}", "numpy_peer.py", **settings) for i in range(2)]
        done = [p.report("done") for p in peers]
        for p in peers:
            p.end()
        self.assertEqual(done[0]["state_root"], done[1]["state_root"])
        self.assertLess(done[0]["off"], 0.5)

    @staticmethod
    def end_process(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended

    def order(self, *words):
        """What a command prints; empty if it fails."""
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def status(self, data_dir):
        return self.order("status", "--data-dir", str(data_dir))

    def until(self, done, patience=PATIENCE):
        deadline = time.monotonic() + patience
        while not done():
            self.assertLess(time.monotonic(), deadline, "it never came")
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
