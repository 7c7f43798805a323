"""DiLoCo in a run that a test plays, whose outer step goes half of the way."""

import nodestub  # first: it puts the package on the path

import os
import pickle
import unittest
from unittest import mock

import p2pdiloco
import torch
from p2pdiloco.attach import rendezvous, status


class Model(torch.nn.Module):
    def __init__(self, value=0.0, kind=torch.float32):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), value, dtype=kind))


def step(model, optimizer):
    """An inner step: it adds 1 to all parameters."""
    for p in model.parameters():
        p.grad = torch.full_like(p, -1.0)
    optimizer.step()


class RunCase(unittest.TestCase):
    def join(self, model, run, optimizer="sgd", **options):
        """A DiLoCo for a run, a nodestub.Run, and its optimizer."""
        self.stub = nodestub.Stub(self, run)
        if optimizer == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.0)
        patch = mock.patch.object(status, "read", run.status)
        patch.start()
        self.addCleanup(patch.stop)
        with mock.patch.dict(os.environ, {rendezvous.SOCKET_VARIABLE: self.stub.path}):
            return p2pdiloco.DiLoCo(model, optimizer, **options), optimizer


class Training(RunCase):
    def test_a_run_by_its_hook(self):
        model, run = Model(10.0), nodestub.Run()
        d, optimizer = self.join(model, run, sync_every=2)
        seen = []
        with d:
            while not d.finished:
                step(model, optimizer)
                seen.append(model.w[0].item())
            self.assertEqual(seen, [11, 11, 12, 12, 13, 13])
            self.assertEqual((d.metrics.slot, d.metrics.rounds), (3, 3))
            self.assertEqual(d.status()["state_root"], "the last")  # its node may be gone
            step(model, optimizer)  # goes on alone
            self.assertEqual(model.w[0].item(), 14)
        self.stub.join()
        step(model, optimizer)
        self.assertEqual(model.w[0].item(), 15)
        self.assertNotIn("step", vars(optimizer))
        self.assertIn("slot 3 of 3", str(d.metrics))

    def test_the_figures_stay_when_the_node_is_gone(self):
        model, run = Model(10.0), nodestub.Run()
        d, optimizer = self.join(model, run)
        with d:
            step(model, optimizer)
            step(model, optimizer)
            with mock.patch.object(status, "read", lambda _: None):
                before = d.metrics
                d.close()
                after = d.metrics
        self.assertEqual((before.members, before.last_slot, before.slot), (1, 3, 1))
        self.assertEqual((after.members, after.last_slot, after.slot), (1, 3, 1))
        self.assertEqual((before.phase, after.phase), ("running", "closed"))

    def test_the_end_is_known_when_the_node_is_gone(self):
        model, run = Model(10.0), nodestub.Run()
        d, optimizer = self.join(model, run)
        with mock.patch.object(status, "read", lambda _: None):
            with d:
                while not d.finished:
                    step(model, optimizer)
            self.assertTrue(d.finished)
            self.assertEqual(list(d.batches([1], repeat=True)), [])
            m = d.metrics
        self.assertEqual((m.phase, m.slot, m.last_slot, m.rounds), ("ended", 3, 3, 3))
        self.assertEqual(d.status()["state_root"], "the last")

    def test_the_runs_inner_steps_are_adopted(self):
        d, _ = self.join(Model(), nodestub.Run())
        with d:
            self.assertEqual(d.sync_every, 2)

    def test_the_inner_optimizers_state_stays(self):
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        d, _ = self.join(model, nodestub.Run(), optimizer)
        with d:
            for _ in range(4):
                step(model, optimizer)
            self.assertEqual(int(optimizer.state[model.w]["step"]), 4)

    def test_of_several_optimizers_the_last_counts(self):
        model = Model()
        a, b = (torch.optim.SGD(model.parameters(), lr=1.0) for _ in range(2))
        d, _ = self.join(model, nodestub.Run(), [a, b])
        with d:
            for _ in range(3):
                step(model, a)
            self.assertEqual(d.metrics.rounds, 0)
            step(model, b)
            step(model, b)
            self.assertEqual(d.metrics.rounds, 1)

    def test_an_optimizer_of_other_tensors_is_refused_at_the_start(self):
        model = Model()
        other = torch.optim.SGD([torch.nn.Parameter(model.w.detach().clone())], lr=1.0)
        d, _ = self.join(model, nodestub.Run(), other)
        with self.assertRaisesRegex(p2pdiloco.Invalid, "steps none of the model's tensors"):
            d.start()

    def test_without_an_optimizer_steps_are_told(self):
        model = Model()
        d, _ = self.join({"w": model.w}, nodestub.Run(), None)
        with d:
            model.w.data += 3
            d.step()
            d.step()
            self.assertEqual(model.w[0].item(), 1.5)

    def test_a_bfloat16_model_loses_no_outer_step(self):
        model, run = Model(1.0, torch.bfloat16), nodestub.Run(steps=1, rounds=9)
        d, optimizer = self.join(model, run, torch.optim.SGD(model.parameters(), lr=2**-7))
        with d:
            for _ in range(4):  # 1 + 1/128, and half of that is no bfloat16
                step(model, optimizer)
            self.assertEqual(run.anchor[0], 1 + 4 * 2**-8)

    def test_weights(self):
        model, run = Model(), nodestub.Run()
        d, optimizer = self.join(model, run, tokens_per_step=100)
        with d:
            for _ in range(2):
                step(model, optimizer)
            d.tokens(30)
            step(model, optimizer)
            d.tokens(40)
            step(model, optimizer)
            self.assertEqual([o.tokens for o in run.offers], [200, 70])
            self.assertEqual(d.metrics.weight, 270)

    def test_losses_are_averaged_over_a_round(self):
        model = Model()
        d, optimizer = self.join(model, nodestub.Run())
        with d:
            for loss in (torch.tensor(1.0, requires_grad=True), 3.0):
                d.report(loss)
                step(model, optimizer)
            self.assertEqual(d.metrics.loss, 2.0)

    def test_buffers(self):
        for choice, expected in (("local", 8.0), ("average", 4.0)):
            model = Model()
            model.register_buffer("mean", torch.zeros(3))
            d, optimizer = self.join(model, nodestub.Run(), buffers=choice)
            with d:
                model.mean += 8
                step(model, optimizer)
                step(model, optimizer)
                self.assertEqual(model.mean[0].item(), expected)


class Errors(RunCase):
    def test_arguments(self):
        for wrong in (dict(buffers="none"), dict(sync_every=0), dict(layout=[])):
            with self.assertRaises(p2pdiloco.Invalid):
                p2pdiloco.DiLoCo(Model(), None, "test", **wrong)
        for lonely in ("sync_every", "inner_steps", "rounds"):
            with self.assertRaisesRegex(p2pdiloco.Invalid, "given, and no run"):
                p2pdiloco.DiLoCo(Model(), None, **{lonely: 500})
        d, _ = self.join(Model(), nodestub.Run(), 3)
        with self.assertRaisesRegex(TypeError, "no optimizer"):
            d.start()

    def test_a_round_that_was_interrupted_can_be_given_up(self):
        model, run = Model(5.0), nodestub.Run()
        d, optimizer = self.join(model, run)
        with d:
            step(model, optimizer)
            with mock.patch.object(d._session, "_serve", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    step(model, optimizer)
            d.reset()
            self.assertEqual((d.metrics.steps, d.metrics.slot), (0, 1))
            self.assertEqual(model.w[0].item(), 6)

    def test_another_number_of_steps_than_the_runs(self):
        d, optimizer = self.join(Model(), nodestub.Run(steps=3), sync_every=2)
        with self.assertRaisesRegex(p2pdiloco.Invalid, "sync_every=2, and the run has inner_st"):
            d.start()
        self.assertNotIn("step", vars(optimizer))

    def test_it_starts_once_at_a_time(self):
        d, _ = self.join(Model(), nodestub.Run())
        with d, self.assertRaisesRegex(p2pdiloco.Error, "started already"):
            d.start()

    def test_ctrl_c_leaves_the_run(self):
        run = nodestub.Run()
        d, _ = self.join(Model(), run)
        with self.assertLogs("p2pdiloco", "WARNING"), self.assertRaises(KeyboardInterrupt):
            with d:
                raise KeyboardInterrupt
        self.stub.join()
        self.assertEqual(run.left, "the training loop has ended")

    def test_an_exception_does_not(self):
        run = nodestub.Run()
        d, _ = self.join(Model(), run)
        with self.assertRaises(ZeroDivisionError), d:
            1 / 0
        self.stub.close()
        self.assertEqual(run.left, "")

    def test_it_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "process that made it"):
            pickle.dumps(p2pdiloco.DiLoCo(Model(), None))

    def test_without_the_program(self):
        with mock.patch.dict(os.environ, {"PATH": "", "XDG_STATE_HOME": "/nowhere"}):
            d = p2pdiloco.DiLoCo(Model(), None, "test")
            with self.assertRaisesRegex(p2pdiloco.Invalid, "program is not there: install"):
                d.start()


class OtherTensors(RunCase):
    """What the run's tensors can turn into, by the hands of the script."""

    def test_data_may_be_assigned(self):
        model = Model()
        d, optimizer = self.join(model, nodestub.Run())
        with d:
            model.w.data = torch.full((3,), 7.0)
            step(model, optimizer)
            step(model, optimizer)
            self.assertEqual(model.w[0].item(), 4.5)

    def test_another_parameter_is_no_silent_training_alone(self):
        model = Model()
        d, _ = self.join(model, nodestub.Run())
        with self.assertRaisesRegex(p2pdiloco.Invalid, "w is another tensor now"), d:
            model.w = torch.nn.Parameter(torch.zeros(3))
            d.step()
            d.step()

    def test_another_type_or_shape(self):
        for change, text in (
            (lambda m: m.half(), r"w was \(3,\), torch.float32, and is \(3,\), torch.float16"),
            (lambda m: setattr(m.w, "data", torch.zeros(4)), r"and is \(4,\), torch.float32"),
        ):
            model = Model()
            d, _ = self.join(model, nodestub.Run())
            with self.assertRaisesRegex(p2pdiloco.Invalid, text), d:
                change(model)
                d.step()
                d.step()

    def test_frozen_on_the_way(self):
        model = Model()
        d, _ = self.join(model, nodestub.Run())
        with d:
            model.w.requires_grad_(False)
            d.step()
            d.step()
            self.assertEqual(d.rounds, 1)

    def test_refused_before_anything_is_joined(self):
        spread, empty = torch.zeros(1).expand(3), torch.zeros(3, device="meta")
        for w, why in ((spread, "share"), (empty, "meta")):
            with self.assertRaisesRegex(p2pdiloco.Invalid, why):
                p2pdiloco.DiLoCo({"w": w}, None, "test")


class WithoutARun(unittest.TestCase):
    def test_it_does_nothing(self):
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        d = p2pdiloco.DiLoCo(model, optimizer)
        with d:
            for _ in d.batches([1, 2, 3], repeat=True):
                step(model, optimizer)
            self.assertNotIn("step", vars(optimizer))
            self.assertEqual((str(d.metrics), d.rank, d.world), ("no run", 0, 1))
            self.assertEqual(sorted(d.sampler([5, 6])), [0, 1])
            d.load_state_dict(d.state_dict())
            d.reset()
            d.force_sync()
        self.assertEqual(model.w[0].item(), 3)
        self.assertFalse(d.enabled or d.finished)


class Checkpoints(RunCase):
    def half_a_round(self, run):
        """States in the middle of the second round of two steps."""
        model = Model(10.0)
        d, optimizer = self.join(model, run)
        with d:
            for _ in range(3):
                step(model, optimizer)
            states = model.state_dict(), d.state_dict()
            d.close()
        self.stub.close()
        return states

    def test_it_goes_on_at_the_same_slot(self):
        for before in (True, False):
            run = nodestub.Run(rounds=2)
            weights, state = self.half_a_round(run)
            self.assertEqual((state["slot"], state["steps"]), (1, 1))
            model = Model()
            d, optimizer = self.join(model, run)
            if before:
                model.load_state_dict(weights)
                d.load_state_dict(state)
            with d:
                if not before:
                    model.load_state_dict(weights)
                    d.load_state_dict(state)
                self.assertEqual((d.metrics.steps, model.w[0].item()), (1, 12))
                step(model, optimizer)
                self.assertEqual((d.metrics.rounds, model.w[0].item()), (1, 12))
            self.assertEqual(run.gradients[-1], [-2, -2, -2])
            self.assertEqual(run.offers[-1].steps, 2)

    def test_the_anchor_wins_where_the_run_went_on(self):
        run = nodestub.Run()
        weights, state = self.half_a_round(run)
        for other in (dict(slot=0), dict(run_id="another")):
            model = Model()
            d, _ = self.join(model, run)
            model.load_state_dict(weights)
            d.load_state_dict(dict(state, **other))
            with d:
                self.assertEqual((d.metrics.steps, model.w[0].item()), (0, 11))
                d.close()
            self.stub.close()


class Data(RunCase):
    def test_batches_end_with_the_run(self):
        model = Model()
        d, optimizer = self.join(model, nodestub.Run(rounds=2))
        done = []
        with d:
            for batch in d.batches("abc", repeat=True):
                done.append(batch)
                step(model, optimizer)
        self.assertEqual("".join(done), "abca")

    def test_each_round_has_its_part(self):
        model = Model()
        d, optimizer = self.join(model, nodestub.Run(rounds=4))
        data, drawn = list(range(100, 108)), []
        with d:
            self.assertEqual(d.part, 0)
            loader = torch.utils.data.DataLoader(data, 1, sampler=d.sampler(data))
            for batch in d.batches(loader, repeat=True):
                drawn.append(batch.item())
                step(model, optimizer)
        self.assertEqual(sorted(drawn), data)

    def test_data_that_cannot_be_indexed(self):
        model = Model()
        d, optimizer = self.join(model, nodestub.Run())
        with d:
            seen = []
            for item in d.batches(d.parts(lambda part: [f"{part}{c}" for c in "abc"[: 3 - part]])):
                seen.append(item)
                step(model, optimizer)
            self.assertEqual(seen, ["0a", "0b", "1a", "1b", "2a", "2a"])
            with self.assertRaisesRegex(ValueError, "part 2"):
                next(d.parts(lambda part: []))


class ForceSync(RunCase):
    def test_what_is_there_is_contributed_now(self):
        model, run = Model(10.0), nodestub.Run(steps=5, rounds=2)
        d, optimizer = self.join(model, run)
        with d:
            d.force_sync()  # nothing is there
            self.assertEqual(d.rounds, 0)
            for _ in range(2):
                step(model, optimizer)
            d.force_sync()
            self.assertEqual((model.w[0].item(), d.rounds, d.metrics.steps), (11, 1, 0))
            self.assertEqual(run.offers[0].tokens, 2)
            for _ in range(5):
                step(model, optimizer)
            self.assertTrue(d.finished)
            d.force_sync()
            self.assertEqual(d.rounds, 2)

    def test_in_a_mode_that_trains_ahead(self):
        model, run = Model(10.0), nodestub.Run(steps=4, rounds=9, mode="delayed")
        d, optimizer = self.join(model, run)
        with d:
            for _ in range(6):
                step(model, optimizer)
            self.assertEqual((run.slot, model.w[0].item()), (0, 16))
            d.force_sync()
            self.assertEqual((run.slot, model.w.tolist()), (2, run.anchor))
            self.assertEqual(run.anchor, [13, 13, 13])
            self.assertEqual((d.metrics.slot, d.metrics.steps), (2, 0))
            d.force_sync()  # nothing new is there
            self.assertEqual(run.slot, 2)

    def test_of_every_fragment(self):
        model = Model(10.0)
        run = nodestub.Run(steps=4, rounds=9, mode="streaming", spec={"fragments": 3})
        d, optimizer = self.join(model, run)
        with d:
            step(model, optimizer)
            d.force_sync()
            self.assertEqual((run.slot, d.metrics.slot, len(run.offers)), (3, 3, 3))
            self.assertGreater(min(o.tokens for o in run.offers), 0)

    def test_at_the_end(self):
        model, run = Model(10.0), nodestub.Run(steps=4, rounds=1, mode="delayed")
        d, optimizer = self.join(model, run)
        with d:
            step(model, optimizer)
            d.force_sync()
            self.assertTrue(d.finished)
            self.assertEqual(model.w.tolist(), run.anchor)

    def test_without_the_nodes_api(self):
        model, run = Model(10.0), nodestub.Run(steps=4, rounds=9, mode="delayed")
        d, optimizer = self.join(model, run)
        with d, mock.patch.object(status, "read", lambda _: None):
            step(model, optimizer)
            with self.assertRaisesRegex(p2pdiloco.Error, "without api=.off."):
                d.force_sync()


class Refused(RunCase):
    def test_steps_that_weigh_less_than_nothing(self):
        for options in (dict(tokens_per_step=-1), dict(sync_every=0)):
            with self.assertRaisesRegex(p2pdiloco.Invalid, "tokens_per_step, the weight of a step"):
                p2pdiloco.DiLoCo(Model(), run="r", **options)

    def test_what_a_vector_has_not(self):
        for name in ("keep", "buffers", "frozen"):
            with self.assertRaisesRegex(p2pdiloco.Invalid, f"{name}= is for DiLoCo"):
                p2pdiloco.Flat([("w", ())], bytearray(4), run="r", **{name: []})


if __name__ == "__main__":
    unittest.main()
