#!/usr/bin/env python3
"""Trains the small GPT with PyTorch Lightning, as a peer of a run.

    python3 lightning_module.py --run tinygpt
    python3 lightning_module.py --run tinygpt --devices 2              # DDP: still one peer

Needs lightning (or pytorch-lightning). The run's other settings are taken from the environment:
P2PDILOCO_ROUNDS=20 and so on.
"""

import argparse

import torch
from gpt import GPT, Config
from train_gpt import Windows, read

from p2pdiloco.integrations.lightning_callback import DiLoCoCallback

try:
    import lightning.pytorch as pl
except ModuleNotFoundError:
    import pytorch_lightning as pl

BATCH, ACCUMULATE = 8, 4


class Module(pl.LightningModule):
    def __init__(self, callback, config):
        super().__init__()
        self.callback, self.gpt = callback, GPT(config)

    def training_step(self, batch, batch_idx):
        loss = self.gpt(*batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        schedule = self.callback.schedule(optimizer, "cosine", warmup=0.02)  # by the run's time
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Text(pl.LightningDataModule):
    """Samples that no other peer has. They are divided among the ranks here, not by Lightning."""

    def __init__(self, callback, context):
        super().__init__()
        self.callback, self.windows = callback, Windows(read(None, ".py"), context)

    def train_dataloader(self):
        step = BATCH * ACCUMULATE * self.trainer.world_size
        sampler = self.callback.sampler(self.windows, step, shard=True)
        return torch.utils.data.DataLoader(self.windows, BATCH, sampler=sampler, drop_last=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", help="left out: P2PDILOCO_RUN, else it trains alone, 500 steps")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--accelerator", default="auto")
    args = parser.parse_args()
    config = Config()
    # The other scripts here have this GPT without a module around it: part makes the names equal.
    callback = DiLoCoCallback(
        args.run, part="gpt", keep=True, tokens=lambda batch: batch[0].numel()
    )
    trainer = pl.Trainer(
        accelerator=args.accelerator, devices=args.devices, max_epochs=-1,
        max_steps=-1 if args.run else 500, accumulate_grad_batches=ACCUMULATE,
        use_distributed_sampler=False, gradient_clip_val=1.0, callbacks=[callback], logger=False,
    )
    trainer.fit(Module(callback, config), Text(callback, config.context))
    trainer.save_checkpoint("lightning-module.ckpt")  # with the run's last model
    print(f"{callback.diloco.rounds} rounds, loss {callback.diloco.metrics.loss}")


if __name__ == "__main__":
    main()
