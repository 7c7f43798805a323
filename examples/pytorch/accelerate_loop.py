#!/usr/bin/env python3
"""Trains the small GPT in a loop over Hugging Face Accelerate, as a peer of a run.

    python3 accelerate_loop.py --run tinygpt                           # one process
    accelerate launch --multi_gpu --num_processes 2 accelerate_loop.py --run tinygpt

Needs accelerate. The run's other settings are taken from the environment: P2PDILOCO_ROUNDS=20 and
so on.
"""

import argparse

import torch
from accelerate import Accelerator
from gpt import GPT, Config
from train_gpt import Windows, read

from p2pdiloco.integrations.accelerate_loop import diloco, samples

BATCH, ACCUMULATE = 8, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", help="left out: P2PDILOCO_RUN, else it trains alone")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    config = Config()
    accelerator = Accelerator(cpu=args.cpu, gradient_accumulation_steps=ACCUMULATE)
    model = GPT(config)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    windows = Windows(read(None, ".py"), config.context)
    with diloco(
        accelerator, model, optimizer, args.run, keep=[optimizer],
        tokens_per_step=BATCH * ACCUMULATE * config.context,
    ) as d:
        sampler = samples(accelerator, d, windows, BATCH)
        loader = torch.utils.data.DataLoader(windows, BATCH, sampler=sampler, drop_last=True)
        loader, rounds = accelerator.prepare(loader), 0
        d.schedule(optimizer, "cosine", warmup=0.02)
        for inputs, targets in d.batches(loader, repeat=True):
            with accelerator.accumulate(model):
                loss = model(inputs, targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                d.report(loss)
                optimizer.step()
                optimizer.zero_grad()
            if d.rounds > rounds:
                rounds = d.rounds
                accelerator.print(d.metrics)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            torch.save(accelerator.unwrap_model(model).state_dict(), "accelerate-loop.pt")


if __name__ == "__main__":
    main()
