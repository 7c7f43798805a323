"""A run for torchtitan's Trainer.

    class Peer(DiLoCoTrainer, torchtitan.train.Trainer):
        diloco_options = dict(run="my-run", sync_every=500)
"""

from __future__ import annotations

from typing import Any, Iterator

from ..errors import Invalid
from .adapter import Adapter


class DiLoCoTrainer:
    """Goes before torchtitan's Trainer in a class's bases, and takes part in a run while it trains.
    diloco_options: those of DiLoCo, and keep=True. The weight of a contribution is its tokens.

    Data, tensor and context parallelism share the model in a way that its DTensors show. With
    pipeline parallelism a rank has a part of the model's tensors only, which is refused.
    """

    diloco_options: dict[str, Any] = {}
    _run: Adapter
    # torchtitan's
    model_parts: list[Any]
    optimizers: Any
    lr_schedulers: Any
    parallel_dims: Any

    def train(self) -> None:
        self._run = Adapter(**self.diloco_options)
        try:
            super().train()  # type: ignore[misc]
        except BaseException as err:
            self._run.fail(type(err))
            raise
        self._run.end()

    def should_continue_training(self) -> bool:
        """Asked before every step, and so for the first time when a checkpoint was loaded."""
        if self._run.diloco is None:
            if len(self.model_parts) > 1 or self.parallel_dims.pp_enabled:
                raise Invalid(
                    "pipeline parallelism gives a rank a part of the model's tensors only: use "
                    "data, tensor or context parallelism within this machine"
                )
            self._run.begin(
                self.model_parts[0], self.optimizers, keep=[self.optimizers, self.lr_schedulers],
                schedulers=getattr(self.lr_schedulers, "schedulers", [self.lr_schedulers]),
            )
        more: bool = super().should_continue_training()  # type: ignore[misc]
        return more and not self._run.finished

    def batch_generator(self, data_iterable: Any) -> Iterator[Any]:
        """Counts the tokens before the step that they are for. Ranks that share their data, as in
        tensor parallelism, count a part of them each."""
        batches = super().batch_generator(data_iterable)  # type: ignore[misc]
        for inputs, labels in batches:
            if self._run.diloco is not None:
                sharing = self.parallel_dims.non_data_parallel_size
                self._run.diloco.tokens(labels.numel() // sharing)
            yield inputs, labels
