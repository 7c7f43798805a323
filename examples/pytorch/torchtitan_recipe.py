#!/usr/bin/env python3
"""Trains with torchtitan, as a peer of a run: one machine with any number of GPUs is one peer.

    torchrun --nproc_per_node 8 torchtitan_recipe.py --job.config_file llama3_8b.toml

Instead of `-m torchtitan.train`, with the same arguments. The run's settings are taken from the
environment: P2PDILOCO_TICKET (or _RUN), P2PDILOCO_INNER_STEPS and so on. Let training.steps
in the TOML file be rounds times inner steps, so that the schedule ends with the run.

This is for torchtitan 0.2 (main takes the class). Later ones build the class that owns the config:
give yours the nested Config that torchtitan's documentation of Configurable asks for.
"""

from torchtitan.train import Trainer, main

from p2pdiloco.integrations.torchtitan_trainer import DiLoCoTrainer


class Peer(DiLoCoTrainer, Trainer):
    diloco_options = dict(keep=True)


if __name__ == "__main__":
    main(Peer)
