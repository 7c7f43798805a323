"""The integrations in a run that a test plays: over stand-ins, and the real libraries where they
can be imported. An inner step adds 1 to the model, the outer step goes half of the way."""

import nodestub  # first: it puts the package on the path
import standins

import itertools
import logging
import os
import types
import unittest
from unittest import mock

import torch

LIGHTNING = standins.lightning()  # before a stand-in has its name
standins.install()

import p2pdiloco
from p2pdiloco.attach import rendezvous, status
from p2pdiloco.integrations import accelerate_loop, adapter, hf_trainer, lightning_callback
from p2pdiloco.integrations.torchtitan_trainer import DiLoCoTrainer

ONES = torch.ones(4)


class Model(torch.nn.Module):
    """Its loss falls by 3 when every weight grows by 1."""

    def __init__(self, value=0.0):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), value))
        self.seen = []

    def forward(self, batch, labels=None):
        self.seen.append(self.w[0].item())
        return -self.w.sum() * batch.mean()


def loader(batch_size=1):
    return torch.utils.data.DataLoader(ONES, batch_size)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1.0)


class Fit(standins.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.net = model

    def training_step(self, batch, i):
        return self.net(batch)

    def configure_optimizers(self):
        return sgd(self)


class RunCase(unittest.TestCase):
    def setUp(self):
        log = logging.getLogger("p2pdiloco")  # assertLogs goes below it
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)

    def play(self, **options):
        """Plays a run that is there already, with the model 4 4 4, and starts its node."""
        self.run_played = nodestub.Run(**options)
        self.run_played.anchor = [4.0] * 3
        self.stub = nodestub.Stub(self, self.run_played)
        variables = {rendezvous.SOCKET_VARIABLE: self.stub.path}
        for patch in (
            mock.patch.object(status, "read", self.status),
            mock.patch.dict(os.environ, variables),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        return self.run_played

    def status(self, data_dir=""):
        task = {"inner_steps": self.run_played.steps}
        return dict(self.run_played.status(), task=task)

    def agreed(self, model, slots, steps):
        """The run has come to a slot, after offers of so many steps, and the model is its."""
        self.stub.join()
        self.assertEqual([offer.steps for offer in self.run_played.offers], steps)
        self.assertEqual(self.run_played.slot, slots)
        self.assertEqual(model.w.tolist(), self.run_played.anchor)


class Trainers(RunCase):
    """Hugging Face's."""

    def trainer(self, model, callback, max_steps=6, skip=lambda n: False, **args):
        args = types.SimpleNamespace(**{
            "max_steps": max_steps, "gradient_accumulation_steps": 1, "logging_steps": 1,
            "load_best_model_at_end": False, **args,
        })
        return standins.Trainer(model, args, loader(), [callback], sgd(model), skip)

    def test_the_training_ends_with_the_run(self):
        self.play(steps=2, rounds=3)
        model, callback = Model(), hf_trainer.DiLoCoCallback()
        trainer = self.trainer(model, callback, max_steps=99, gradient_accumulation_steps=4)
        with self.assertLogs("p2pdiloco") as logs:
            trainer.train()
        self.agreed(model, 3, [2, 2, 2])
        said = "\n".join(logs.output)
        self.assertIn("ends after about 6 steps, and the library was to do 99", said)
        self.assertEqual(trainer.state.global_step, 6, "no step may follow the run's last")
        self.assertEqual(model.seen[:9:4], [4.0, 5.0, 5.0], "the run's model, from the first step")
        self.assertIsNotNone(callback.diloco.metrics.loss)
        self.assertNotIn("slot", trainer.logs[0], "no round is over")
        self.assertEqual([line["slot"] for line in trainer.logs[2:5:2]], [1, 2])
        self.assertLessEqual({"sync_s", "up_mb", "dn_mb", "members"}, trainer.logs[2].keys())
        self.assertLess(trainer.logs[2]["loss"], 0, "the library's own")

    def test_steps_that_were_skipped_do_not_count(self):
        self.play(steps=2, rounds=2)
        model = Model()
        trainer = self.trainer(
            model, hf_trainer.DiLoCoCallback(), max_steps=99, skip=lambda n: n % 2 == 0
        )
        trainer.train()
        self.agreed(model, 2, [2, 2])
        self.assertEqual(trainer.state.global_step, 8)

    def test_fewer_steps_end_with_what_all_agreed_on(self):
        run, model = self.play(steps=2, rounds=9), Model()
        with self.assertLogs("p2pdiloco") as logs:
            self.trainer(model, hf_trainer.DiLoCoCallback(), max_steps=3).train()
        self.agreed(model, 2, [2, 1])
        self.assertIn("the run goes on for about 18 steps", "\n".join(logs.output))
        self.assertTrue(run.left)

    def test_max_steps_that_fit_are_no_warning(self):
        self.play(steps=2, rounds=3)
        model = Model()
        with self.assertNoLogs("p2pdiloco", "WARNING"):
            self.trainer(model, hf_trainer.DiLoCoCallback(), max_steps=6).train()
        self.agreed(model, 3, [2, 2, 2])

    def test_the_optimizer_is_kept(self):
        self.play(steps=2, rounds=1)
        model = Model()
        callback = hf_trainer.DiLoCoCallback(keep=True)
        with mock.patch.object(adapter, "DiLoCo", wraps=adapter.DiLoCo) as made:
            trainer = self.trainer(model, callback)
            trainer.train()
        self.assertEqual(made.call_args.kwargs["keep"], [trainer.optimizer, trainer.scheduler])

    def test_the_best_model_is_refused(self):
        trainer = self.trainer(Model(), hf_trainer.DiLoCoCallback(), load_best_model_at_end=True)
        with self.assertRaisesRegex(p2pdiloco.Invalid, "load_best_model_at_end puts"):
            trainer.train()

    def test_a_run_that_has_ended(self):
        run = self.play(steps=2, rounds=3)
        run.slot = 3
        model = Model()
        with self.assertRaisesRegex(p2pdiloco.Ended, "another run= to train on"):
            self.trainer(model, hf_trainer.DiLoCoCallback()).train()
        self.assertEqual(model.w.tolist(), [4.0] * 3)

    def fail_with(self, error):
        """Training that an exception ends after 3 steps, and the callback that saw it."""
        model, steps = Model(), itertools.count(1)

        def skip(n):
            if next(steps) == 4:
                raise error
            return False

        with self.assertRaises(type(error)):
            with hf_trainer.DiLoCoCallback() as callback:
                self.trainer(model, callback, max_steps=18, skip=skip).train()
        return callback

    def test_an_interrupt_leaves_and_a_crash_does_not(self):
        run = self.play(steps=2, rounds=9)
        callback = self.fail_with(RuntimeError("a crash"))
        self.assertEqual(run.left, "")
        callback = self.fail_with(KeyboardInterrupt())
        self.stub.join()
        self.assertTrue(run.left)
        self.assertEqual(callback.diloco.rounds, 1)

    def test_a_callback_may_train_again(self):
        """The Trainer tells nobody of an exception: the next training ends what is left."""
        self.play(steps=2, rounds=3)
        model, callback = Model(), hf_trainer.DiLoCoCallback()

        def skip(n):
            if n == 3:
                raise RuntimeError("a crash")
            return False

        with self.assertRaisesRegex(RuntimeError, "a crash"):
            self.trainer(model, callback, skip=skip).train()
        self.trainer(model, callback).train()
        self.agreed(model, 3, [2, 2, 2])

    def test_without_a_run_it_trains_alone(self):
        model = Model()
        self.trainer(model, hf_trainer.DiLoCoCallback(), max_steps=5).train()
        self.assertEqual(model.w.tolist(), [5.0] * 3)


class Fits(RunCase):
    """Lightning's."""

    def fit(self, module, callback, accumulate=1, **options):
        trainer = standins.LightningTrainer([callback], accumulate, **options)
        trainer.fit(module, loader())
        return trainer

    def test_the_fit_ends_with_the_run(self):
        run = self.play(steps=2, rounds=3)
        model = Model()
        callback = lightning_callback.DiLoCoCallback(part="net", tokens=len)
        logger = mock.Mock()
        trainer = self.fit(Fit(model), callback, accumulate=4, loggers=[logger])
        self.agreed(model, 3, [2, 2, 2])
        self.assertEqual(trainer.global_step, 6)
        self.assertEqual([offer.tokens for offer in run.offers], [8, 8, 8])
        self.assertEqual([t.name for t in self.stub.layouts[0].tensors], ["w"])
        lines = [(c.args[0]["slot"], c.kwargs["step"]) for c in logger.log_metrics.call_args_list]
        self.assertEqual(lines, [(1, 2), (2, 4), (3, 6)])
        # The last loss of the round before, and all but the last one of the last round.
        self.assertEqual(callback.diloco.metrics.loss, -3 * (6 + 4 * 6 + 3 * 7) / 8)

    def test_fewer_steps_end_with_what_all_agreed_on(self):
        run, model = self.play(steps=2, rounds=9), Model()
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            self.fit(Fit(model), lightning_callback.DiLoCoCallback(), max_steps=3)
        self.assertIn("the run goes on for about 18 steps", "\n".join(logs.output))
        self.agreed(model, 2, [2, 1])
        self.assertEqual([t.name for t in self.stub.layouts[0].tensors], ["net.w"])
        self.assertTrue(run.left)

    @unittest.skipUnless(LIGHTNING, "neither lightning nor pytorch_lightning can be imported")
    def test_the_real_one(self):
        class Module(LIGHTNING.LightningModule):
            training_step, configure_optimizers = Fit.training_step, Fit.configure_optimizers

            def __init__(self, model):
                super().__init__()
                self.net = model

        run, model = self.play(steps=2, rounds=3), Model()
        trainer = LIGHTNING.Trainer(
            accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, max_epochs=-1,
            accumulate_grad_batches=2,
            callbacks=[lightning_callback.DiLoCoCallback(part="net", tokens=len)],
        )
        trainer.fit(Module(model), loader())
        self.agreed(model, 3, [2, 2, 2])
        self.assertEqual(trainer.global_step, 6)
        self.assertEqual([offer.tokens for offer in run.offers], [4, 4, 4])
        self.assertEqual(len(model.seen), 12)

    def test_an_interrupt_leaves(self):
        run, model = self.play(steps=2, rounds=9), Model()

        def tokens(batch):
            if len(model.seen) == 3:
                raise KeyboardInterrupt
            return 1

        self.fit(Fit(model), lightning_callback.DiLoCoCallback(tokens=tokens))
        self.stub.join()
        self.assertTrue(run.left)

    def test_what_goes_on_after_the_end_is_refused(self):
        callback = lightning_callback.DiLoCoCallback()
        for options, text in (
            (dict(min_epochs=1), "min_epochs and min_steps"),
            (dict(min_steps=7), "min_epochs and min_steps"),
            (dict(num_nodes=2), "one machine is one peer"),
        ):
            with self.assertRaisesRegex(p2pdiloco.Invalid, text):
                self.fit(Fit(Model()), callback, **options)


class Loops(RunCase):
    """Accelerate's."""

    def train(self, accelerator, model, optimizer, loader_of=lambda d: loader()):
        model_, optimizer_ = accelerator.prepare(model, optimizer)
        with accelerate_loop.diloco(accelerator, model_, optimizer_) as d:
            for batch in d.batches(accelerator.prepare(loader_of(d)), repeat=True):
                with accelerator.accumulate(model_):
                    accelerator.backward(model_(batch))
                    optimizer_.step()
                    optimizer_.zero_grad()
        return d

    def test_a_loop(self):
        self.play(steps=2, rounds=3)
        model = Model()
        accelerator = standins.Accelerator(4, skip=lambda n: n == 1)
        self.train(accelerator, model, sgd(model))
        self.agreed(model, 3, [2, 2, 2])
        self.assertEqual(len(model.seen), 4 * 7)

    @unittest.skipUnless(standins.real("accelerate"), "accelerate cannot be imported")
    def test_the_real_one(self):
        import accelerate

        self.play(steps=2, rounds=3)
        model = Model()
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        self.train(accelerator, model, sgd(model))
        self.agreed(model, 3, [2, 2, 2])

    def test_its_samples_are_the_peers_own(self):
        self.play(steps=2, rounds=3)
        model, accelerator = Model(), standins.Accelerator(2)
        seen = []

        def loader_of(d):
            sampler = accelerate_loop.samples(accelerator, d, ONES, 1)
            seen.append(sampler)
            return torch.utils.data.DataLoader(ONES, 1, sampler=sampler)

        self.train(accelerator, model, sgd(model), loader_of)
        self.agreed(model, 3, [2, 2, 2])
        self.assertEqual(seen[0]._batch, 2)

    def test_accelerate_divides_the_samples_among_the_ranks(self):
        d, accelerator = p2pdiloco.DiLoCo(Model()), standins.Accelerator()
        d._ranks = rendezvous.Ranks(rank=1, world=2)
        accelerator.num_processes = 2
        everybodys = list(accelerate_loop.samples(accelerator, d, range(8), 2))
        self.assertEqual(sorted(everybodys), list(range(8)))
        own = list(d.sampler(range(8), 4))
        self.assertEqual(own, everybodys[2:4] + everybodys[6:8])

    def test_an_optimizer_that_was_not_prepared(self):
        model = Model()
        with self.assertRaisesRegex(p2pdiloco.Invalid, "SGD is not what accelerator.prepare"):
            accelerate_loop.diloco(standins.Accelerator(), model, sgd(model))

    def test_processes_without_a_group(self):
        accelerator, model = standins.Accelerator(), Model()
        accelerator.num_processes = 2
        with self.assertRaisesRegex(p2pdiloco.Invalid, "accelerate launch"):
            accelerate_loop.diloco(accelerator, model, accelerator.prepare(sgd(model)))


class Titans(RunCase):
    """torchtitan's."""

    class Peer(DiLoCoTrainer, standins.TitanTrainer):
        pass

    def titan(self, model, steps=99, **options):
        batches = [(ONES, ONES)]
        return self.Peer(model, sgd(model), batches, steps, **options)

    def test_the_training_ends_with_the_run(self):
        run, model = self.play(steps=2, rounds=3), Model()
        trainer = self.titan(model, sharing=2)
        trainer.train()
        self.agreed(model, 3, [2, 2, 2])
        self.assertEqual((trainer.step, [o.tokens for o in run.offers]), (6, [4, 4, 4]))

    def test_fewer_steps_end_with_what_all_agreed_on(self):
        run, model = self.play(steps=2, rounds=9), Model()
        self.titan(model, steps=3).train()
        self.agreed(model, 2, [2, 1])
        self.assertTrue(run.left)

    def test_pipelines_are_refused(self):
        with self.assertRaisesRegex(p2pdiloco.Invalid, "pipeline parallelism"):
            self.titan(Model(), pp=True).train()

    def test_a_crash_does_not_leave(self):
        run, model = self.play(steps=2, rounds=9), Model()
        trainer = self.titan(model)
        trainer.dataloader = [(ONES, ONES), (None, ONES)]
        with self.assertRaises(AttributeError):
            trainer.train()
        self.assertEqual(run.left, "")


class Rated(Model):
    """Notes the learning rate of each step."""

    def __init__(self):
        super().__init__()
        self.optimizer, self.rates = sgd(self), []

    def forward(self, batch, labels=None):
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        return super().forward(batch, labels)


class LateJoiners(RunCase):
    """They have the learning rates of the others: of a run of 10 rounds, from slot 7 on."""

    RATES = [1 - n / 20 for n in range(14, 20)]

    def late(self):
        self.play(steps=2, rounds=10).slot = 7
        return Rated()

    @staticmethod
    def linear(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / 20)

    def rated(self, model):
        self.stub.join()
        self.assertEqual(len(model.rates), 6)
        for have, want in zip(model.rates, self.RATES):
            self.assertAlmostEqual(have, want)

    def test_of_the_trainers_own_schedule(self):
        model, callback = self.late(), hf_trainer.DiLoCoCallback()
        args = types.SimpleNamespace(
            max_steps=20, gradient_accumulation_steps=1, logging_steps=1,
            load_best_model_at_end=False,
        )
        trainer = standins.Trainer(model, args, loader(), [callback], model.optimizer)
        trainer.scheduler = self.linear(model.optimizer)
        with self.assertNoLogs("p2pdiloco", "WARNING"):
            trainer.train()
        self.rated(model)
        self.assertAlmostEqual(trainer.scheduler.get_last_lr()[0], 0)

    def test_of_a_schedule_that_was_made_for_the_trainer(self):
        for make in (lambda c, o: c.schedule(o, "linear"), lambda c, o: self.linear(o)):
            model, callback = self.late(), lightning_callback.DiLoCoCallback(part="net")
            module = Fit(model)
            module.configure_optimizers = lambda: model.optimizer
            trainer = standins.LightningTrainer([callback])
            scheduler = make(callback, model.optimizer)
            trainer.lr_scheduler_configs = [
                types.SimpleNamespace(scheduler=scheduler, interval="step", frequency=1)
            ]
            batch = trainer._batch

            def then_its_schedule(*arguments):
                told = batch(*arguments)
                scheduler.step()
                return told

            trainer._batch = then_its_schedule
            trainer.fit(module, loader())
            self.rated(model)

    def test_of_torchtitans_schedule(self):
        model = self.late()
        trainer = Titans.Peer(model, model.optimizer, [(ONES, ONES)], 99)
        trainer.lr_schedulers = self.linear(model.optimizer)
        trainer.train()
        self.rated(model)

    def test_of_a_loop_over_accelerate(self):
        model, accelerator = self.late(), standins.Accelerator()
        model, optimizer = accelerator.prepare(model, model.optimizer)
        with accelerate_loop.diloco(accelerator, model, optimizer) as d:
            d.schedule(optimizer, "linear")
            for batch in d.batches(loader(), repeat=True):
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch))
                    optimizer.step()
                    optimizer.zero_grad()
        self.rated(model)

    def test_a_scheduler_that_cannot_be_taken_anywhere_says_so(self):
        model, callback = self.late(), lightning_callback.DiLoCoCallback(part="net")
        trainer = standins.LightningTrainer([callback])
        parts = [torch.optim.lr_scheduler.ConstantLR(model.optimizer) for _ in range(2)]
        one = torch.optim.lr_scheduler.SequentialLR(model.optimizer, parts, milestones=[3])
        trainer.lr_scheduler_configs = [
            types.SimpleNamespace(scheduler=one, interval="step", frequency=1)
        ]
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            trainer.fit(Fit(model), loader())
        self.assertIn("SequentialLR cannot be taken to step 14 of the run", logs.output[0])


if __name__ == "__main__":
    unittest.main()
