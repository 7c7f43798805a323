"""A peer whose training loop is a library's: trainer, accelerate, lightning, titan, or none of
them (plain). A library that cannot be imported is a stand-in (../standins.py).

The argument is a JSON object of settings of DiLoCo, and of its own: kind. With WORLD_SIZE it is one
of several ranks, over gloo.
"""

import hashlib
import json
import os
import sys
import types

import torch

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import standins

LIGHTNING, ACCELERATE = standins.lightning(), standins.real("accelerate")
standins.install()

import p2pdiloco
from p2pdiloco.integrations import accelerate_loop, hf_trainer, lightning_callback
from p2pdiloco.integrations.torchtitan_trainer import DiLoCoTrainer

START = 0.75
RANK = int(os.environ.get("RANK", 0))


def tell(kind, **fields):
    print(json.dumps({"is": kind, "rank": RANK, **fields}), flush=True)


class Net(torch.nn.Module):
    """It learns the mean of numbers, which are the data."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((5,), START))

    def forward(self, batch, labels=None):
        return (self.w - batch.mean()).square().sum()


class Fit((LIGHTNING or standins).LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, i):
        return self.net(batch)

    def configure_optimizers(self):
        return sgd(self.net)


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.01)


def numbers():
    return torch.utils.data.DataLoader(torch.arange(8.0) / 8, 2)


def plain(net, options):
    optimizer = sgd(net)
    with p2pdiloco.DiLoCo(net, optimizer, **options) as d:
        for batch in d.batches(numbers(), repeat=True):
            net(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
    return d


def trainer(net, options):
    args = types.SimpleNamespace(
        max_steps=10_000, gradient_accumulation_steps=2, logging_steps=1,
        load_best_model_at_end=False,
    )
    with hf_trainer.DiLoCoCallback(**options) as callback:
        data = torch.utils.data.DataLoader(
            torch.arange(8.0) / 8, 2, sampler=callback.sampler(range(8), 8)
        )
        standins.Trainer(net, args, data, [callback], sgd(net)).train()
    return callback.diloco


def accelerate(net, options):
    if ACCELERATE is None:
        accelerator = standins.Accelerator(gradient_accumulation_steps=2)
    else:
        accelerator = ACCELERATE.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = accelerator.prepare(net, sgd(net))
    with accelerate_loop.diloco(accelerator, model, optimizer, **options) as d:
        data = torch.arange(8.0) / 8
        sampler = accelerate_loop.samples(accelerator, d, data, 2)
        loader = accelerator.prepare(torch.utils.data.DataLoader(data, 2, sampler=sampler))
        for batch in d.batches(loader, repeat=True):
            with accelerator.accumulate(model):
                accelerator.backward(model(batch))
                optimizer.step()
                optimizer.zero_grad()
    return d


def lightning(net, options):
    callback = lightning_callback.DiLoCoCallback(part="net", tokens=len, **options)
    if LIGHTNING is None:
        fit = standins.LightningTrainer([callback], accumulate_grad_batches=2)
    else:
        fit = LIGHTNING.Trainer(
            accelerator="cpu", devices=1, max_epochs=-1, accumulate_grad_batches=2, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            callbacks=[callback],
        )
    fit.fit(Fit(net), numbers())
    return callback.diloco


def titan(net, options):
    class Peer(DiLoCoTrainer, standins.TitanTrainer):
        diloco_options = options

    peer = Peer(net, sgd(net), [(batch, batch) for batch in numbers()], 10_000)
    peer.train()
    return peer._run.diloco


def main():
    options = json.loads(sys.argv[1])
    kind = options.pop("kind")
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not (kind == "accelerate" and ACCELERATE):
        torch.distributed.init_process_group("gloo")
    net = Net()
    d = globals()[kind](net, options)
    moved = net.w[0].item() != START
    weights = hashlib.sha256(net.w.detach().numpy().tobytes()).hexdigest()
    real = {"accelerate": ACCELERATE, "lightning": LIGHTNING}.get(kind) is not None
    tell("done", slot=d.metrics.slot, rounds=d.rounds, weights=weights, moved=moved, real=real)


if __name__ == "__main__":
    main()
