"""DiLoCo over the fake library, whose outer step goes half of the way."""

import support  # first: it puts the package on the path

import os
import pickle
import tempfile
import unittest
from unittest import mock

import p2pdiloco
import torch
from p2pdiloco.data import PartSampler, Permutation, Place

GOLDEN = [43, 2, 67, 57, 6, 15, 31, 56]  # as in sampler_test.go of bridge/builtin


class Model(torch.nn.Module):
    def __init__(self, value=0.0, kind=torch.float32):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), value, dtype=kind))


def new_run(model, optimizer="sgd", run="test", **options):
    """A run whose every step adds 1 to all parameters."""
    if optimizer == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.0)
    return p2pdiloco.DiLoCo(model, optimizer, run, **options), optimizer


def step(model, optimizer):
    for p in model.parameters():
        p.grad = torch.full_like(p, -1.0)
    optimizer.step()


class Training(support.FakeCase):
    def test_a_run_by_its_hook(self):
        model = Model(10.0)
        d, optimizer = new_run(model, sync_every=2, rounds=3)
        seen = []
        with d:
            while not d.finished:
                step(model, optimizer)
                seen.append(model.w[0].item())
            self.assertEqual(seen, [11, 11, 12, 12, 13, 13])
            self.assertEqual((d.metrics.slot, d.metrics.rounds, d.metrics.phase), (3, 3, "ended"))
            step(model, optimizer)  # goes on alone
            self.assertEqual(model.w[0].item(), 14)
        step(model, optimizer)
        self.assertEqual(model.w[0].item(), 15)
        self.assertNotIn("step", vars(optimizer))
        self.assertIn("slot 3 of 3 (ended)", str(d.metrics))

    def test_the_runs_inner_steps_are_adopted(self):
        d, _ = new_run(Model())
        with d:
            self.assertEqual(d.sync_every, 2)

    def test_the_inner_optimizers_state_stays(self):
        model = Model()
        d, optimizer = new_run(model, torch.optim.AdamW(model.parameters(), lr=0.1))
        with d:
            for _ in range(4):
                step(model, optimizer)
            self.assertEqual(int(optimizer.state[model.w]["step"]), 4)

    def test_of_several_optimizers_the_last_counts(self):
        model = Model()
        a, b = (torch.optim.SGD(model.parameters(), lr=1.0) for _ in range(2))
        d, _ = new_run(model, [a, b])
        with d:
            for _ in range(3):
                step(model, a)
            self.assertEqual(d.metrics.rounds, 0)
            step(model, b)
            step(model, b)
            self.assertEqual(d.metrics.rounds, 1)

    def test_without_an_optimizer_steps_are_told(self):
        model = Model()
        d, _ = new_run({"w": model.w}, None)
        with d:
            model.w.data += 3
            d.step()
            d.step()
            self.assertEqual(model.w[0].item(), 1.5)

    def test_a_bfloat16_model_loses_no_outer_step(self):
        model = Model(1.0, torch.bfloat16)
        d, optimizer = new_run(
            model, torch.optim.SGD(model.parameters(), lr=2**-7), rounds=9, inner_steps=1
        )
        with d:
            step(model, optimizer)  # 1 + 1/128, and half of that is no bfloat16
            self.assertEqual(d._tensors.vector[0].item(), 1 + 2**-8)
            for _ in range(3):
                step(model, optimizer)
            self.assertEqual(d._tensors.vector[0].item(), 1 + 4 * 2**-8)

    def test_weights(self):
        model = Model()
        d, optimizer = new_run(model, tokens_per_step=100)
        with d:
            for _ in range(2):
                step(model, optimizer)
            self.assertEqual(d.status()["fake"]["weight"], 200)
            d.tokens(30)
            step(model, optimizer)
            d.tokens(40)
            step(model, optimizer)
            self.assertEqual((d.status()["fake"]["weight"], d.metrics.weight), (70, 270))

    def test_losses_are_averaged_over_a_round(self):
        model = Model()
        d, optimizer = new_run(model)
        with d:
            for loss in (torch.tensor(1.0, requires_grad=True), 3.0):
                d.report(loss)
                step(model, optimizer)
            self.assertEqual(d.metrics.loss, 2.0)

    def test_buffers(self):
        for choice, expected in (("local", 8.0), ("average", 4.0)):
            model = Model()
            model.register_buffer("mean", torch.zeros(3))
            d, optimizer = new_run(model, buffers=choice)
            with d:
                model.mean += 8
                step(model, optimizer)
                step(model, optimizer)
                self.assertEqual(model.mean[0].item(), expected)

    def test_who_is_behind_begins_anew(self):
        model = Model()
        d, optimizer = new_run(model, rounds=9, inner_steps=50, fake_ahead=3)
        with mock.patch("p2pdiloco.diloco._LOOK", 0.0), d:
            for _ in range(3):
                step(model, optimizer)
            self.assertEqual((d.metrics.steps, d.metrics.slot), (0, 2))
            self.assertEqual((model.w[0].item(), d.metrics.rounds), (0, 0))


class Errors(support.FakeCase):
    def test_a_model_that_diverged_can_begin_anew(self):
        model = Model(5.0)
        d, optimizer = new_run(model)
        with d:
            model.w.data[1] = float("nan")
            with self.assertRaises(p2pdiloco.NotFinite):
                for _ in range(2):
                    step(model, optimizer)
            d.reset()
            self.assertEqual(model.w.tolist(), [5, 5, 5])
            self.assertEqual(d.metrics.steps, 0)

    def test_arguments(self):
        for wrong in (dict(buffers="none"), dict(sync_every=0), dict(layout=[])):
            with self.assertRaises(p2pdiloco.Invalid):
                new_run(Model(), **wrong)
        with self.assertRaisesRegex(TypeError, "no optimizer"):
            new_run(Model(), optimizer=3)[0].start()

    def test_a_round_that_was_interrupted_can_be_given_up(self):
        model = Model()
        d, optimizer = new_run(model)
        with d:
            with mock.patch.object(d._node, "poll", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    for _ in range(2):
                        step(model, optimizer)
            d.reset()
            self.assertEqual((d.metrics.steps, d.metrics.slot), (0, 1))

    def test_another_number_of_steps_than_the_runs(self):
        d, optimizer = new_run(Model(), sync_every=2, fake_other=1)
        with self.assertRaisesRegex(p2pdiloco.Invalid, "but 3 in the run .sync_every is"):
            d.start()
        self.assertTrue(d._node.closed)
        self.assertNotIn("step", vars(optimizer))

    def test_it_starts_once_at_a_time(self):
        d, _ = new_run(Model())
        with d, self.assertRaisesRegex(p2pdiloco.Error, "started already"):
            d.start()
        with d:
            self.assertFalse(d.finished)

    def test_leaving_badly_ends_no_training(self):
        d, _ = new_run(Model(), leave_timeout=0.0, fake_leave=50)
        with self.assertLogs("p2pdiloco", "WARNING"):
            with d:
                pass

    def test_ctrl_c_leaves(self):
        events = []
        d, _ = new_run(Model(), on_event=events.append)
        with self.assertLogs("p2pdiloco", "WARNING"), self.assertRaises(KeyboardInterrupt):
            with d:
                raise KeyboardInterrupt
        self.assertEqual(events[-1]["event"], "fake.left")

    def test_it_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "process that made it"):
            pickle.dumps(new_run(Model())[0])


class OtherTensors(support.FakeCase):
    """What the run's tensors can turn into, by the hands of the script."""

    def test_data_may_be_assigned(self):
        model = Model()
        d, optimizer = new_run(model)
        with d:
            model.w.data = torch.full((3,), 7.0)
            step(model, optimizer)
            step(model, optimizer)
            self.assertEqual(model.w[0].item(), 4.5)

    def test_another_parameter_is_no_silent_training_alone(self):
        model = Model()
        d, _ = new_run(model)
        with d, self.assertRaisesRegex(p2pdiloco.Invalid, "w is another tensor now"):
            model.w = torch.nn.Parameter(torch.zeros(3))
            d.step()
            d.step()

    def test_another_type(self):
        model = Model()
        d, _ = new_run(model)
        with d, self.assertRaisesRegex(p2pdiloco.Invalid, "w was .3,., torch.float32"):
            model.half()
            d.step()
            d.step()

    def test_frozen_on_the_way(self):
        model = Model()
        d, _ = new_run(model)
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


class WithoutARun(support.FakeCase):
    def test_who_meant_one_is_told(self):
        with self.assertRaisesRegex(p2pdiloco.Invalid, "bootstrap: given, and no run"):
            new_run(Model(), run=None, bootstrap=["/ip4/192.0.2.1"])
        with mock.patch.dict(os.environ, P2PDILOCO_BOOTSTRAP="/ip4/192.0.2.1"):
            with self.assertRaisesRegex(p2pdiloco.Invalid, "P2PDILOCO_BOOTSTRAP: given, and no"):
                new_run(Model(), run=None)

    def test_it_does_nothing(self):
        model = Model()
        d, optimizer = new_run(model, run=None)
        with d:
            for _ in d.batches([1, 2, 3], repeat=True):
                step(model, optimizer)
            self.assertNotIn("step", vars(optimizer))
            self.assertEqual((str(d.metrics), d.rank, d.world), ("no run", 0, 1))
            self.assertEqual(sorted(d.sampler([5, 6])), [0, 1])
            d.load_state_dict(d.state_dict())
            d.reset()
        self.assertEqual(model.w[0].item(), 3)
        self.assertFalse(d.enabled or d.finished)

    def test_a_config_file_may_name_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, names in (
                ("rounds = 3\n# run = 1", False), ('run = "x"', True), ('a=3\n"spec"=""', True),
                ('{"rounds": 3}', False), ('{"rounds": 3, "run": "x"}', True),
            ):
                path = os.path.join(folder, "config.toml")
                with open(path, "w") as f:
                    f.write(text)
                self.assertIs(new_run(Model(), run=None, config=path)[0].enabled, names, text)
            os.remove(path)
            self.assertTrue(new_run(Model(), run=None, config=path)[0].enabled)

    def test_the_environment_names_one(self):
        for name in ("RUN", "CONFIG", "SPEC"):
            with mock.patch.dict(os.environ, {f"P2PDILOCO_{name}": "x"}):
                d, _ = new_run(Model(), run=None)
            with d:
                self.assertNotIn("run", d.status()["fake"]["config"])


class Checkpoints(support.FakeCase):
    def half_a_round(self):
        """A model and states in the middle of the second round of two steps."""
        model = Model(10.0)
        d, optimizer = new_run(model)
        with d:
            for _ in range(3):
                step(model, optimizer)
            return model.state_dict(), d.state_dict()

    def test_it_goes_on_at_the_same_slot(self):
        _, state = self.half_a_round()
        state = dict(state, slot=0)  # the fake remembers nothing: its new node is at slot 0
        for before in (True, False):
            model = Model(20.0)
            d, optimizer = new_run(model)
            if before:
                d.load_state_dict(state)
            with d:
                if not before:
                    d.load_state_dict(state)
                self.assertEqual(d.metrics.steps, 1)
                step(model, optimizer)
                self.assertEqual((d.metrics.rounds, model.w[0].item()), (1, 20.5))

    def test_the_anchor_wins_where_the_run_went_on(self):
        weights, state = self.half_a_round()
        self.assertEqual((state["slot"], state["steps"]), (1, 1))
        model = Model(20.0)
        d, optimizer = new_run(model)
        with d:
            model.load_state_dict(weights)
            d.load_state_dict(state)
            self.assertEqual((d.metrics.steps, model.w[0].item()), (0, 20))


class Data(support.FakeCase):
    def test_batches_end_with_the_run(self):
        model = Model()
        d, optimizer = new_run(model, rounds=2)
        done = []
        with d:
            for batch in d.batches("abc", repeat=True):
                done.append(batch)
                step(model, optimizer)
        self.assertEqual("".join(done), "abca")

    def test_parts_are_disjoint_and_an_epoch_is_whole(self):
        drawn = []
        for part in range(10):  # of two steps of three samples
            sampler = PartSampler(range(30), 3, lambda: Place(0, 5, 7, part, 2, 0, part))
            drawn += list(sampler)
            self.assertEqual(len(sampler), 6)
        self.assertEqual((sorted(drawn[:30]), sorted(drawn[30:])), ([*range(30)], [*range(30)]))
        self.assertNotEqual(drawn[:30], drawn[30:])  # the next epoch

    def test_the_order_is_the_built_in_trainers(self):
        order = Permutation(100, 3, 5)
        self.assertEqual([order[i] for i in range(8)], GOLDEN)
        self.assertEqual(sorted(order[i] for i in range(100)), [*range(100)])

    def test_the_sampler_goes_on_with_the_round(self):
        place = Place(0, 1, 7, 4, 3, 0, 1)
        sampler = iter(PartSampler(range(1000), 2, lambda: place))
        first = [next(sampler) for _ in range(8)]
        self.assertEqual(first[6:], first[:2])  # a part of three steps begins again
        place = place._replace(done=1, round=2)
        self.assertEqual([next(sampler) for _ in range(4)], first[2:6])
        place = place._replace(part=5, done=0, round=3)
        self.assertFalse(set(first) & {next(sampler) for _ in range(6)})

    def test_each_round_has_its_part(self):
        model = Model()
        d, optimizer = new_run(model, rounds=4)
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
        d, optimizer = new_run(model, rounds=3)
        with d:
            seen = []
            for item in d.batches(d.parts(lambda part: [f"{part}{c}" for c in "abc"[: 3 - part]])):
                seen.append(item)
                step(model, optimizer)
            self.assertEqual(seen, ["0a", "0b", "1a", "1b", "2a", "2a"])
            with self.assertRaisesRegex(ValueError, "part 3"):
                next(d.parts(lambda part: []))


class Streaming(support.FakeCase):
    """Over a fake whose fragments are the elements, one after the other."""

    def test_a_fragment_lands_in_what_was_trained_meanwhile(self):
        model = Model(10.0)
        d, optimizer = new_run(model, sync_every=4, rounds=3, fake_delay=1)
        seen = []
        with d:
            while not d.finished:
                step(model, optimizer)
                seen.append((model.w.tolist(), d.metrics.slot, d.part))
        self.assertEqual(seen[3], ([14, 14, 14], 0, 1))  # offered: 14 - 10 of the first
        self.assertEqual(seen[4], ([12, 15, 15], 1, 1))  # landed
        self.assertEqual([at[1] for at in seen], [0] * 4 + [1] * 4 + [2] * 4 + [3])
        self.assertEqual(seen[8], ([16, 14, 19], 2, 2))
        self.assertEqual(seen[-1], ([12, 14, 16], 3, 3))  # the last one is the anchor
        self.assertEqual(d.status()["fake"]["offered"], 12)

    def test_without_a_delay(self):
        model = Model(10.0)
        d, optimizer = new_run(model, sync_every=2, rounds=3, fake_delay=0)
        with d:
            for _ in range(4):
                step(model, optimizer)
            self.assertEqual(model.w.tolist(), [13, 12, 14])

    def test_a_part_goes_on_behind_the_landing(self):
        model = Model()
        d, optimizer = new_run(model, sync_every=4, rounds=3, fake_delay=2)
        drawn, data = [], range(8)
        with d:
            sampler = iter(d.sampler(data))
            for _ in range(8):
                drawn.append(next(sampler))
                step(model, optimizer)
        self.assertEqual(sorted(drawn), list(data))

    def test_force_sync(self):
        model = Model(10.0)
        d, optimizer = new_run(model, sync_every=4, rounds=30, fake_delay=1)
        with d:
            for _ in range(4):
                step(model, optimizer)
            d.force_sync()
            self.assertEqual((d.metrics.slot, d.metrics.steps), (4, 0))
            self.assertEqual(model.w.tolist(), [12, 12, 12])
            for _ in range(4):
                step(model, optimizer)
            self.assertEqual((d.metrics.rounds, d.metrics.slot), (5, 4))


class ForceSync(support.FakeCase):
    def test_what_is_there_is_contributed_now(self):
        model = Model(10.0)
        d, optimizer = new_run(model, sync_every=5, rounds=2)
        with d:
            d.force_sync()  # nothing is there
            self.assertEqual(d.rounds, 0)
            for _ in range(2):
                step(model, optimizer)
            d.force_sync()
            self.assertEqual((model.w[0].item(), d.rounds, d.metrics.steps), (11, 1, 0))
            self.assertEqual(d.status()["fake"]["weight"], 2)
            for _ in range(5):
                step(model, optimizer)
            self.assertTrue(d.finished)
            d.force_sync()
            self.assertEqual(d.rounds, 2)

    def test_without_a_run(self):
        d, _ = new_run(Model(), run=None)
        with d:
            d.force_sync()


if __name__ == "__main__":
    unittest.main()
