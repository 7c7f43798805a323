"""One process is one peer of a run, and what replaces its model in the middle is no training."""

import nodestub  # first: it puts the package on the path

import copy
import os
import tempfile
import threading
import unittest
from unittest import mock

import p2pdiloco
import support
import torch
from p2pdiloco.attach import rendezvous
from test_diloco import Model, RunCase, step


class LoadingInTheMiddle(RunCase):
    def test_a_model_that_is_loaded_after_a_step(self):
        model, run = Model(10.0), nodestub.Run(steps=2, rounds=3)
        ema = {"w": torch.full((3,), 100.0)}
        d, optimizer = self.join(model, run)
        with d:
            model.load_state_dict({"w": torch.full((3,), 10.0)})  # nothing was trained yet
            step(model, optimizer)
            with self.assertRaisesRegex(p2pdiloco.Error, r"before the with block.*d\.replace"):
                model.load_state_dict(ema)
            self.assertEqual(model.w[0].item(), 11, "it loads nothing")
            averaged = copy.deepcopy(model)  # as for a moving average
            averaged.load_state_dict(ema)
            with d.replace():
                model.load_state_dict({"w": torch.full((3,), 12.0)})
            step(model, optimizer)
            with self.assertRaisesRegex(p2pdiloco.Error, "would take what it loads"):
                model.load_state_dict(ema)
            while not d.finished:
                step(model, optimizer)
            model.load_state_dict(ema)
        self.assertEqual(run.gradients[0], [-3.0] * 3)
        model.load_state_dict(ema)

    def test_what_keep_has_may_hold_the_model(self):
        model = Model(10.0)
        d, optimizer = self.join(model, nodestub.Run(), keep=[model])
        with d:
            step(model, optimizer)
            with self.assertNoLogs("p2pdiloco", "WARNING"):
                d._private._take_back({"states": [{"w": torch.full((3,), 12.0)}]})
            self.assertEqual(model.w[0].item(), 12)

    def test_a_part_of_a_model_and_what_it_is_a_part_of(self):
        inner = Model(10.0)
        model = torch.nn.Sequential(torch.nn.Sequential(inner))
        d, optimizer = self.join(model, nodestub.Run())
        outer = torch.nn.ModuleDict({"net": model})
        states = [(m, m.state_dict()) for m in (inner, model, outer)]
        with d:
            step(model, optimizer)
            for module, state in states:
                with self.assertRaises(p2pdiloco.Error):
                    module.load_state_dict(state)
        for module, state in states:
            module.load_state_dict(state)


class AgainInOneProcess(RunCase):
    def again(self, model, optimizer):
        with mock.patch.dict(os.environ, {rendezvous.SOCKET_VARIABLE: self.stub.path}):
            return p2pdiloco.DiLoCo(model, optimizer)

    def refused(self, diloco):
        """Why it does not start; "" if it does."""
        try:
            diloco.start().close()
            return ""
        except p2pdiloco.Error as err:
            return str(err)

    def test_a_cell_that_runs_twice_goes_on_as_the_same_peer(self):
        model, run = Model(10.0), nodestub.Run(steps=2, rounds=3)
        first, optimizer = self.join(model, run)
        first.start()
        step(model, optimizer)
        second = self.again(model, optimizer)
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            try:
                second.start()
            except p2pdiloco.Error as err:  # after a minute
                self.fail(f"the second one cannot take part: {err}")
        self.assertIn("goes on as the same peer", logs.output[0])
        self.addCleanup(second.close)
        self.assertEqual(model.w[0].item(), 10, "what was not contributed is given up")
        while not second.finished:
            step(model, optimizer)
        self.assertEqual([o.steps for o in run.offers], [2, 2, 2], "each step counts once")
        first.leave()

    def test_a_block_in_a_block_and_another_thread_are_refused(self):
        model = Model()
        first, optimizer = self.join(model, nodestub.Run())
        with first:
            self.assertIn("as a process of its own", self.refused(self.again(model, optimizer)))
            step(model, optimizer)
        first, optimizer = self.join(model, nodestub.Run())
        thread = threading.Thread(target=first.start)
        thread.start()
        thread.join()
        self.addCleanup(first.close)
        self.assertIn("as a process of its own", self.refused(self.again(model, optimizer)))

    def test_the_same_run_by_another_name(self):
        """As by the ticket that the first one has given."""
        first, optimizer = self.join(Model(), nodestub.Run())
        one = self.stub
        with first:
            second, _ = self.join(Model(), nodestub.Run())
            self.assertIn("as a process of its own", self.refused(second))
            self.stub.join()  # it has left
        one.join()
        first, _ = self.join(Model(), nodestub.Run())
        first.start()
        one = self.stub
        second, _ = self.join(Model(), nodestub.Run())
        with self.assertLogs("p2pdiloco", "WARNING") as logs, second:
            one.join()  # the first one has left
        self.assertIn("it leaves the run, and this one is the peer", logs.output[0])

    def test_runs_with_other_names_go_side_by_side(self):
        one, two = nodestub.Run(), nodestub.Run()
        two.id = "another run"
        models = Model(10.0), Model(20.0)
        first, a = self.join(models[0], one)
        second, b = self.join(models[1], two)
        with first, second:
            for _ in range(6):
                step(models[0], a)
                step(models[1], b)
            self.assertTrue(first.finished and second.finished)


class Workers(unittest.TestCase):
    SCRIPT = """
import array, multiprocessing, p2pdiloco
me = "parent" if multiprocessing.current_process().name == "MainProcess" else "worker"
try:
    MAKE
    print(me, "takes part", flush=True)
except p2pdiloco.Error as err:
    print(me, err, flush=True)
if me == "parent":
    worker = multiprocessing.get_context("spawn").Process(target=print, args=("works",))
    worker.start()
    worker.join()
"""

    MAKES = ["p2pdiloco.Flat([('w', (1,))], array.array('f', [0]), run='r')"]
    if support.NIGHT:  # in both processes PyTorch is imported
        MAKES.append("import torch; p2pdiloco.DiLoCo(torch.nn.Linear(1, 1), None, run='r')")

    def test_a_spawned_worker_that_runs_the_script_again(self):
        for make in self.MAKES:
            with self.subTest(make), tempfile.NamedTemporaryFile("w", suffix=".py") as script:
                script.write(self.SCRIPT.replace("MAKE", make))
                script.flush()
                out = support.run_script(script.name)
                self.assertIn("parent takes part\n", out)
                self.assertIn("works\n", out)
                said = "worker multiprocessing has started this process.*if __name__ == "
                self.assertRegex(out, said)


class Threads(RunCase):
    def test_threads_that_step_one_optimizer(self):
        model, run = Model(), nodestub.Run(steps=5, rounds=20)
        d, optimizer = self.join(model, run)
        errors = []

        def train():
            try:
                while not d.finished:
                    step(model, optimizer)
            except BaseException as err:
                errors.append(err)

        with d:
            threads = [threading.Thread(target=train, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual((errors, d.finished), ([], True))
        self.stub.join()
        self.assertEqual([o.steps for o in run.offers], [5] * 20)


if __name__ == "__main__":
    unittest.main()
