"""A rank's conversation with its node, and DiLoCo over it, against a node that a test plays."""

import nodestub  # first: it puts the package on the path

import array
import os
import pathlib
import socket
import threading
import time
import unittest
from unittest import mock

import torch
from p2pdiloco import DiLoCo, Flat, Lost, NodeGone, Part, errors
from p2pdiloco.attach import rendezvous, wire
from p2pdiloco.attach.events import Events
from p2pdiloco.attach.session import Offer, Session
from p2pdiloco.attach.wire import Message
from p2pdiloco.flat import FlatHeld
from p2pdiloco.private import Private
from p2pdiloco.torchmodel import TorchHeld


def model_of(values=(1.0, 2.0)):
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(torch.tensor(values))
    return model


class AttachCase(unittest.TestCase):
    def attach(self, play, model, optimizer=None, **options):
        """A DiLoCo for a node that play is."""
        self.stub = nodestub.Stub(self, play)
        os.environ[rendezvous.SOCKET_VARIABLE] = self.stub.path
        try:
            return DiLoCo(model, optimizer, **options)
        finally:
            del os.environ[rendezvous.SOCKET_VARIABLE]


class Again(AttachCase):
    """The node is killed while the trainer trains, and comes back."""

    def test_the_round_is_done_again_from_the_anchor(self):
        seen, done = {}, 0

        def play(node):
            node.gather()
            node.load([5.0, 7.0])
            look = Message(wire.TRAIN, 99, slot=1, steps=4, look=3, export=wire.GRADIENT, members=1)
            node.send(node.ranks[0], look)
            node.receive(node.ranks[0])  # AT
            node.hang_up()
            node.gather(epoch=2)
            node.load([5.0, 7.0])
            seen["offer"] = node.train(slot=1, steps=4)[0]
            seen["gradient"] = node.local.tolist()
            node.load([1.0, 1.0])
            node.end()

        model = model_of()
        with self.assertLogs("p2pdiloco") as logs:
            with self.attach(play, model, tokens_per_step=10) as d:
                while not d.finished:
                    with torch.no_grad():
                        model.w -= torch.tensor([0.5, 0.25])
                    done += 1
                    d.step()
        self.stub.join()
        self.assertEqual((seen["gradient"], done, d.rounds), ([2.0, 1.0], 7, 1))
        self.assertEqual((seen["offer"].steps, seen["offer"].tokens), (4, 40))
        self.assertIn("steps 1 to 3 of the round are done again", "\n".join(logs.output))

    def test_the_next_node_names_the_ranks_that_it_lacks(self):
        """To rank 1, which still maps the memory of the one before: rank 0 has not outlived it."""
        text = "the trainer is not complete: rank 0 of 2 has not attached"

        def play(node):
            node.gather(2)
            node.hang_up()
            connection, hello = node.accept()
            node.welcome(connection, hello)
            node.receive(connection)
            node.send(connection, Message(wire.NOTICE, 0, level=1, text=text))
            node.send(connection, Message(wire.ERROR, 0, code=11, text="the run has ended"))

        self.stub = nodestub.Stub(self, play)

        def attach(rank):
            flat = FlatHeld([("w", (2,))], array.array("f", [1.0, 2.0]))
            return Session(self.stub.find, flat, rank=rank, world=2, set="both", node_timeout=5.0)

        other = threading.Thread(target=lambda: attach(0).close())
        other.start()
        with self.assertLogs("p2pdiloco") as logs:
            attached = attach(1)
            self.addCleanup(attached.close)
            other.join()
            with self.assertRaises(errors.Ended):
                attached.border()
        self.assertTrue(any(text in line for line in logs.output), logs.output)


class Rounds(AttachCase):
    def test_a_round(self):
        seen = {}

        def play(node):
            node.gather()
            node.ask(wire.FILL)
            seen["filled"] = node.local.tolist()
            node.load([5.0, 7.0])
            offer = node.train(slot=3, steps=2)[0]
            seen.update(offer=offer, gradient=node.local.tolist(), word=node.word(0))
            node.load([1.0, 1.0])
            node.end()

        model = model_of()
        with self.attach(play, model, tokens_per_step=4) as d:
            self.assertEqual((model.w.tolist(), d.metrics.slot, d.sync_every), ([5.0, 7.0], 2, 2))
            with torch.no_grad():
                model.w -= torch.tensor([0.5, 0.25])
            d.report(2.0)
            d.step()
            self.assertEqual(d.metrics.steps, 1)
            d.report(4.0)
            d.step()
            self.assertTrue(d.finished)
            self.assertEqual((d.rounds, d.metrics.loss, d.metrics.weight), (1, 3.0, 8))
            d.step()  # it counts no more
        self.stub.join()
        self.assertEqual(model.w.tolist(), [1.0, 1.0])
        self.assertEqual(seen["filled"], [1.0, 2.0])
        self.assertEqual(seen["gradient"], [0.5, 0.25])
        self.assertEqual((seen["offer"].steps, seen["offer"].tokens, seen["word"]), (2, 8, 2))
        self.assertEqual(seen["offer"].loss, 3.0)

    def test_a_half_precision_model_contributes_what_steps_changed(self):
        seen = {}

        def play(node):
            node.gather()
            node.load([1.001, 1.001])  # bfloat16 has no such number: 1.0 is loaded
            node.train(steps=1)
            seen["gradient"] = node.local.tolist()
            node.end()

        model = torch.nn.Module()
        model.w = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        with self.attach(play, model) as d:
            with torch.no_grad():
                model.w[1] -= 0.25
            d.step()
        self.stub.join()
        self.assertEqual(seen["gradient"], [0.0, 0.25])

    def test_a_range(self):
        """Mode streaming: a part of a tensor is loaded and exported, and nothing else."""
        seen = {}

        def play(node):
            node.gather()
            node.load([1.0] * 6)
            node.train(steps=1, export=0)
            node.local[:] = nodestub.array.array("f", [9.0] * 6)
            node.ask(wire.EXPORT, begin=1, end=5, what=wire.PARAMETERS)
            seen["local"] = node.local.tolist()
            node.start[:] = nodestub.array.array("f", [8.0] * 6)
            node.ask(wire.LOAD, begin=1, end=5)
            node.train(steps=1, export=0)
            node.end()

        w, v = torch.zeros(2, 2), torch.zeros(2)
        with self.attach(play, {"w": w, "v": v}) as d:
            w.fill_(3.0)
            v.fill_(4.0)
            d.step()
            self.assertEqual(w.tolist(), [[3.0, 8.0], [8.0, 8.0]])
            self.assertEqual(v.tolist(), [8.0, 4.0])
            d.step()
        self.stub.join()
        self.assertEqual(seen["local"], [9.0, 3.0, 3.0, 3.0, 4.0, 9.0])

    def test_the_gradient_of_a_range(self):
        """Mode streaming: what a bfloat16 tensor cannot hold of the anchor is no gradient."""
        seen = {}

        def play(node):
            node.gather()
            node.load([1.001] * 4)
            node.train(steps=1, export=0)
            node.local[:] = nodestub.array.array("f", [9.0] * 4)
            node.ask(wire.EXPORT, begin=1, end=4, what=wire.GRADIENT)
            seen["local"] = node.local.tolist()
            node.end()

        w, v = torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2)
        with self.attach(play, {"w": w, "v": v}) as d:
            v[1] -= 0.5
            d.step()
        self.stub.join()
        self.assertEqual(seen["local"], [9.0, 0.0, 0.0, 0.5])

    def test_looks_and_giving_up(self):
        seen = {}

        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            node.local[0] = 77.0
            at = node.train(steps=100, look=2)[0]
            self.assertEqual((at.kind, at.steps), (wire.AT, 2))
            node.tell(Message(wire.GO, at.id, look=5))
            at = node.receive(node.ranks[0])
            self.assertEqual((at.kind, at.steps), (wire.AT, 5))
            node.tell(Message(wire.GO, at.id, answer=wire.GIVE_UP))
            seen["offer"] = node.receive(node.ranks[0])
            seen["local"] = node.local[0]
            node.load([4.0, 4.0])
            node.train(slot=2, steps=1)
            node.end()

        model = model_of()
        with self.attach(play, model) as d:
            for _ in range(5):
                d.step()
            self.assertEqual((model.w.tolist(), d.metrics.steps), ([4.0, 4.0], 0))
            # nothing was offered
            self.assertEqual((d.rounds, d.metrics.weight), (0, 0))
            d.step()
            self.assertEqual((d.rounds, d.metrics.weight), (1, 1))
        self.stub.join()
        self.assertEqual((seen["offer"].kind, seen["offer"].steps), (wire.OFFER, 5))
        self.assertEqual(seen["local"], 77.0, "a rank that gives up exports nothing")

    def test_real_optimizer_steps_count_under_accumulation(self):
        """As Accelerate wraps an optimizer: its step() calls ours every fourth time."""

        class Accelerated(torch.optim.Optimizer):
            def __init__(self, optimizer):
                self.optimizer, self.calls = optimizer, 0

            def step(self, closure=None):
                self.calls += 1
                if self.calls % 4 == 0:
                    self.optimizer.step(closure)

        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            node.train(steps=2)
            node.end()

        model = model_of()
        wrapped = Accelerated(torch.optim.SGD(model.parameters(), lr=1.0))
        with self.attach(play, model, wrapped) as d:
            for _ in range(7):
                wrapped.step()
            self.assertEqual((d.metrics.steps, d.finished), (1, False))
            wrapped.step()
            self.assertTrue(d.finished)
        self.stub.join()

    def test_what_a_trainer_lacks_is_unsupported(self):
        seen = {}

        def play(node):
            node.gather()
            seen["evaluate"] = node.ask(wire.EVALUATE)[0]
            node.load([0.0, 0.0])
            node.train(steps=1)
            node.end()

        with self.attach(play, model_of()) as d:
            d.step()
        self.stub.join()
        for answer in seen.values():
            self.assertEqual(answer.status, wire.STATUS_UNSUPPORTED)

    def test_evaluation(self):
        seen = {}

        def play(node):
            node.gather()
            node.load([2.0, 3.0])
            seen["loss"] = node.ask(wire.EVALUATE)[0].loss
            node.train(steps=1)
            node.end()

        model = model_of()
        with self.attach(play, model, evaluate=lambda: model.w.sum().item()) as d:
            d.step()
        self.stub.join()
        self.assertEqual(seen["loss"], 5.0)

    def test_a_question(self):
        """The function of a peer sees the anchor in eval mode and leaves no gradient; what goes
        wrong in it goes to who asks, and the training goes on."""
        seen = []

        def play(node):
            node.gather()
            node.load([2.0, 3.0])
            for prompt in ("sum", "nothing", "long", "raise"):
                seen.append(node.ask(wire.EVALUATE, prompt=prompt)[0])
            node.train(steps=1)
            node.load([1.0, 1.0])
            seen.append(node.ask(wire.EVALUATE, prompt="sum")[0])
            seen.append(node.ask(wire.EVALUATE, prompt="sum")[0])
            node.end()

        model = model_of()
        model.drop = torch.nn.Dropout()
        model.drop.eval()  # as a part that is frozen: it stays as the caller has it
        modes = []

        def answer(prompt):
            modes.append((model.training, torch.is_grad_enabled()))
            if prompt == "raise":
                raise ZeroDivisionError("no words")
            return {"nothing": "", "long": "é" * wire.MAX_SAMPLE}.get(prompt, str(model.w.sum()))

        d = self.attach(play, model, evaluate=lambda: 0.5)
        d.sampler_fn = answer
        with d:
            self.assertEqual((model.training, model.drop.training), (True, False))
            d.sampler_fn = lambda prompt: answer(prompt)[:10] if len(seen) < 5 else None
            d.step()
        self.stub.join()
        self.assertEqual(set(modes), {(False, False)})
        self.assertEqual((model.training, model.drop.training), (True, False))
        self.assertEqual(
            [a.status for a in seen], [wire.STATUS_OK, 2, wire.STATUS_OK, 2, wire.STATUS_OK, 1]
        )
        texts = [a.text for a in seen]
        self.assertEqual((texts[0], texts[4], texts[5]), ("tensor(5.)", "tensor(2.)", ""))
        self.assertEqual(texts[1], "d.sampler_fn: it returned an empty text")
        self.assertEqual(len(texts[2].encode()), wire.MAX_SAMPLE)
        self.assertEqual(texts[3], "d.sampler_fn: ZeroDivisionError: no words")

    def test_a_question_to_a_trainer_without_a_function(self):
        seen = []

        def play(node):
            node.gather()
            seen.append(node.ask(wire.EVALUATE, prompt="sum")[0])
            node.load([0.0, 0.0])
            node.train(steps=1)
            node.end()

        with self.attach(play, model_of(), evaluate=lambda: 0.5) as d:
            d.step()
        self.stub.join()
        self.assertEqual([(a.status, a.loss) for a in seen], [(wire.STATUS_UNSUPPORTED, 0.0)])


class PrivateState(AttachCase):
    def attach_after(self, *requests):
        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            for kind, fields in requests:
                self.assertEqual(node.ask(kind, **fields)[0].status, wire.STATUS_OK)
            node.train(steps=1)
            node.end()

        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        model.w.grad = torch.tensor([8.0, 8.0])
        return model, optimizer, self.attach(play, model, optimizer, keep=[optimizer])

    @staticmethod
    def save(folder, kept):
        private = Private(kept, 1)
        private.begin(os.path.join(folder, "rank-0"), False)
        private.whole()
        private.wait()

    def test_the_optimizer_goes_on(self):
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)
        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        model.w.grad = torch.tensor([8.0, 8.0])
        optimizer.step()
        self.save(folder, [optimizer])
        model, optimizer, d = self.attach_after((wire.RESTORE, dict(folder=folder, world=1)))
        with d:
            buffer = optimizer.state[model.w]["momentum_buffer"]
            self.assertEqual(buffer.tolist(), [8.0, 8.0])
            optimizer.step()
        self.stub.join()

    def test_the_state_of_the_beginning_comes_back_with_the_anchor(self):
        """The third step's gradient holds NaN, which the optimizer keeps for ever. The state that
        the round began with has the scheduler's part of the last step in it."""
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)

        def play(node):
            node.gather()
            self.assertEqual((node.hellos[0].saves, node.hellos[0].state), (1, 0))
            node.load([0.0, 0.0])
            node.train(slot=1, steps=1)
            node.load([1.0, 1.0])
            node.train(slot=2, steps=2, save=folder)
            node.error(9, "element 1 is NaN")
            node.gather(epoch=2)
            self.assertEqual(node.hellos[0].state, 0)
            node.ask(wire.RESTORE, folder=folder, world=1)
            node.load([1.0, 1.0])
            node.train(slot=2, steps=1)
            node.end()

        model = model_of()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        model.w.grad = torch.tensor([8.0, 8.0])
        with self.attach(play, model, optimizer, keep=[optimizer, schedule]) as d:
            optimizer.step()
            schedule.step()
            optimizer.step()
            schedule.step()
            model.w.grad.fill_(float("nan"))
            with self.assertRaises(errors.NotFinite):
                optimizer.step()
            d.reset()
            self.assertEqual(optimizer.state[model.w]["momentum_buffer"].tolist(), [8.0, 8.0])
            self.assertEqual((schedule.last_epoch, optimizer.param_groups[0]["lr"]), (1, 0.5))
            model.w.grad.fill_(8.0)
            optimizer.step()
        self.stub.join()

    def test_what_is_not_finite_is_not_saved(self):
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)
        p = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.5)
        p.grad = torch.tensor([float("inf")])
        optimizer.step()
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            self.save(folder, [optimizer])
        self.assertIn("was not saved: tensor 0 of (1,) holds NaN or infinity", logs.output[0])
        self.assertEqual(os.path.getsize(os.path.join(folder, "rank-0")), 0)

    def test_a_state_that_does_not_fit(self):
        """The parameters are in two groups now. The optimizer begins anew, and the script goes on:
        otherwise it would end so at every start."""
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)
        one, two = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
        before = torch.optim.SGD([one, two], lr=1.0)
        schedule = torch.optim.lr_scheduler.StepLR(before, 1)
        for _ in range(3):
            before.step()
            schedule.step()
        self.save(folder, [schedule, before])
        now = torch.optim.SGD([{"params": [one]}, {"params": [two]}], lr=1.0)
        schedule = torch.optim.lr_scheduler.StepLR(now, 1)
        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            private = Private([schedule, now], 1)
            private.restore(folder, 0, 1)
            private.whole()
        self.assertIn("does not fit what keep has", logs.output[0])
        self.assertEqual(schedule.last_epoch, 0, "all is taken back, or nothing")

    def test_a_save_that_fails(self):
        """As on a full disk. Training ended at the first checkpoint."""

        class Full:
            def state_dict(self):
                raise OSError(28, "No space left on device")

            def load_state_dict(self, state):
                pass

        seen = {}
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)

        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            seen["done"] = node.train(steps=1, save=folder)[0]
            node.end()

        with self.assertLogs("p2pdiloco", "WARNING") as logs:
            with self.attach(play, model_of(), keep=[Full()]) as d:
                d.step()
                self.assertTrue(d.finished)
        self.stub.join()
        self.assertEqual(seen["done"].steps, 1)
        self.assertEqual(os.path.getsize(os.path.join(folder, "rank-0")), 0)
        self.assertIn("what keep has was not saved: [Errno 28]", logs.output[0])

    def test_with_another_number_of_ranks_all_begin_anew(self):
        folder = nodestub.tempfile.mkdtemp()
        self.addCleanup(nodestub.shutil.rmtree, folder)
        private = Private([torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)], 1)
        with self.assertRaisesRegex(errors.Invalid, "2 ranks have saved .*, and now there are 1"):
            private.restore(folder, 0, 2)
        private.whole()  # nothing is taken back


class Failures(AttachCase):
    def test_a_node_that_comes_back(self):
        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            node.hang_up()  # before the slot was agreed: it is gone
            node.gather(epoch=2)
            node.load([2.0, 2.0])
            node.train(slot=2, steps=1)
            node.end()

        model = model_of()
        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.attach(play, model) as d:
            d.step()
            self.assertEqual((model.w.tolist(), d.finished), ([2.0, 2.0], False))
            self.assertEqual(d.rounds, 0)  # what was offered is lost with the node
            d.step()
            self.assertTrue(d.finished)
        self.stub.join()
        self.assertIn("the node of this machine is gone", logs.output[0])

    def test_a_node_that_does_not_come_back(self):
        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            node.close()

        d = self.attach(play, model_of(), node_timeout=0.5)
        with self.assertLogs("p2pdiloco", "WARNING"), self.assertRaisesRegex(
            NodeGone, "no node of this machine answered for 0 s"
        ), d:
            d.step()

    def test_the_nodes_last_word_is_raised(self):
        for code, kind, text in (
            (8, Lost, "rank 1 of 2 was lost"), (10, Lost, "has not moved"),
            (6, errors.Invalid, "is held by no rank"), (12, errors.Closed, "the node ends"),
            (1, errors.Error, "makes no sense"), (13, errors.Missed, "without this peer"),
        ):
            def play(node):
                node.gather()
                node.load([1.0, 1.0])
                node.train(steps=1)
                node.error(code, text)

            d = self.attach(play, model_of())
            with self.subTest(text), self.assertRaisesRegex(kind, text), d:
                d.step()

    def test_another_version(self):
        def play(node):
            connection, hello = node.accept()
            node.welcome(connection, hello, version=2 << 16)

        d = self.attach(play, model_of())
        with self.assertRaisesRegex(
            errors.Invalid, "this client speaks attach protocol 1, the node 2: install the same"
        ):
            d.start()

    def test_not_finite_and_reset(self):
        sets = []

        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            node.error(9, 'element 0 of "w" is NaN')
            connection, hello = node.accept()
            sets.append(hello.set)
            node.welcome(connection, hello)
            node.layouts[0], node.ranks[0] = node.receive(connection), connection
            node.share(2)
            node.load([3.0, 3.0])
            node.train(steps=1)
            node.end()

        model = model_of()
        with self.attach(play, model) as d:
            with self.assertRaisesRegex(errors.NotFinite, "element 0 of"):
                d.step()
            d.reset()
            self.assertEqual(model.w.tolist(), [3.0, 3.0])
            d.step()
        self.stub.join()
        self.assertEqual(sets, [f"pid {os.getpid()} on {socket.gethostname()}.1"])

    def test_busy_is_tried_again(self):
        def play(node):
            connection, _ = node.accept()
            node.send(connection, Message(wire.ERROR, 0, code=4, text="pid 71 trains this run"))
            connection.close()
            node.gather()
            node.load([1.0, 1.0])
            node.train(steps=1)
            node.end()

        with self.assertLogs("p2pdiloco", "WARNING") as logs, self.attach(play, model_of()) as d:
            d.step()
        self.stub.join()
        self.assertIn("pid 71 trains this run", logs.output[0])

    def test_bytes_that_are_no_message(self):
        def play(node):
            node.gather()
            node.ranks[0].sendall(wire.HEADER.pack(3, wire.LOAD, 0, 1) + b"abc")
            node.receive(node.ranks[0])

        d = self.attach(play, model_of())
        with self.assertRaisesRegex(wire.WireError, "left over"):
            d.start()

    def test_a_failed_request_is_told_to_the_node(self):
        seen = {}

        def play(node):
            node.gather()
            seen["done"] = node.ask(wire.EVALUATE)[0]

        d = self.attach(play, model_of(), evaluate=lambda: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            d.start()
        self.stub.join()
        self.assertEqual(seen["done"].status, wire.STATUS_FAILED)
        self.assertEqual(seen["done"].text, "division by zero")

    def test_a_connection_of_the_callers_that_breaks_is_not_the_nodes(self):
        """As of a worker of the DataLoader that evaluate reads from. It counted as a node that is
        gone: the rank attached again, was asked again, and failed again, without an end."""
        seen = {}

        def play(node):
            node.gather()
            seen["done"] = node.ask(wire.EVALUATE)[0]

        def evaluate():
            raise ConnectionResetError("a worker is gone")

        d = self.attach(play, model_of(), evaluate=evaluate, node_timeout=0.5)
        with self.assertRaisesRegex(ConnectionResetError, "a worker is gone"):
            d.start()
        self.stub.join()
        self.assertEqual(seen["done"].status, wire.STATUS_FAILED)

    def test_an_interrupt_while_a_rank_asks_whether_to_go_on(self):
        """The answer would come where the next one is awaited."""

        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            node.train(steps=100, look=1)
            node.gather(epoch=2)
            node.load([5.0, 5.0])
            node.train(slot=2, steps=1)
            node.end()

        model = model_of()
        with self.attach(play, model) as d:
            with mock.patch.object(Session, "_wait", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    d.step()
            d.step()  # discards the steps, and begins again
            self.assertEqual(model.w.tolist(), [5.0, 5.0])
            d.step()
            self.assertTrue(d.finished)
        self.stub.join()

    def test_data_that_gives_nothing(self):
        """The loop went round and round, until the node's patience ended."""

        def play(node):
            node.gather()
            node.load([0.0, 0.0])
            node.train(steps=2)

        d = self.attach(play, model_of())
        with self.assertRaisesRegex(errors.Invalid, "data gives no batch"), d:
            for _ in d.batches(iter([1]), repeat=True):
                d.step()
        self.stub.close()

    def test_a_replaced_parameter(self):
        def play(node):
            node.gather()
            node.load([1.0, 1.0])
            node.ask(wire.TRAIN, slot=1, steps=1, export=1)

        model = model_of()
        d = self.attach(play, model)
        with self.assertRaisesRegex(errors.Invalid, "w is another tensor now"), d:
            model.w = torch.nn.Parameter(torch.zeros(2))
            d.step()


class FlatVectors(AttachCase):
    def flat(self, play, *arguments, **options):
        self.stub = nodestub.Stub(self, play)
        os.environ[rendezvous.SOCKET_VARIABLE] = self.stub.path
        try:
            return Flat(*arguments, **options)
        finally:
            del os.environ[rendezvous.SOCKET_VARIABLE]

    def test_a_round(self):
        seen = {}

        def play(node):
            node.gather()
            node.ask(wire.FILL)
            seen["filled"] = node.local.tolist()
            node.load([1.0, 2.0, 3.0])
            node.train(steps=1)
            seen["gradient"] = node.local.tolist()
            node.ask(wire.EXPORT, begin=1, end=2, what=wire.PARAMETERS)
            seen["range"] = node.local.tolist()
            seen["loss"] = node.ask(wire.EVALUATE)[0].loss
            node.load([7.0, 8.0, 9.0])
            node.end()

        params = array.array("f", [4.0, 5.0, 6.0])
        layout = [("w", (2,)), ("b", ())]
        with self.flat(play, layout, params, evaluate=lambda: 0.25) as f:
            params[0] -= 0.5
            params[1] += 0.25
            f.step()
            self.assertTrue(f.finished)
        self.stub.join()
        self.assertEqual(params.tolist(), [7.0, 8.0, 9.0])
        self.assertEqual(seen["filled"], [4.0, 5.0, 6.0])
        self.assertEqual(seen["gradient"], [0.5, -0.25, 0.0])
        self.assertEqual(seen["range"], [0.5, 2.25, 0.0])
        self.assertEqual(seen["loss"], 0.25)

    def test_what_is_no_vector(self):
        for params, text in (
            (array.array("d", [0, 0]), "format d"), (b"12345678", "format B"),
            (array.array("f", [0]), "params have 1 elements, the layout 2"),
        ):
            with self.subTest(text), self.assertRaisesRegex(errors.Invalid, text):
                FlatHeld([("w", (2,))], params)

    def test_one_of_several_ranks_is_refused(self):
        """Each rank would be a peer of its own, with a model of its own. Processes of mp.spawn have
        no WORLD_SIZE in their environment, but a process group."""
        params, layout = array.array("f", [0.0]), [("w", ())]
        text = "this process is one of 3 ranks, and Flat is for one alone"
        with mock.patch.dict(os.environ, WORLD_SIZE="3"):
            with self.assertRaisesRegex(errors.Invalid, text):
                Flat(layout, params, run="r")
        group = dict(is_initialized=lambda: True, get_world_size=lambda: 3)
        with mock.patch.multiple(torch.distributed, **group):
            with self.assertRaisesRegex(errors.Invalid, text):
                Flat(layout, params, run="r")

    def test_python_alone_subtracts_as_numpy_does(self):
        done = nodestub.support.run_python("""
import array, random, sys
random.seed(1)
def numbers():
    return [random.uniform(-1, 1) * 2.0 ** random.randrange(-40, 40) for _ in range(4000)]
a, b = numbers(), numbers()
def result():
    from p2pdiloco.flat import subtract
    views = [memoryview(array.array("f", v)) for v in (a, b, [0.0] * 4000)]
    subtract(*views)
    return bytes(views[2])
import numpy
with_numpy = result()
sys.modules["numpy"] = sys.modules["torch"] = None
assert result() == with_numpy
from p2pdiloco import Flat
print("torch" in sys.modules and sys.modules["torch"], Flat.__name__)
""")
        self.assertEqual(done.strip(), "None Flat")


class OnEvents(unittest.TestCase):
    def test_whole_lines_also_when_the_file_is_renamed(self):
        folder = pathlib.Path(nodestub.tempfile.mkdtemp())
        self.addCleanup(nodestub.shutil.rmtree, folder)
        file, seen = folder / "events", []
        file.write_text('{"event": "old"}\n')
        events = Events(file, seen.append)
        events.tell()
        with open(file, "a") as f:
            f.write('{"event": "a"}\n{"event"')
            f.flush()
            events.tell()
            self.assertEqual(seen, [{"event": "a"}])
            f.write(': "b"}\n')
        file.rename(folder / "events.1")
        events.tell()
        file.write_text('{"event": "c"}\n')
        events.tell()
        events.close()
        self.assertEqual([e["event"] for e in seen], ["a", "b", "c"])

    def test_they_come_while_a_border_waits(self):
        seen = []

        def play(node):
            node.gather()
            while len(seen) < 2:
                time.sleep(0.01)
            node.load([1.0])
            node.train(steps=1)
            node.hang_up()

        stub = nodestub.Stub(self, play)
        held = FlatHeld([("w", ())], array.array("f", [0.0]))
        session = Session(stub.find, held, idle=lambda: seen.append(1))
        self.assertEqual(session.border().steps, 1)
        session.close()


class SeveralRanks(unittest.TestCase):
    def test_two_shards(self):
        """Two ranks in threads: each exports and loads its own part of the tensor."""
        seen = {}

        def play(node):
            node.gather(world=2)
            node.load([1.0, 2.0, 3.0])
            offers = node.train(steps=1)
            seen.update(local=node.local.tolist(), tokens=[offers[r].tokens for r in (0, 1)])
            node.load([9.0, 8.0, 7.0])
            node.end()

        stub = nodestub.Stub(self, play)
        parts = [torch.zeros(2), torch.zeros(1)]

        def rank(k):
            held = TorchHeld({"w": Part(parts[k], (3,), first=2 * k)})
            session = Session(stub.find, held, rank=k, world=2, set="both")
            session.border()
            parts[k].sub_(0.5 * (k + 1))
            session.border(Offer(1, 10 + k))

        threads = [threading.Thread(target=rank, args=(k,)) for k in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        stub.join()
        self.assertEqual(seen, {"local": [0.5, 0.5, 1.0], "tokens": [10, 11]})
        self.assertEqual([p.tolist() for p in parts], [[9.0, 8.0], [7.0]])


if __name__ == "__main__":
    unittest.main()
