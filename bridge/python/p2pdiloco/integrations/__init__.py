"""Runs for training libraries, so that their users need no training loop of their own.

    hf_trainer          a callback for the Trainer of Hugging Face transformers
    accelerate_loop     a loop over Hugging Face Accelerate
    lightning_callback  a callback for the Trainer of PyTorch Lightning
    torchtitan_trainer  a base class for torchtitan's Trainer
    adapter             what they have in common

A library is imported by its own module, and by no other one.
"""
