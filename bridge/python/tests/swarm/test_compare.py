"""examples/pytorch/compare.py, with a tiny model; run as test_swarm.py says."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from peers import EXAMPLE

sys.path.insert(0, str(EXAMPLE.parent))
import compare

JOB = dict(peers=2, steps=8, inner_steps=4, tokens=4096)
TRAINER = dict(
    loss=3.0, parameters=5, weights="w", seconds=4.0, slots=[1.0, 3.0], stalls=[0.5, 0.5], steps=8,
    gpu_mb=None, page_locked=None,
)
NODE = dict(state_root="r", bytes_sent=600)


class Figures(unittest.TestCase):
    def test_what_the_peers_report_becomes_a_line(self):
        row = compare.collect(JOB, [TRAINER] * 2, [NODE, dict(NODE, bytes_sent=1000)])
        self.assertEqual((row["bytes_a_slot"], row["still"], row["slot_seconds"]), (400, 0.25, 2))
        self.assertEqual(row["tokens_per_second"], 1024)
        line = compare.line(dict(row, ranks=1, inner_steps=4, codec="int8"))
        self.assertIn("| 1 | 4 | int8 | 3.0000 |", line)
        self.assertIn("| 25.0% | 2.00 | 0.50 | 1024 |  |  |", line)
        slow = dict(TRAINER, page_locked=False)
        for others, pages in (([slow], "not locked"), ([], "locked")):
            row = compare.collect(JOB, [dict(TRAINER, page_locked=True), *others], [NODE] * 2)
            self.assertEqual(row["pages"], pages)

    def test_what_must_not_be_compared_has_failed(self):
        """A peer with another model, or that has trained less, would make the loss mean nothing."""
        for name, other in (("weights", "x"), ("slots", [1.0]), ("steps", 7)):
            with self.assertRaises(compare.Failed, msg=name):
                compare.collect(JOB, [TRAINER, {**TRAINER, name: other}], [NODE] * 2)
        with self.assertRaises(compare.Failed):
            compare.collect(JOB, [TRAINER] * 2, [NODE, dict(NODE, state_root="x")])

    def test_the_idle_share_of_a_gpu(self):
        """What comes before the first use and after the last is start and end of processes."""
        self.assertAlmostEqual(compare.idle("0\n0\n100\n50\n0\n50\n0\n"), 0.5)
        self.assertIsNone(compare.idle("0\n[N/A]\n"))


class Ends(unittest.TestCase):
    def start(self, limit=60):
        started = compare.Processes(limit)
        started.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
        return started

    def test_ctrl_c_ends_what_was_started(self):
        with self.assertRaises(KeyboardInterrupt), self.start() as started:
            raise KeyboardInterrupt
        self.assertIsNotNone(started.all["sleeper"].poll())
        self.assertFalse(started.folder.exists())

    def test_the_time_is_bounded(self):
        with self.assertRaisesRegex(compare.Failed, "the time is over, waiting for nothing"):
            with self.start(limit=0.2) as started:
                started.wait(lambda: False, "nothing")
        self.assertIsNotNone(started.all["sleeper"].poll())

    def test_one_that_fails_is_named_with_its_log(self):
        with self.assertRaisesRegex(compare.Failed, "fails: exit status 3\nwhy"), self.start() as s:
            s.start("fails", [sys.executable, "-c", "import sys; print('why', file=sys.stderr); "
                              "sys.exit(3)"])
            s.wait(lambda: s.ended(["sleeper"]), "the sleeper")


class Whole(unittest.TestCase):
    def test_ddp_in_processes_computes_what_one_process_does(self):
        """On equal tokens, batch by batch: a baseline of other batches would be none."""
        job = dict(
            peers=2, steps=4, batch=4, layers=1, width=16, heads=2, context=16, lr=1e-2, seed=1,
            small=True, device="cpu", data=None, tokens=512,
        )
        one, two = (compare.baseline(job, 120, processes) for processes in (1, 2))
        self.assertAlmostEqual(one["loss"], two["loss"], 5)
        self.assertEqual(one["parameters"], two["parameters"])

    def test_one_setting_fails_and_the_others_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "figures.json")
            done = subprocess.run(
                [sys.executable, str(EXAMPLE.parent / "compare.py"), "--small", "--device=cpu",
                 "--peers=2", "--ranks=1", "--inner-steps=4", "--steps=8", "--codecs=none,int8",
                 "--limit=100", f"--json={file}"],
                capture_output=True, text=True, timeout=240,
                env=dict(
                    os.environ, TMPDIR=folder,
                    P2PDILOCO_BINARY=os.environ["P2PDILOCO_TEST_PROGRAM"],
                ),
            )
            self.assertEqual(done.returncode, 1, done.stderr)
            alone, fails, works = json.loads(file.read_text())["rows"]
            self.assertEqual(os.listdir(folder), [file.name])
        self.assertIn("--codec none: allowed", fails["failed"])
        self.assertIn("| 1 | 4 | none | failed |", done.stdout)
        self.assertLess(max(alone["loss"], works["loss"]), 4)  # both learn; log 256 is 5.5
        self.assertEqual(works["to_ddp"], works["loss"] - alone["loss"])
        self.assertGreater(works["bytes_a_slot"], works["parameters"])
        self.assertTrue(0 < works["still"] < 1, works)


if __name__ == "__main__":
    unittest.main()
