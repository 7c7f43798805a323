"""A run for the Trainer of Hugging Face transformers.

    with DiLoCoCallback("my-run", sync_every=500) as callback:
        Trainer(model, args, train_dataset=data, callbacks=[callback]).train()
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from ..errors import Invalid
from .adapter import Adapter, without_loss


class DiLoCoCallback(TrainerCallback, Adapter):  # type: ignore[misc]
    """Takes part in a run while a Trainer trains. The options are those of DiLoCo; keep=True keeps
    optimizer and scheduler over a restart of the process.

    The run's model is loaded when train() begins, after a checkpoint that train() resumes from:
    that checkpoint's optimizer goes on, its model is replaced, and the schedule is taken to where
    the run is. The Trainer stops with the run, and the model is then the run's last one. max_steps
    that are fewer end this peer's part before. The with block is for Ctrl-C, after which the peer
    leaves the run.
    """

    def __init__(self, run: Optional[str] = None, *, keep: bool = False, **options: Any) -> None:
        Adapter.__init__(self, run, keep=keep, **options)

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None,
        lr_scheduler: Any = None, **rest: Any,
    ) -> None:
        if getattr(args, "load_best_model_at_end", False):
            raise Invalid(
                "load_best_model_at_end puts a checkpoint of this peer in the place of the run's "
                "last model: leave it out"
            )
        self.begin(
            model, optimizer, keep=[one for one in (optimizer, lr_scheduler) if one is not None],
            planned=state.max_steps - state.global_step, whole=state.max_steps,
            schedulers=[lr_scheduler] if lr_scheduler is not None else [],
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        if self.finished:
            control.should_training_stop = True
        return control

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None,
        **rest: Any,
    ) -> None:
        """The Trainer tells its loss only here, the mean since it told it before. The newest
        round's figures go into the same line, for what shows it after this callback."""
        if self.diloco is not None and logs and "loss" in logs:
            self.diloco.report(logs["loss"])
            logs.update(without_loss(self.diloco.figures))

    def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.end()

    def __enter__(self) -> DiLoCoCallback:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *rest: object) -> None:
        if kind is not None:
            self.fail(kind)
