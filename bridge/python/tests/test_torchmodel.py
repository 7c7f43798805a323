"""A PyTorch model in the vectors that a node shares, and back."""

import support  # noqa: F401  (first: it puts the package on the path)

import math
import time
import types
import unittest
from unittest import mock

import numpy
import torch
from p2pdiloco import torchmodel
from p2pdiloco.attach import wire
from p2pdiloco.attach.wire import Message
from p2pdiloco.errors import Invalid
from p2pdiloco.torchmodel import Part, TorchHeld, named

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 3)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.frozen = torch.nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(3)


def names(model, buffers=False, frozen=False):
    return [name for name, _ in named(model, buffers=buffers, frozen=frozen)]


class Held:
    """Tensors and the node's two vectors, in this process's memory."""

    def __init__(self, *tensors, name="weight"):
        self.torch = TorchHeld([(f"t{i}.{name}", t) for i, t in enumerate(tensors)])
        self.elements = self.torch.elements
        self.start, self.local = (numpy.zeros(self.elements, numpy.float32) for _ in range(2))
        memory = types.SimpleNamespace(
            elements=self.elements, start=memoryview(self.start), local=memoryview(self.local)
        )
        self.torch.attach(memory, [True] * len(tensors))

    def __del__(self):
        self.torch.detach()  # pages that a GPU has locked outlive no array

    def load(self, anchor):
        self.start[:] = torch.as_tensor(anchor).numpy()
        self.torch.load(0, self.elements)

    def gradient(self):
        self.torch.export(0, self.elements, gradient=True)
        return torch.from_numpy(self.local.copy())

    def parameters(self):
        self.torch.export(0, self.elements, gradient=False)
        return torch.from_numpy(self.local.copy())


class Fragment(unittest.TestCase):
    def test_a_fragment_moves_its_own_elements_alone(self):
        """At a border of mode streaming a rank stands still for the fragment: of a tensor that it
        ends in, all was subtracted, and a part of that written."""
        for dtype in (torch.float32, torch.bfloat16):
            held, moved = Held(torch.ones(8, 5, dtype=dtype), torch.ones(10, dtype=dtype)), []
            held.load(torch.arange(50.0))

            def counts(what):
                def counted(live, *parts):
                    moved.append(max(t.numel() for t in parts if isinstance(t, torch.Tensor)))
                    return what(live, *parts)

                return counted

            with mock.patch.multiple(
                torchmodel._Live, value_of=counts(torchmodel._Live.value_of),
                give=counts(torchmodel._Live.give), take=counts(torchmodel._Live.take),
            ):
                held.torch.export(3, 15, gradient=True)
                held.torch.load(33, 40)
                held.torch.export(38, 41, gradient=False)
            self.assertEqual(moved, [12, 12, 7, 2, 2, 1, 1], dtype)


class Choice(unittest.TestCase):
    def test_parameters_once_in_order_without_frozen_ones(self):
        trained = ["scale", "embedding.weight", "norm.weight", "norm.bias"]
        self.assertEqual(names(Tied()), trained)
        with_frozen = trained[:2] + ["frozen.weight", "frozen.bias"] + trained[2:]
        self.assertEqual(names(Tied(), frozen=True), with_frozen)

    def test_buffers_of_the_state_dict(self):
        model = Tied()
        model.register_buffer("mask", torch.ones(3), persistent=False)
        self.assertEqual(
            names(model, buffers=True)[-2:], ["norm.running_mean", "norm.running_var"]
        )

    def test_named_tensors(self):
        a, b = torch.zeros(2), torch.zeros(3, 1)
        self.assertEqual(names({"a": a, "b": b, "again": a}), ["a", "b"])
        self.assertEqual(names([("b", b), ("none", torch.zeros(0)), ("a", a)]), ["b", "a"])

    def test_what_has_no_place_in_float32(self):
        for tensor in (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.complex64), 3):
            with self.assertRaisesRegex(Invalid, "odd is of"):
                named({"odd": tensor})
        with self.assertRaisesRegex(Invalid, "weight has no shape yet .*run a batch through"):
            named(torch.nn.LazyLinear(3))
        with self.assertRaisesRegex(Invalid, "no parameter to train"):
            names(torch.nn.Linear(2, 2).requires_grad_(False))


class Elsewhere(torch.Tensor):
    """A tensor on a kind of GPU that is not CUDA: it adds up with none that is elsewhere."""

    device = property(lambda self: torch.device("mps"))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        got = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.Tensor.cpu:
            return got.as_subclass(torch.Tensor)
        mixed = {isinstance(a, Elsewhere) for a in args if isinstance(a, torch.Tensor)}
        if func is not torch.Tensor.copy_ and len(mixed) > 1:
            raise RuntimeError("Expected all tensors to be on the same device")
        return got


class OtherDevices(unittest.TestCase):
    def test_a_gpu_that_is_not_cuda(self):
        """The first round was trained, and its export failed."""
        for kind in (torch.float32, torch.bfloat16):
            p = torch.zeros(2, dtype=kind).as_subclass(Elsewhere)
            held = Held(p)
            held.load([3, 4])
            p += 1
            self.assertEqual(held.gradient().tolist(), [-1, -1])
            self.assertEqual(held.parameters().tolist(), [4, 5])


class WhatIsTrained(unittest.TestCase):
    def test_a_layer_that_begins_to_train_is_refused(self):
        """Each peer would train it alone, without a word."""
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        model[0].requires_grad_(False)
        held = TorchHeld(model)
        held.check()
        model[1].requires_grad_(False)
        held.check()
        model[0].requires_grad_(True)
        with self.assertRaisesRegex(Invalid, "0.weight is to be trained now, .* frozen=True"):
            held.check()

    def test_a_layer_that_is_added_is_refused(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        held = TorchHeld(model)
        model.append(torch.nn.Linear(2, 2))
        with self.assertRaisesRegex(Invalid, "1.weight is to be trained now"):
            held.check()

    def test_an_optimizer_of_other_tensors_is_refused(self):
        """What it trains would be neither loaded nor offered."""
        model = torch.nn.Linear(2, 2)
        copies = [p.detach().clone().requires_grad_() for p in model.parameters()]
        held, other = TorchHeld(model), torch.optim.SGD(copies, lr=1.0)
        with self.assertRaisesRegex(Invalid, "steps none of the model's tensors"):
            held.check_optimizers([other])
        held.check_optimizers([torch.optim.SGD(model.parameters(), lr=1.0)])
        # layer-wise ones step in hooks, and count in this
        dummy = torch.nn.Parameter(torch.zeros(1, 1))
        held.check_optimizers([torch.optim.SGD([dummy], lr=1.0)])
        held.check_optimizers([other, torch.optim.SGD([model.bias], lr=1.0)])
        held.check_optimizers([])

    def test_an_optimizer_of_what_the_model_is_a_view_of(self):
        """As with flat parameters, of which Part shows the shards."""
        flat = torch.nn.Parameter(torch.zeros(6))
        held = TorchHeld({"w": Part(flat.detach()[2:4], (2, 2), first=0)})
        held.check_optimizers([torch.optim.SGD([flat], lr=1.0)])


class Copies(unittest.TestCase):
    def test_every_kind_on_every_device(self):
        for device in DEVICES:
            for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                with self.subTest(device=device, kind=kind):
                    here = torch.zeros(3, 4, dtype=kind, device=device).t()  # in pieces
                    beside = torch.zeros(5, dtype=kind)
                    held = Held(here, beside)
                    anchor = torch.linspace(-2, 2, 17)
                    held.load(anchor)
                    self.assertEqual(held.gradient().abs().max(), 0)
                    self.assertTrue(torch.equal(here.cpu(), anchor[:12].view(4, 3).to(kind)))
                    here[1, 2] += 1
                    got = held.gradient()
                    self.assertEqual(got.nonzero().flatten().tolist(), [5])
                    self.assertAlmostEqual(got[5].item(), -1, delta=0.01)

    def test_layout_and_order(self):
        held = Held(torch.tensor(3.0), torch.arange(6.0).view(2, 3))
        kinds = [(t.name, t.shape) for t in held.torch.tensors]
        self.assertEqual(kinds, [("t0.weight", ()), ("t1.weight", (2, 3))])
        self.assertEqual(held.parameters().tolist(), [3, 0, 1, 2, 3, 4, 5])

    def test_tensors_in_pieces(self):
        base = torch.arange(6.0).view(2, 3)
        held = Held(base.t())
        self.assertEqual(held.parameters().tolist(), [0, 3, 1, 4, 2, 5])
        held.load([0, 30, 10, 40, 20, 50])
        self.assertEqual(base.tolist(), [[0, 10, 20], [30, 40, 50]])

    def test_loading_is_in_place_and_keeps_what_hangs_on_the_parameter(self):
        p = torch.nn.Parameter(torch.zeros(3))
        p.grad = torch.ones(3)
        at = p.data_ptr()
        Held(p).load([7, 7, 7])
        self.assertEqual((p.tolist(), p.data_ptr()), ([7, 7, 7], at))
        self.assertEqual(p.grad.tolist(), [1, 1, 1])
        self.assertTrue(p.requires_grad and p.is_leaf)

    def test_float64_is_rounded(self):
        p = torch.tensor([1 / 3], dtype=torch.float64)
        held = Held(p)
        held.load(held.parameters())
        self.assertEqual(p.item(), torch.tensor(1 / 3).item())

    def test_a_copy_is_put_back(self):
        p, q = torch.ones(3), torch.zeros(2, dtype=torch.bfloat16)
        held = Held(p, q)
        copy = held.torch.copy()
        held.load([5, 5, 5, 5, 5])
        held.torch.put(copy)
        self.assertEqual((p.tolist(), q.tolist()), ([1, 1, 1], [0, 0]))


class HalfPrecision(unittest.TestCase):
    """What a bfloat16 model cannot hold is kept in the anchor."""

    def test_unchanged_elements_contribute_nothing(self):
        torch.manual_seed(1)
        for kind in (torch.bfloat16, torch.float16):
            anchor = torch.randn(1000)
            p = torch.nn.Parameter(torch.zeros(1000, dtype=kind))
            held = Held(p)
            held.load(anchor)
            self.assertFalse(torch.equal(p.float(), anchor))
            self.assertEqual(held.gradient().abs().max(), 0)

    def test_changed_ones_contribute_what_they_changed(self):
        p = torch.zeros(2, dtype=torch.bfloat16)
        held = Held(p)
        held.load([1.001, -3.0001])
        before = p.clone()
        p[1] += 0.25
        got = held.gradient()
        self.assertEqual(got[0], 0)
        self.assertAlmostEqual(got[1].item(), (before[1] - p[1]).item(), places=6)

    def test_200_rounds_drift_no_more_than_float32(self):
        worst = {}
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            torch.manual_seed(1)
            w = torch.nn.Parameter(torch.randn(1000).to(kind))
            held = Held(w)
            anchor = held.parameters()
            exact, moves, steps = anchor.double(), torch.zeros(1000).double(), torch.zeros(1000)
            held.load(anchor)
            for _ in range(200):
                before = w.detach().double()
                w.data += (1e-3 * torch.randn(1000)).to(kind)
                gradient = held.gradient()
                # Nesterov's momentum, as the anchor moves and as it would without any rounding
                steps = 0.9 * steps + gradient
                moves = 0.9 * moves + (before - w.detach().double())
                anchor = anchor - 0.7 * (gradient + 0.9 * steps)
                exact = exact - 0.7 * (before - w.detach().double() + 0.9 * moves)
                held.load(anchor)
            worst[kind] = (anchor.double() - exact).abs().max().item()
            self.assertLess(worst[kind], 2e-5, worst)


class RunningVariance(unittest.TestCase):
    def test_it_is_never_negative_and_what_is_missing_is_kept(self):
        variance = torch.ones(2)
        held = Held(variance, name="running_var")
        held.load([-0.25, 0.5])
        self.assertEqual(variance.tolist(), [0, 0.5])
        variance[0] += 1
        self.assertEqual(held.gradient().tolist(), [-1, 0])


class ManyTensors(unittest.TestCase):
    def test_time_grows_as_their_number_does(self):
        """Not with its square. What else runs here takes no processor time of this process."""
        def seconds(n):
            model = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(3)) for _ in range(n)])
            least = math.inf
            for _ in range(3):
                began = time.process_time()
                held = torchmodel.TorchHeld(model)
                message = Message(
                    wire.LAYOUT, 1, tensors=tuple(held.tensors), pieces=tuple(held.pieces)
                )
                raw = wire.pack(message)
                self.assertEqual(wire.unpack(wire.LAYOUT, 1, raw[16:]), message)
                least = min(least, time.process_time() - began)
            return least

        few, many = seconds(500), seconds(8000)
        self.assertLess(many, 16 * 4 * few, f"{few} s for 500 tensors, {many} s for 8,000")


if __name__ == "__main__":
    unittest.main()
