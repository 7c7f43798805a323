"""examples/pytorch/compare.py, with a tiny model; run as test_swarm.py says."""

import contextlib
import io
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
import compare_run

CELL = compare.Cell("r1-h30-int8", "pytorch", 1, 4, "int8", 2)
JOB = dict(batch=4, context=32)
NODE = dict(state_root="r", bytes_sent=600, tokens=1024, parameters=5)
STATS = [(10.0, 0.0), (11.0, 0.5), (14.0, 2.5)]  # two slots, of one and of three seconds
TRAINER = dict(loss=3.0, weights="w", gpu_mb=None, page_locked=None)
DDP = dict(cell="ddp", loss=2.5, losses={"8": 2.75, "100": 2.5}, steps=100)


class Figures(unittest.TestCase):
    def test_what_the_peers_report_becomes_a_line(self):
        row = compare_run.collect(CELL, JOB, [NODE, dict(NODE, bytes_sent=1000)], [STATS] * 2)
        self.assertEqual((row["bytes_a_slot"], row["idle"], row["slot_seconds"]), (400, 0.25, 2))
        self.assertEqual((row["tokens_a_second"], row["ddp_bytes"]), (512, 80))
        row.update(compare_run.of_trainers([TRAINER] * 2), cell="r1-h30-int8")
        line = compare.line(row, DDP)
        self.assertIn("| r1-h30-int8 | 3.0000 | +0.2500 | 2048 | 0.000 | 0.0 | 25.0% |", line)
        slow = dict(TRAINER, page_locked=False)
        for others, pages in (([slow], "not locked"), ([], "locked")):
            found = compare_run.of_trainers([dict(TRAINER, page_locked=True), *others])
            self.assertEqual(found["pages"], pages)

    def test_what_must_not_be_compared_has_failed(self):
        """A peer with another model, or that has trained less, would make the loss mean nothing."""
        for nodes, stats in (
            ([NODE, dict(NODE, state_root="x")], [STATS] * 2),
            ([NODE, dict(NODE, tokens=896)], [STATS] * 2),
            ([NODE] * 2, [STATS, STATS[:2]]),
        ):
            with self.assertRaises(compare_run.Failed):
                compare_run.collect(CELL, JOB, nodes, stats)
        with self.assertRaises(compare_run.Failed):
            compare_run.of_trainers([TRAINER, dict(TRAINER, weights="x")])

    def test_a_cell_that_is_cut_says_so(self):
        """With the figures of the slots that are done, and no loss."""
        row = compare_run.collect(CELL, JOB, [{}, {}], [STATS, STATS[:2]], cut="late")
        self.assertEqual((row["slots"], row["slot_seconds"], row["tokens"]), (1, 1, 1024))
        line = compare.line(dict(row, cell="r1-h30-int8"), DDP)
        self.assertIn("| r1-h30-int8 | cut, 1 of 4 slots |  | 1024 |", line)
        row = compare_run.collect(CELL, JOB, [{}, {}], [STATS, []], cut="late")
        self.assertEqual((row["slots"], row["cut"]), (0, "late"))

    def test_the_idle_share_of_a_gpu(self):
        """What comes before the first use and after the last is start and end of processes."""
        self.assertAlmostEqual(compare_run.idle("0\n0\n100\n50\n0\n50\n0\n"), 0.5)
        self.assertIsNone(compare_run.idle("0\n[N/A]\n"))


class Cells(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "results.jsonl")
        self.before, compare.measure = compare.measure, self.measure
        self.addCleanup(lambda: setattr(compare, "measure", self.before))
        self.measured, self.rows = [], {}

    def measure(self, cell, job, limit):
        self.measured.append(cell.name)
        if cell.name == "r1-h30-f32":
            raise KeyboardInterrupt
        return dict(cell=cell.name, **self.rows.get(cell.name, {"loss": 1.0}))

    def run_cells(self, *given, settings={"seed": 1}):
        """Runs with a measure that is none, and returns which cells it measured, and why it did
        not measure the others."""
        args = compare.arguments(["--small", *given])
        rows = compare.read_results(self.file, settings)
        self.measured = []
        why = compare.run(args, {}, rows, lambda row: compare.add_result(
            self.file, dict(row, settings=settings)))
        return self.measured, why

    def test_the_order_and_equal_tokens(self):
        names = list(compare.CELLS)
        self.assertEqual(names[:3], ["ddp", "r1-h30-int8", "r2-h30-int8"])
        self.assertEqual(len(names), 1 + 3 * 2 * 3)
        for cell in compare.CELLS.values():
            self.assertTrue(cell.trainer == "ddp" or cell.steps in compare.MARKS, cell)

    def test_an_interrupted_script_goes_on(self):
        self.rows = {"r1-h30-int8": {"cut": "late"}, "r2-h30-int8": {"failed": "no memory"}}
        with self.assertRaises(KeyboardInterrupt):
            self.run_cells()
        self.assertEqual(
            self.measured, ["ddp", "r1-h30-int8", "r2-h30-int8", "r1-h30-f32"]
        )
        with open(self.file, "a") as file:
            file.write('{"cell": "r1-h30-f3')  # killed while it wrote
        self.rows = {}
        # done and cut cells are not run again, and one that has failed is
        measured, _ = self.run_cells("--only", "ddp,r?-h30-int?")
        self.assertEqual(measured, ["r2-h30-int8", "r1-h30-int4", "r2-h30-int4"])
        self.assertEqual(self.run_cells("--only", "ddp,r?-h30-int?")[0], [])
        rows = compare.read_results(self.file, {"seed": 1})
        self.assertEqual(len(compare.table(rows)), 2 + 5)
        with self.assertRaisesRegex(SystemExit, "line 1: .* another seed, .*--results"):
            compare.read_results(self.file, {"seed": 2})

    def test_what_is_not_run_is_named(self):
        measured, why = self.run_cells("--only", "cuda-h30-int8,ddp", "--library", "/none.so")
        self.assertEqual(measured, ["ddp"])
        self.assertIn("/none.so is not there: build train.cu", why["cuda-h30-int8"])
        measured, why = self.run_cells("--only", "r1-h100-*", "--seconds", "80")
        self.assertEqual((measured, why["r1-h100-f32"]), ([], "--seconds leaves no time"))

    def test_a_wrong_command_line_says_what_is_right(self):
        for given, said in (
            (["--small", "--only", "ddp,nothing"], "--only nothing: no cell has such a name"),
            (["--small", "--set", "trust"], "NAME=VALUE is needed"),
        ):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as err:
                compare.arguments(given)
            self.assertIn(said, err.getvalue())
        with self.assertRaisesRegex(SystemExit, "bytes of text, at least"):
            compare.text(pathlib.Path(__file__))


class Ends(unittest.TestCase):
    def start(self, limit=60):
        started = compare_run.Processes(limit)
        started.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
        return started

    def test_ctrl_c_ends_what_was_started(self):
        with self.assertRaises(KeyboardInterrupt), self.start() as started:
            raise KeyboardInterrupt
        self.assertIsNotNone(started.all["sleeper"].poll())
        self.assertFalse(started.folder.exists())

    def test_the_time_is_bounded(self):
        with self.assertRaisesRegex(compare_run.TooLate, "the time is over, waiting for nothing"):
            with self.start(limit=0.2) as started:
                started.wait(lambda: False, "nothing")
        self.assertIsNotNone(started.all["sleeper"].poll())

    def test_one_that_fails_is_named_with_its_log(self):
        with self.assertRaisesRegex(compare_run.Failed, "fails: exit status 3\nwhy"):
            with self.start() as s:
                s.start("fails", [sys.executable, "-c", "import sys; print('why', file=sys.stderr);"
                                  "sys.exit(3)"])
                s.wait(lambda: s.ended(["sleeper"]), "the sleeper")


class Whole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_ddp_in_processes_computes_what_one_process_does(self):
        """On equal tokens, batch by batch: a baseline of other batches would be none."""
        data = self.folder / "data"
        data.write_bytes(EXAMPLE.read_bytes() * 4)
        job = dict(
            peers=2, batch=4, layers=1, width=16, heads=2, context=16, lr=1e-2, seed=1, threads=1,
            device="cpu", train=str(data), held_out=str(data), marks=[2, 4],
        )
        found = []
        for ddp in ("one", "processes"):
            with compare_run.Processes(120) as started:
                found.append(compare_run.run_ddp(dict(job, ddp=ddp), started))
        one, two = found
        for mark in ("2", "4"):
            self.assertAlmostEqual(one["losses"][mark], two["losses"][mark], 5)
        self.assertEqual((one["tokens"], one["loss"]), (512, one["losses"]["4"]))

    def test_a_cell_fails_and_the_others_are_measured(self):
        done = self.compare("--set", "codec=none", "--only", "r1-h30-int8")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--codec none: allowed", done.stderr)
        self.assertIn("| r1-h30-int8 | failed |", done.stdout)
        (self.folder / "compare.jsonl").unlink()
        done = self.compare("--only", "ddp,r2-h30-int8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.folder), ["compare.jsonl"])
        alone, works = map(json.loads, (self.folder / "compare.jsonl").read_text().splitlines())
        self.assertIn("Not run (not chosen): r1-h30-int8, cuda-h30-int8, ", done.stdout)
        self.assertLess(max(alone["loss"], works["loss"]), 4)  # both learn; log 256 is 5.5
        self.assertGreater(works["ddp_bytes"], 20 * works["bytes_a_slot"])
        self.assertGreater(works["bytes_a_slot"], works["parameters"])
        self.assertTrue(0 < works["idle"] < 1, works)

    def compare(self, *given):
        return subprocess.run(
            [sys.executable, str(EXAMPLE.parent / "compare.py"), "--small", "--peers=2", *given],
            capture_output=True, text=True, timeout=240, cwd=self.folder,
            env=dict(
                os.environ, TMPDIR=str(self.folder),
                P2PDILOCO_BINARY=os.environ["P2PDILOCO_TEST_PROGRAM"],
            ),
        )


if __name__ == "__main__":
    unittest.main()
