"""A model as a vector, and back."""

import support  # first: it puts the package on the path

import unittest

import torch
from p2pdiloco.errors import Invalid
from p2pdiloco.tensors import FlatTensors, choose


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
    return [name for name, _ in choose(model, buffers=buffers, frozen=frozen)]


def flat(*tensors):
    return FlatTensors([(f"t{i}.weight", t) for i, t in enumerate(tensors)])


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
                choose({"odd": tensor}, buffers=False, frozen=False)
        with self.assertRaisesRegex(Invalid, "no parameter to train"):
            names(torch.nn.Linear(2, 2).requires_grad_(False))

    def test_a_compiled_module_has_the_same_names(self):
        inner = torch.nn.Module()
        inner.add_module("_orig_mod", torch.nn.Linear(1, 1, bias=False))
        self.assertEqual(names(inner), ["weight"])


class Copies(unittest.TestCase):
    def test_every_kind_on_every_device(self):
        for device in DEVICES:
            for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                with self.subTest(device=device, kind=kind):
                    here = torch.zeros(3, 4, dtype=kind, device=device).t()  # in pieces
                    beside = torch.zeros(5, dtype=kind)
                    f = flat(here, beside)
                    self.assertEqual(f.vector.is_pinned(), device == "cuda")
                    anchor = torch.linspace(-2, 2, 17)
                    f.vector.copy_(anchor)
                    f.load()
                    f.gather()
                    self.assertTrue(torch.equal(f.vector, anchor))
                    self.assertTrue(torch.equal(here.cpu(), anchor[:12].view(4, 3).to(kind)))
                    here[1, 2] += 1
                    f.gather()
                    changed = (f.vector - anchor).nonzero().flatten().tolist()
                    self.assertEqual(changed, [5])
                    self.assertAlmostEqual((f.vector - anchor)[5].item(), 1, delta=0.01)

    def test_layout_and_order(self):
        f = flat(torch.tensor(3.0), torch.arange(6.0).view(2, 3))
        self.assertEqual(f.layout, [("t0.weight", ()), ("t1.weight", (2, 3))])
        f.gather()
        self.assertEqual(f.vector.tolist(), [3, 0, 1, 2, 3, 4, 5])
        self.assertEqual(f.kept.numel(), 0)  # float32 needs no second copy
        self.assertEqual(memoryview(f.buffer).nbytes, 28)

    def test_tensors_in_pieces(self):
        base = torch.arange(6.0).view(2, 3)
        turned = base.t()
        f = flat(turned)
        f.gather()
        self.assertEqual(f.vector.tolist(), [0, 3, 1, 4, 2, 5])
        f.vector.mul_(10)
        f.load()
        self.assertEqual(base.tolist(), [[0, 10, 20], [30, 40, 50]])

    def test_loading_is_in_place_and_keeps_what_hangs_on_the_parameter(self):
        p = torch.nn.Parameter(torch.zeros(3))
        p.grad = torch.ones(3)
        at = p.data_ptr()
        f = flat(p)
        f.vector.fill_(7)
        f.load()
        self.assertEqual((p.tolist(), p.data_ptr()), ([7, 7, 7], at))
        self.assertEqual(p.grad.tolist(), [1, 1, 1])
        self.assertTrue(p.requires_grad and p.is_leaf)

    def test_float64_is_rounded(self):
        p = torch.tensor([1 / 3], dtype=torch.float64)
        f = flat(p)
        f.gather()
        f.load()
        self.assertEqual(p.item(), torch.tensor(1 / 3).item())


class HalfPrecision(unittest.TestCase):
    """What a bfloat16 model cannot hold is kept."""

    def test_unchanged_elements_contribute_nothing(self):
        torch.manual_seed(1)
        for kind in (torch.bfloat16, torch.float16):
            anchor = torch.randn(1000)
            p = torch.nn.Parameter(torch.zeros(1000, dtype=kind))
            f = flat(p)
            f.vector.copy_(anchor)
            f.load()
            self.assertFalse(torch.equal(p.float(), anchor))
            f.gather()
            self.assertTrue(torch.equal(f.vector, anchor))

    def test_changed_ones_contribute_what_they_changed(self):
        p = torch.zeros(2, dtype=torch.bfloat16)
        f = flat(p)
        f.vector.copy_(torch.tensor([1.001, -3.0001]))
        f.load()
        before = p.clone()
        p[1] += 0.25
        f.gather()
        change = f.vector - torch.tensor([1.001, -3.0001])
        self.assertEqual(change[0], 0)
        self.assertAlmostEqual(change[1].item(), (p[1] - before[1]).item(), places=6)

    def test_small_outer_steps_add_up(self):
        p = torch.ones(1, dtype=torch.bfloat16)  # whose neighbours are 1/128 and more away
        f = flat(p)
        f.initial()
        f.load()
        for _ in range(100):
            f.gather()
            f.vector.add_(1e-3)
            f.load()
        self.assertAlmostEqual(f.vector.item(), 1.1, places=5)
        self.assertAlmostEqual(p.item(), 1.1, delta=0.005)

    def test_a_mixed_model(self):
        half, whole = torch.ones(3, dtype=torch.bfloat16), torch.ones(2)
        f = flat(whole, half, whole.clone())
        self.assertEqual((f.vector.numel(), f.kept.numel()), (7, 3))
        f.vector.copy_(torch.linspace(0, 1, 7))
        f.load()
        f.gather()
        self.assertTrue(torch.equal(f.vector, torch.linspace(0, 1, 7)))

    def test_200_rounds_drift_no_more_than_float32(self):
        worst = {}
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            torch.manual_seed(1)
            w = torch.nn.Parameter(torch.randn(1000).to(kind))
            flat = FlatTensors([("w", w)])
            flat.initial()
            anchor = flat.vector.clone()
            exact, moves, steps = anchor.double(), torch.zeros(1000).double(), torch.zeros(1000)
            flat.load()
            for _ in range(200):
                before = w.detach().double()
                w.data += (1e-3 * torch.randn(1000)).to(kind)
                flat.gather()
                # Nesterov's momentum, as the anchor moves and as it would without any rounding
                steps = 0.9 * steps + (anchor - flat.vector)
                moves = 0.9 * moves + (before - w.detach().double())
                anchor = anchor - 0.7 * (anchor - flat.vector + 0.9 * steps)
                exact = exact - 0.7 * (before - w.detach().double() + 0.9 * moves)
                flat.vector.copy_(anchor)
                flat.load()
            worst[kind] = (anchor.double() - exact).abs().max().item()
            self.assertLess(worst[kind], 2e-5, worst)


class RunningVariance(unittest.TestCase):
    def test_it_is_never_negative_and_what_is_missing_is_kept(self):
        variance = torch.ones(2)
        f = FlatTensors([("norm.running_var", variance)])
        f.vector.copy_(torch.tensor([-0.25, 0.5]))
        f.load()
        self.assertEqual(variance.tolist(), [0, 0.5])
        variance[0] += 1
        f.gather()
        self.assertEqual(f.vector.tolist(), [0.75, 0.5])


if __name__ == "__main__":
    unittest.main()
