"""A run for the Trainer of PyTorch Lightning.

    Trainer(callbacks=[DiLoCoCallback("my-run", sync_every=500)], max_epochs=-1).fit(module, data)
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from ..errors import Invalid
from ..schedule import Schedule
from .adapter import Adapter, without_loss

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:  # the older name
    from pytorch_lightning import Callback


class DiLoCoCallback(Callback, Adapter):  # type: ignore[misc]
    """Takes part in a run while a Trainer fits. The options are those of DiLoCo, and:

    part: the name of the submodule that is the run's model, where others train it without the
        LightningModule around it; its tensors' names must be the same on all peers.
    tokens: the weight of a batch, for example lambda batch: batch[0].numel().
    keep: whether optimizers and schedulers go on where they were after a restart of the process.
    """

    def __init__(
        self, run: Optional[str] = None, *, part: str = "",
        tokens: Optional[Callable[[Any], int]] = None, keep: bool = False, **options: Any,
    ) -> None:
        Adapter.__init__(self, run, keep=keep, **options)
        self._part, self._tokens = part, tokens
        self._logged = 0  # rounds that a logger has the figures of

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.num_nodes > 1:
            raise Invalid("num_nodes: one machine is one peer: start the script on each by itself")
        if trainer.min_epochs or trainer.min_steps:
            raise Invalid("min_epochs and min_steps go on after the run's end: leave them out")
        configs = trainer.lr_scheduler_configs
        left = trainer.max_steps - trainer.global_step
        self.begin(
            pl_module.get_submodule(self._part), trainer.optimizers, wrapped=trainer.model,
            keep=[*trainer.optimizers, *(config.scheduler for config in configs)],
            planned=left if trainer.max_steps >= 0 else None, whole=trainer.max_steps,
            schedulers=[
                c.scheduler for c in configs
                if isinstance(c.scheduler, Schedule) or (c.interval, c.frequency) == ("step", 1)
            ],
        )

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, *rest: Any) -> None:
        if self.diloco is not None and self._tokens is not None:
            self.diloco.tokens(self._tokens(batch))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *rest: Any
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if self.diloco is not None and loss is not None:
            # Lightning has divided it.
            self.diloco.report(loss * trainer.accumulate_grad_batches)
        if self.diloco is not None and self._logged != self.diloco.rounds:
            self._logged = self.diloco.rounds
            for logger in trainer.loggers:
                logger.log_metrics(without_loss(self.diloco.figures), step=trainer.global_step)
        if self.finished:
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.fail(type(exception))
