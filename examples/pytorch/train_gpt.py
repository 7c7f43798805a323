#!/usr/bin/env python3
"""Trains a small byte-level GPT, alone or together with other peers.

    python3 train_gpt.py --run tinygpt --start-peers 2     # in two terminals
    python3 train_gpt.py --steps 500                       # alone

Settings of the run and of this peer that have no option here are taken from the environment:
P2PDILOCO_BOOTSTRAP, P2PDILOCO_DATA_DIR and so on. See README.md.
"""

import argparse
import itertools
import pathlib
import sysconfig

import torch
from gpt import GPT, Config

import p2pdiloco

KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    run = parser.add_argument_group("the run (left out: the run's, or the program's default)")
    run.add_argument("--run", help="name: peers that give the same name train together")
    run.add_argument("--bootstrap", action="append", help="address of a peer to start from")
    run.add_argument("--sync-every", type=int, help="optimizer steps between rounds")
    run.add_argument("--rounds", type=int)
    run.add_argument("--start-peers", type=int, help="peers that the first round waits for")
    run.add_argument("--preset", choices=("lan", "wan"), help="timing (default wan)")
    run.add_argument("--data-dir", help="started with it again, this is the same peer")
    own = parser.add_argument_group("this peer")
    own.add_argument("--data", help="a text file, or a folder (default: Python's own library)")
    own.add_argument("--suffix", default=".py", help="of the files in the folder")
    own.add_argument("--steps", type=int, help="stop after so many (default: when the run ends)")
    own.add_argument("--save", help="file for the model at the end, a PyTorch state dict")
    own.add_argument("--batch", type=int, default=32)
    own.add_argument("--lr", type=float, default=8e-3)
    own.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    own.add_argument("--dtype", default="float32", choices=KINDS)
    sizes = parser.add_argument_group("the model (the same on all peers)")
    for name, value in vars(Config()).items():
        sizes.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()


def read(path, suffix):
    """The text as bytes, (N)."""
    root = pathlib.Path(path or sysconfig.get_paths()["stdlib"])
    files = [root] if root.is_file() else sorted(p for p in root.glob(f"*{suffix}") if p.is_file())
    text = b"".join(p.read_bytes() for p in files)
    if len(text) < 10_000:
        raise SystemExit(f"{root}: too little text (files that end in {suffix})")
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


class Windows(torch.utils.data.Dataset):
    """A text cut into windows: (inputs, targets), both (context)."""

    def __init__(self, text, context):
        self.text, self.context = text, context

    def __len__(self):
        return (len(self.text) - 1) // self.context

    def __getitem__(self, i):
        window = self.text[i * self.context : (i + 1) * self.context + 1].long()
        return window[:-1], window[1:]


def forever(loader):
    while True:
        yield from loader


def adamw(model, lr):
    """AdamW, with weight decay for matrices alone."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=lr, betas=(0.9, 0.99),
    )


def main():
    args = arguments()
    config = Config(args.layers, args.width, args.heads, args.context)
    model = GPT(config).to(args.device, KINDS[args.dtype])
    optimizer = adamw(model, args.lr)
    with p2pdiloco.DiLoCo(
        model, optimizer, args.run, bootstrap=args.bootstrap, sync_every=args.sync_every,
        rounds=args.rounds, start_peers=args.start_peers, preset=args.preset,
        data_dir=args.data_dir, tokens_per_step=args.batch * args.context,
    ) as d:
        windows = Windows(read(args.data, args.suffix), args.context)
        sampler = d.sampler(windows, args.batch)  # what nobody else trains on
        batches = forever(torch.utils.data.DataLoader(windows, args.batch, sampler=sampler))
        steps = args.steps or (None if d.enabled else 500)
        # By the run's time: a peer that joins late has the learning rate of the others.
        d.schedule(optimizer, "cosine", warmup=0.02, min_lr_rate=0.1, total_steps=steps or 0)
        rounds, loss = 0, None
        for inputs, targets in itertools.islice(d.batches(batches), steps):
            loss = model(inputs.to(args.device), targets.to(args.device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            d.report(loss)
            optimizer.step()
            optimizer.zero_grad()
            if d.rounds > rounds:
                rounds = d.rounds
                print(d.metrics, flush=True)
        if d.finished:
            print("the run has ended: the next one needs another name")
        if args.save:
            torch.save(model.state_dict(), args.save)
        if loss is not None:
            print(f"loss {loss.item():.4f} in the last batch")
        if d.enabled:  # the hash of model and outer optimizer: at a slot, the same on all peers
            print("state root", d.status().get("state_root"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # it has left the run
