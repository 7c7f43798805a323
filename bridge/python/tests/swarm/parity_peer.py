"""One peer alone trains the example's GPT, and after every round compares the anchor, bit by bit,
with what torch.optim.SGD makes of the same pseudo-gradient. Its argument is a JSON object of
settings, and runs: a list of {outer, outer_lr, momentum}, done one after the other in this
process."""

import json
import os
import sys

import torch

import p2pdiloco

sys.path.insert(0, os.environ["P2PDILOCO_TEST_EXAMPLE"])
from gpt import GPT, Config


class Outer:
    """The outer step in PyTorch, over the flat vector."""

    def __init__(self, vector, outer, outer_lr, momentum):
        self.theta = torch.nn.Parameter(vector.clone())
        self.sgd = torch.optim.SGD(
            [self.theta], lr=float(outer_lr), momentum=float(momentum), nesterov=outer == "nesterov"
        )

    def step(self, local):
        self.theta.grad = self.theta.detach() - local
        self.sgd.step()


def flat(model):
    """All parameters in one vector, as they lie in the anchor."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def one_run(settings, run):
    torch.manual_seed(1)
    config = Config(layers=2, width=32, heads=4, context=16)
    model = GPT(config)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    differing, moved = 0, 0
    with p2pdiloco.DiLoCo(model, None, aggregator="mean", clip="off", **settings, **run) as d:
        outer = Outer(flat(model), **run)
        while not d.finished:
            for _ in range(d.sync_every):
                window = torch.randint(256, (4, config.context + 1))
                model(window[:, :-1], window[:, 1:]).backward()
                inner.step()
                inner.zero_grad()
                local, before = flat(model), outer.theta.detach().clone()
                d.step()
            outer.step(local)
            anchor = flat(model)
            differing += int((outer.theta.detach() != anchor).sum())
            moved += int((before != anchor).sum())
        print(json.dumps({
            "is": "done", "rounds": d.rounds, "elements": anchor.numel(),
            "differing": differing, "moved": moved,
        }), flush=True)


def main():
    settings = json.loads(sys.argv[1])
    name, folder = settings.pop("run"), settings.pop("data_dir")
    for i, run in enumerate(settings.pop("runs")):
        one_run({**settings, "run": f"{name}-{i}", "data_dir": f"{folder}-{i}"}, run)


if __name__ == "__main__":
    main()
