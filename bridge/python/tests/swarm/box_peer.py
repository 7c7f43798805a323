"""A peer of one or several ranks that attaches to a node of its own process.

The argument is a JSON object of settings of DiLoCo, and of its own: kind (single: one process;
ddp: DistributedDataParallel over gloo; flat: a flat shard of each tensor in each rank; dim0: rows
of each matrix in each rank), pause (seconds of a step), steps (after which it leaves), private
(whether the optimizer is kept), invites
(whether it prints a ticket), exports (the Hugging Face folder that it writes, and the one that it
is like). Every rank prints JSON lines.
"""

import hashlib
import json
import math
import os
import sys
import time

import torch

from p2pdiloco import DiLoCo, Part, found

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
SIZES = {"w": (5, 4), "b": (7,), "s": ()}


def tell(kind, **fields):
    print(json.dumps({"is": kind, "rank": RANK, **fields}), flush=True)


def first(name, shape):
    """The initial values: each element's follows from its place in the whole model."""
    before = {"w": 0, "b": 20, "s": 27}[name]
    n = math.prod(shape)
    return (0.5 + torch.arange(before, before + n) / 64).reshape(shape)


class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, shape in SIZES.items():
            setattr(self, name, torch.nn.Parameter(first(name, shape)))

    def forward(self, x):
        return (self.w.sum() + self.b.sum() + self.s - x).square()


def cut(n):
    """A rank's range of n, as torch.chunk cuts them."""
    size = -(-n // WORLD)
    return min(RANK * size, n), min((RANK + 1) * size, n)


def flat(whole):
    shards = {}
    for name, tensor in whole.items():
        low, high = cut(tensor.numel())
        shards[name] = Part(tensor.reshape(-1)[low:high].clone(), tensor.shape, first=low)
    return shards


def rows(whole):
    shards = {}
    for name, tensor in whole.items():
        if tensor.dim() == 0:
            shards[name] = Part(tensor.clone(), (), offset=())  # a replica in every rank
            continue
        low, high = cut(tensor.shape[0])
        offset = (low,) + (0,) * (tensor.dim() - 1)
        shards[name] = Part(tensor[low:high].clone(), tensor.shape, offset=offset)
    return shards


def main():
    options = json.loads(sys.argv[1])
    kind, pause = options.pop("kind", "single"), options.pop("pause", 0.005)
    invites, exports = options.pop("invites", False), options.pop("exports", None)
    last, private = options.pop("steps", None), options.pop("private", False)
    toy = Toy()
    model, tensors = toy, list(toy.parameters())
    if kind == "ddp":
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(toy)
    elif kind in ("flat", "dim0"):
        whole = {name: p.detach() for name, p in toy.named_parameters()}
        model = (flat if kind == "flat" else rows)(whole)
        tensors = [part.value for part in model.values()]
    optimizer = torch.optim.SGD(tensors, lr=0.01, momentum=0.9 if private else 0)
    keep = [optimizer] if private else []
    make = found if options.pop("found", False) else DiLoCo
    tell("started", pid=os.getpid())
    with make(model, optimizer, keep=keep, **options) as d:
        if invites:
            tell("ticket", ticket=d.invite(ttl="1h"), doctor=sorted(d.doctor()))
        tell("joined", slot=d.metrics.slot, every=d.sync_every, momentum=len(optimizer.state))
        steps = rounds = 0
        parts = {}
        while not d.finished and steps != last:
            parts[d.metrics.slot + 1] = d.part
            for t in tensors:  # elementwise, whatever part a rank holds
                t.grad = 0.5 * t.detach() + (0.25 + 0.125 * (d.part % 3))
            d.tokens(1)  # before the step, which may end the round
            optimizer.step()
            steps += 1
            time.sleep(pause * (1 + RANK))
            if d.rounds > rounds:
                rounds = d.rounds
                tell("round", slot=d.metrics.slot)
        if exports and RANK == 0:
            d.export(hf=exports[0], like=exports[1])
        weights = b"".join(t.detach().numpy().tobytes() for t in tensors)
        tell(
            "done", slot=d.metrics.slot, rounds=d.rounds, root=d.status().get("state_root"),
            peer=d.status().get("peer"), parts=parts,
            weights=hashlib.sha256(weights).hexdigest(),
        )


if __name__ == "__main__":
    main()
