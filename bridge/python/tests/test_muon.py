"""Muon against its equations in float64, and its part that is AdamW against PyTorch's."""

import support  # first: it puts the package on the path

import unittest

import torch

import p2pdiloco
from p2pdiloco import muon


def newton_schulz(g):
    """As its authors write it, in float64."""
    x = g.double() / (g.double().norm() + 1e-7)
    if x.shape[0] > x.shape[1]:
        return newton_schulz(g.t()).t()
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 6)
        self.up = torch.nn.Linear(6, 8)
        self.mix = torch.nn.Conv1d(8, 6, 3)
        self.head = torch.nn.Linear(6, 11, bias=False)


class Matrices(unittest.TestCase):
    def test_the_equations(self):
        torch.manual_seed(1)
        for shape in ((5, 5), (4, 9), (9, 4), (4, 3, 2)):
            p = torch.nn.Parameter(torch.randn(shape))
            w, m = p.detach().double().clone(), torch.zeros(shape, dtype=torch.float64)
            optimizer = p2pdiloco.Muon([p], lr=0.02, momentum=0.9, weight_decay=0.1)
            for _ in range(3):
                p.grad = torch.randn(shape)
                g = p.grad.double()
                m = 0.9 * m + g
                u = newton_schulz((g + 0.9 * m).flatten(1))
                u = u * 0.2 * max(u.shape) ** 0.5
                w = w - 0.02 * (u.view_as(w) + 0.1 * w)
                optimizer.step()
            self.assertLess((p.detach() - w).abs().max().item(), 1e-5)

    def test_singular_values(self):
        torch.manual_seed(2)
        values = torch.linalg.svdvals(muon.orthogonalized(torch.randn(16, 40)))
        self.assertGreater(values.min().item(), 0.6)
        self.assertLess(values.max().item(), 1.25)

    def test_adamw_is_pytorchs(self):
        torch.manual_seed(3)
        mine, theirs = (torch.nn.Parameter(torch.ones(7)) for _ in range(2))
        optimizers = [
            p2pdiloco.Muon([mine], lr=0.03, betas=(0.8, 0.9), eps=1e-6),
            torch.optim.AdamW([theirs], lr=0.03, betas=(0.8, 0.9), eps=1e-6, weight_decay=0),
        ]
        for _ in range(5):
            mine.grad = torch.randn(7)
            theirs.grad = mine.grad.clone()
            for optimizer in optimizers:
                optimizer.step()
        self.assertTrue(torch.allclose(mine, theirs, rtol=1e-6))

    def test_a_model_is_divided(self):
        model = Model()
        model.up.weight.requires_grad_(False)
        groups = p2pdiloco.Muon(model).param_groups
        self.assertEqual([g["adamw"] for g in groups], [False, True])
        self.assertEqual([id(p) for p in groups[0]["params"]], [id(model.mix.weight)])
        rest = [model.embed.weight, model.up.bias, model.mix.bias, model.head.weight]
        self.assertEqual({id(p) for p in groups[1]["params"]}, {id(p) for p in rest})

    def test_it_goes_on_from_its_state(self):
        def trained(p, optimizer, n, seed):
            torch.manual_seed(seed)
            for _ in range(n):
                p.grad = torch.randn(p.shape)
                optimizer.step()

        p = torch.nn.Parameter(torch.ones(3, 4))
        optimizer = p2pdiloco.Muon([p])
        trained(p, optimizer, 2, 4)
        other = torch.nn.Parameter(p.detach().clone())
        again = p2pdiloco.Muon([other])
        again.load_state_dict(optimizer.state_dict())
        trained(p, optimizer, 2, 5)
        trained(other, again, 2, 5)
        self.assertTrue(torch.equal(p, other))

    def test_refusals(self):
        p = torch.nn.Parameter(torch.ones(2, 2))
        with self.assertRaisesRegex(p2pdiloco.Invalid, "from 0 to below 1"):
            p2pdiloco.Muon([p], momentum=1.0)
        p.placements = ()
        with self.assertRaisesRegex(p2pdiloco.Invalid, "use DDP"):
            p2pdiloco.Muon([p])
        del p.placements
        optimizer = p2pdiloco.Muon([p])
        p.grad = torch.ones(2, 2).to_sparse()
        with self.assertRaisesRegex(p2pdiloco.Invalid, "sparse"):
            optimizer.step()

    def test_steps_count(self):
        """DiLoCo wraps step, as of any optimizer; its closure is called once, with gradients."""
        p = torch.nn.Parameter(torch.ones(2, 2))
        optimizer = p2pdiloco.Muon([p])

        def closure():
            loss = p.sum()
            loss.backward()
            return loss

        self.assertEqual(optimizer.step(closure).item(), 4)
        self.assertLess(p.sum().item(), 4)


if __name__ == "__main__":
    unittest.main()
