"""A run for a loop over Hugging Face Accelerate.

    model, optimizer = accelerator.prepare(model, optimizer)
    with diloco(accelerator, model, optimizer, "my-run", sync_every=500) as d:
        loader = accelerator.prepare(DataLoader(data, 8, sampler=samples(accelerator, d, data, 8)))
        for batch in d.batches(loader, repeat=True):
            with accelerator.accumulate(model):
                accelerator.backward(model(batch))
                optimizer.step()
                optimizer.zero_grad()
"""

from __future__ import annotations

from typing import Any, Optional, Sized

from ..data import PartSampler
from ..diloco import DiLoCo
from ..errors import Invalid
from .adapter import add_group


def diloco(
    accelerator: Any, model: Any, optimizer: Any, run: Optional[str] = None, **options: Any
) -> DiLoCo:
    """A DiLoCo for a model and an optimizer that accelerator.prepare has returned. Steps count when
    Accelerate lets them happen: one of gradient_accumulation_steps, and none that a GradScaler
    leaves out. The options are those of DiLoCo."""
    if not hasattr(optimizer, "step_was_skipped"):
        raise Invalid(
            f"{type(optimizer).__name__} is not what accelerator.prepare returns: prepare model "
            "and optimizer, and give both as they come back"
        )
    add_group(options, model, optimizer)
    named = options.get("mesh") is not None or options["process_group"] is not None
    if not named and accelerator.num_processes > 1 and not _sharded(model):
        raise Invalid(
            f"Accelerate has {accelerator.num_processes} processes and PyTorch no process group: "
            "start them with accelerate launch or torchrun"
        )
    return DiLoCo(model, optimizer, run, **options)


def samples(accelerator: Any, d: DiLoCo, data: Sized, batch_size: int) -> PartSampler:
    """Samples that no other peer has, as a sampler for a DataLoader that Accelerate prepares, and
    thereby divides among the ranks. batch_size: of the DataLoader, on one rank."""
    step = batch_size * accelerator.num_processes * accelerator.gradient_accumulation_steps
    return d.sampler(data, step, shard=False)


def _sharded(model: Any) -> bool:
    return any(hasattr(p, "placements") for p in model.parameters())
