"""Where the figures of rounds go: each tracker that is known, over stand-ins made from the
functions that its documentation names. An inner step adds 1 to the model, the outer step goes half
of the way."""

import nodestub  # first: it puts the package on the path

import os
import sys
import types
import unittest
from unittest import mock

import torch

import p2pdiloco
from p2pdiloco import trackers
from p2pdiloco.attach import rendezvous, status
from p2pdiloco.metrics import Metrics


class Wandb(types.ModuleType):
    """wandb's functions, and trackio's, which has no define_metric."""

    def __init__(self, name, run=None):
        super().__init__(name)
        self.run, self.logged, self.calls = run, [], []
        if name == "wandb":
            self.define_metric = lambda *args, **named: self.calls.append(("define", *args))

    def init(self, **named):
        self.calls.append(("init", named))

    def log(self, values, step=None):
        assert step is None, "the script's own steps would move on"
        self.logged.append(values)

    def finish(self):
        self.calls.append("finish")


class Board(types.ModuleType):
    """torch.utils.tensorboard."""

    def __init__(self):
        super().__init__("torch.utils.tensorboard")
        self.folders, self.logged, self.closed = [], [], 0

    def SummaryWriter(self, *folders):
        self.folders += folders
        return self

    def add_scalar(self, name, value, step):
        self.logged.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed += 1


class Mlflow(types.ModuleType):
    def __init__(self, active=None):
        super().__init__("mlflow")
        self.active, self.logged, self.calls = active, [], []

    def active_run(self):
        return self.active

    def set_experiment(self, name):
        self.calls.append(("experiment", name))

    def start_run(self, run_name=None):
        self.calls.append(("start", run_name))

    def log_metrics(self, values, step):
        self.logged.append((values, step))

    def end_run(self):
        self.calls.append("end")


class Aim(types.ModuleType):
    def __init__(self):
        super().__init__("aim")
        self.logged, self.experiments, self.closed = [], [], 0

    def Run(self, experiment=None):
        self.experiments.append(experiment)
        return self

    def track(self, value, name, step):
        self.logged.append((name, value, step))

    def close(self):
        self.closed += 1


class Trackers(unittest.TestCase):
    def train(self, tracker, run=None):
        """Trains a played run of 3 rounds of 2 steps to its end."""
        played = nodestub.Run(steps=2, rounds=3)
        played.anchor = [4.0] * 3
        sent = iter(range(5_000_000, 99_000_000, 5_000_000))

        def told(data_dir=""):
            return dict(played.status(), bytes_sent=next(sent), members=[{}] * 4, contributors=3)

        stub = nodestub.Stub(self, played)
        model = torch.nn.Linear(3, 1, bias=False)
        with mock.patch.object(status, "read", told), \
                mock.patch.dict(os.environ, {rendezvous.SOCKET_VARIABLE: stub.path}), \
                p2pdiloco.DiLoCo(model, torch.optim.SGD(model.parameters(), 1.0), run,
                                 tracker=tracker) as d:
            while not d.finished:
                model(torch.ones(3)).sum().backward()
                d._optimizers[0].step()
                d._optimizers[0].zero_grad()
                if not d.finished:
                    d.report(torch.tensor(2.0))
        stub.join()
        self.assertEqual(d.rounds, 3)
        return d

    def with_module(self, module, tracker, run=None):
        with mock.patch.dict(sys.modules, {module.__name__: module}):
            self.train(tracker, run)

    def check_rounds(self, rounds):
        self.assertEqual([r["p2pdiloco/slot"] for r in rounds], [1, 2, 3])
        self.assertEqual([r["p2pdiloco/step"] for r in rounds], [2, 4, 6], "the run's time")
        self.assertEqual(rounds[0]["p2pdiloco/members"], 4)
        self.assertEqual(rounds[0]["p2pdiloco/contributors"], 3)
        self.assertEqual(rounds[1]["p2pdiloco/loss"], 2)
        self.assertGreater(rounds[1]["p2pdiloco/up_mb"], 0)
        self.assertGreaterEqual(rounds[1]["p2pdiloco/sync_s"], 0)
        self.assertEqual(rounds[1]["p2pdiloco/weight"], 2)

    def test_wandb_and_trackio(self):
        for name in ("wandb", "trackio"):
            module = Wandb(name)
            self.with_module(module, f"{name}:mine")
            self.check_rounds(module.logged)
            self.assertIn(("init", {"project": "mine", "name": None}), module.calls)
            self.assertEqual("finish", module.calls[-1])

    def test_a_run_of_the_scripts_own_goes_on(self):
        module = Wandb("wandb", run=object())
        self.with_module(module, "wandb")
        self.check_rounds(module.logged)
        self.assertEqual(module.calls, [("define", "p2pdiloco/*")])
        module = Mlflow(active=object())
        self.with_module(module, "mlflow")
        self.check_rounds([values for values, _ in module.logged])
        self.assertEqual(module.calls, [])

    def test_mlflow(self):
        module = Mlflow()
        self.with_module(module, "mlflow:mine", "my-run")
        self.assertEqual([step for _, step in module.logged], [2, 4, 6])
        self.assertEqual(module.calls, [("experiment", "mine"), ("start", "my-run"), "end"])

    def test_tensorboard_and_aim(self):
        board, aim = Board(), Aim()
        self.with_module(board, "tensorboard:somewhere")
        self.with_module(aim, "aim", "my-run")
        for module in (board, aim):
            rounds = [
                {name: value for name, value, at in module.logged if at == step}
                for step in (2, 4, 6)
            ]
            self.check_rounds(rounds)
            self.assertEqual(module.closed, 1)
        self.assertEqual((board.folders, aim.experiments), (["somewhere"], ["my-run"]))

    def test_an_object_and_a_function_of_ones_own(self):
        got = []
        self.train(lambda values, step: got.append((values, step)))
        self.check_rounds([values for values, _ in got])
        accelerator = mock.Mock()
        self.train(accelerator)
        self.assertEqual([c.kwargs["step"] for c in accelerator.log.call_args_list], [2, 4, 6])

    def test_a_tracker_that_fails_costs_no_step(self):
        seen = []

        def fails(values, step):
            seen.append(step)
            raise ConnectionError("no network")

        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            self.train(fails)
        self.assertEqual(seen, [2, 4, 6])
        said = [line for line in logs.output if "tracker" in line]
        self.assertEqual(len(said), 1, "said once, while it lasts")
        self.assertIn("ConnectionError: no network", said[0])

    def test_what_cannot_be_is_refused_before_anything_starts(self):
        with mock.patch.dict(sys.modules, {"wandb": None}):
            for tracker, text in (
                ("wandb", "needs a package that is not here .*: install wandb"),
                ("wanda", "wandb, trackio, tensorboard, mlflow, aim"),
                (7, "an object with log"),
            ):
                with self.assertRaisesRegex(p2pdiloco.Invalid, text):
                    p2pdiloco.DiLoCo(torch.nn.Linear(1, 1), run="my-run", tracker=tracker)

    def test_figures_of_another_nodes_counters(self):
        """A node that was started again counts from 0."""
        before = Metrics(bytes_sent=9_000_000, weight=9)
        now = Metrics(slot=2, bytes_sent=1_000_000, bytes_received=2_000_000)
        figures = now.figures(before)
        self.assertEqual((figures["up_mb"], figures["dn_mb"], figures["weight"]), (0, 2, 0))
        self.assertNotIn("loss", figures)


if __name__ == "__main__":
    unittest.main()
