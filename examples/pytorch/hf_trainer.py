#!/usr/bin/env python3
"""Trains a small GPT-2 with the Trainer of Hugging Face transformers, as a peer of a run.

    python3 hf_trainer.py --run gpt2 --rounds 20 --sync-every 50                   # one process
    torchrun --nproc_per_node 2 hf_trainer.py --run gpt2 --rounds 20 --sync-every 50

Needs transformers and accelerate. Nothing is fetched: the model begins with random weights, and the
text is Python's own library.
"""

import argparse

import torch
from train_gpt import Windows, read
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from p2pdiloco.integrations.hf_trainer import DiLoCoCallback

CONTEXT, BATCH, ACCUMULATE = 64, 8, 4


class Examples(Windows):
    """What GPT2LMHeadModel takes; it shifts the labels itself."""

    def __getitem__(self, i):
        inputs, _ = super().__getitem__(i)
        return {"input_ids": inputs, "labels": inputs}


class PeerTrainer(Trainer):
    """A Trainer with samples that no other peer has. Accelerate divides them among the ranks."""

    def __init__(self, callback, **options):
        super().__init__(callbacks=[callback], **options)
        self.peer = callback

    def get_train_dataloader(self):
        step = BATCH * ACCUMULATE * self.args.world_size
        return self.accelerator.prepare(torch.utils.data.DataLoader(
            self.train_dataset, BATCH, sampler=self.peer.sampler(self.train_dataset, step),
            collate_fn=self.data_collator, drop_last=True,
        ))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", help="left out: P2PDILOCO_RUN, else it trains alone")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sync-every", type=int, default=50)
    args = parser.parse_args()
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=128, n_layer=2, n_head=4,
        bos_token_id=None, eos_token_id=None,
    ))
    training = TrainingArguments(
        "hf-trainer-out", per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATE, learning_rate=1e-3,
        # The schedule ends with the run; whoever joins late begins where the others are in it.
        max_steps=args.rounds * args.sync_every, warmup_steps=20, lr_scheduler_type="cosine",
        logging_steps=args.sync_every,
        save_steps=args.sync_every,  # after a round: the model that all peers agreed on
        report_to=[],
    )
    options = dict(rounds=args.rounds, sync_every=args.sync_every) if args.run else {}
    with DiLoCoCallback(
        args.run, keep=True, tokens_per_step=BATCH * ACCUMULATE * CONTEXT, **options
    ) as callback:
        trainer = PeerTrainer(
            callback, model=model, args=training,
            train_dataset=Examples(read(None, ".py"), CONTEXT),
        )
        trainer.train()
    trainer.save_model()  # the run's last one
    print(f"{callback.diloco.rounds} rounds, loss {callback.diloco.metrics.loss}")


if __name__ == "__main__":
    main()
