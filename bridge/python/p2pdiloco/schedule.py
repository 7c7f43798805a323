"""Learning rates that go by the time of the run, and not by the steps of one process."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Union

import torch
from torch.optim.lr_scheduler import _LRScheduler

from .errors import Invalid
from .hooks import innermost
from .loop import Loop

Shape = Union[str, Callable[[float], float]]

_SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 + 0.5 * math.cos(math.pi * share),
    "warmup_stable_decay": lambda share: min(1.0, 5 * (1.0 - share)),
}


class Schedule(_LRScheduler):
    """A scheduler of torch.optim whose rates follow from where the run is: see DiLoCo.schedule.

    DiLoCo sets the rates when it joins and after each counted step, and step() sets them again. So
    step() may be called or not, and by a library. Without a run step() counts, up to total_steps.
    """

    def __init__(
        self, optimizer: Any, shape: Shape = "cosine", *, warmup: float = 0,
        min_lr_rate: float = 0.0, total_steps: int = 0, of: Callable[[], Optional[Loop]],
    ) -> None:
        known = shape if callable(shape) else _SHAPES.get(shape)
        if known is None:
            raise Invalid(
                f"schedule {shape!r}: {', '.join(_SHAPES)} are there, or a function that gives the "
                "rate's factor for the share of the run that is over, from 0 to 1"
            )
        if warmup < 0 or not 0 <= min_lr_rate <= 1:
            raise Invalid("warmup is at least 0, and min_lr_rate from 0 to 1")
        self._shape, self._warmup, self._least = known, warmup, min_lr_rate
        self._alone, self._of = total_steps, of
        super().__init__(innermost(optimizer))

    def step(self, epoch: Any = None) -> None:
        self.last_epoch += 1
        self.update()

    def update(self) -> None:
        """Sets the rates to those of this moment of the run."""
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def get_lr(self) -> list[float]:  # type: ignore[override]
        d = self._of()
        if d is not None and d.total_steps:
            factor = self._factor(int(d.step), d.total_steps)
        else:
            factor = self._factor(self.last_epoch, self._alone)
        return [float(base) * factor for base in self.base_lrs]

    def _factor(self, step: int, total: int) -> float:
        warmup = self._warmup if self._warmup >= 1 else self._warmup * total
        if step < warmup:
            return (step + 1) / (warmup + 1)
        share = min(1.0, (step - warmup) / max(total - warmup, 1)) if total else 0.0
        return self._least + (1 - self._least) * self._shape(share)

    def state_dict(self) -> dict[str, Any]:
        return {"base_lrs": self.base_lrs, "last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the rates at the peak, and the count of a loop without a run. Where the run is says
        the run."""
        self.base_lrs, self.last_epoch = list(state_dict["base_lrs"]), state_dict["last_epoch"]
        self.update()
