"""The time of a run: where it is, and learning rates that go by it."""

import nodestub  # first: it puts the package on the path

import json
import unittest

import p2pdiloco
import torch
from p2pdiloco.schedule import Schedule
from test_diloco import Model, RunCase, step


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


class Late(nodestub.Run):
    """A run that is at a slot when a peer comes."""

    def __init__(self, slot, model, **options):
        super().__init__(**options)
        self.slot, self.anchor = slot, [0.0] * sum(p.numel() for p in model.parameters())


class TheTimeOfARun(RunCase):
    def rates(self, slot, steps=4, rounds=10, of=lambda d, o: d.schedule(o, "cosine", warmup=6)):
        """The rate of each step of a peer that joins at a slot, by the step's number."""
        model = Model()
        run, optimizer, rates = Late(slot, model, steps=steps, rounds=rounds), sgd(model), {}
        d, _ = self.join(model, run, optimizer)
        with d:
            of(d, optimizer)
            while not d.finished:
                self.assertEqual(d.total_steps, steps * rounds)
                self.assertAlmostEqual(d.progress, d.step / (steps * rounds))
                rates[int(d.step)] = optimizer.param_groups[0]["lr"]
                step(model, optimizer)
            self.assertEqual((d.step, d.progress), (steps * rounds, 1.0))
        self.stub.join()
        return rates

    def test_a_late_joiners_schedule_is_the_others(self):
        whole = self.rates(0)
        self.assertEqual(list(whole), list(range(40)))
        self.assertEqual(max(whole.values()), 0.5)
        self.assertLess(whole[39], 0.002)
        for slot in (1, 7, 9):
            late = self.rates(slot)
            self.assertEqual(late, {k: v for k, v in whole.items() if k >= 4 * slot})

    def test_a_lambda_of_the_progress_does_as_well(self):
        def of(d, optimizer):
            schedulers.append(torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda _: 1.0 - d.progress
            ))

        schedulers = []
        late = self.rates(7, of=of)
        self.assertAlmostEqual(late[28], 0.5 * 12 / 40)

    def test_the_schedule_may_be_made_before_the_block(self):
        model = Model()
        optimizer = sgd(model)
        d, _ = self.join(model, Late(5, model, rounds=10), optimizer)
        schedule = d.schedule(optimizer, "linear")
        with d:
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.25)
            step(model, optimizer)
            schedule.step()  # as a library calls it
            schedule.step()
            self.assertAlmostEqual(schedule.get_last_lr()[0], 0.5 * 9 / 20)

    def test_a_process_that_is_started_again_goes_on_where_the_run_is(self):
        model, run = Model(), nodestub.Run(steps=2, rounds=10)
        d, optimizer = self.join(model, run, sgd(model))
        d.start()
        schedule = d.schedule(optimizer, "linear")
        for _ in range(7):
            step(model, optimizer)
        before, state = d.step, {"optimizer": optimizer.state_dict(), "s": schedule.state_dict()}
        d.close()  # as at a crash: the step since the last round is lost
        self.assertEqual(before, 7)
        again, other = p2pdiloco.DiLoCo, Model()
        optimizer = sgd(other)
        optimizer.load_state_dict(state["optimizer"])
        with unittest.mock.patch.dict("os.environ", P2PDILOCO_ATTACH=self.stub.path):
            d = again(other, optimizer)
        with d:
            schedule = d.schedule(optimizer, "linear")
            schedule.load_state_dict(state["s"])
            self.assertEqual(d.step, 6)
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.5 * 14 / 20)

    def test_modes_in_which_a_round_has_other_steps(self):
        streams = {"fragments": "4", "pace": "steps"}
        self.assertEqual(
            self.steps(dict(slot=10, steps=3), 3, "streaming", streams, last_slot=40),
            [22, 23, 24],  # the borders of a round of 10 lie behind 2, 5, 7 and 10 steps
        )
        self.assertEqual(
            self.steps(dict(slot=10, steps=2, part_done=1), 2, "streaming", streams, last_slot=40),
            [23, 24],
        )
        fast = self.steps(dict(slot=3, steps=20), 20, "sync", {"pace": "deadline"}, last_slot=10)
        self.assertEqual((fast[0], fast[9], fast[19]), (20, 24, 29))
        self.assertEqual(
            self.steps(dict(slot=3, steps=5), 5, "async", {"pace": "dylu"}, last_slot=10),
            [20, 22, 24, 26, 28],
        )

    def steps(self, train, n, mode, spec, last_slot):
        """d.step before each of n inner steps of a TRAIN."""
        seen = []

        def play(node):
            node.gather()
            node.tell(nodestub.Message(
                nodestub.wire.INFO, 0, run_id="a run", mode=mode, inner_steps=10,
                last_slot=last_slot, spec=json.dumps(spec),
            ))
            node.load([0.0] * 3)
            node.train(**train)
            node.end()

        play.status = nodestub.Run().status
        model = Model()
        d, optimizer = self.join(model, play)
        with d:
            for _ in range(n):
                seen.append(int(d.step))
                step(model, optimizer)
        return seen


class Alone(unittest.TestCase):
    def test_without_a_run_step_counts(self):
        model = Model()
        optimizer = sgd(model)
        d = p2pdiloco.DiLoCo(model, optimizer)
        self.assertEqual((d.step, d.total_steps, d.progress), (0, 0, 0.0))
        schedule = d.schedule(
            optimizer, "warmup_stable_decay", warmup=0.1, min_lr_rate=0.5, total_steps=20
        )
        rates = []
        with d:
            for _ in range(21):
                rates.append(optimizer.param_groups[0]["lr"])
                step(model, optimizer)
                schedule.step()
        self.assertEqual(rates[2:17], [0.5] * 15)
        self.assertAlmostEqual(rates[0], 0.5 / 3)
        self.assertAlmostEqual(rates[20], 0.25)
        other = d.schedule(sgd(Model()), lambda share: 1.0)
        other.load_state_dict(schedule.state_dict())
        self.assertEqual(other.last_epoch, 21)

    def test_what_is_no_schedule_is_refused(self):
        d, optimizer = p2pdiloco.DiLoCo(Model(), None), sgd(Model())
        for wrong, text in (
            (dict(shape="cosin"), "cosine, warmup_stable_decay are there"),
            (dict(warmup=-1), "at least 0"), (dict(min_lr_rate=2), "from 0 to 1"),
        ):
            with self.assertRaisesRegex(p2pdiloco.Invalid, text):
                d.schedule(optimizer, **wrong)

    def test_it_is_a_scheduler_of_pytorch(self):
        made = Schedule(sgd(Model()), of=lambda: None)
        self.assertIsInstance(made, torch.optim.lr_scheduler._LRScheduler)


if __name__ == "__main__":
    unittest.main()
