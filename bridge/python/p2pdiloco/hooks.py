"""Calls before and after every step of an optimizer."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Mapping, Optional


def innermost(optimizer: Any) -> Any:
    """The optimizer inside wrappers that call it only when gradients were accumulated, like
    Accelerate's: its steps are the inner steps."""
    seen = set()
    while id(optimizer) not in seen:
        seen.add(id(optimizer))
        inner = vars(optimizer).get("optimizer") if hasattr(optimizer, "__dict__") else None
        if not callable(getattr(inner, "step", None)):
            break
        optimizer = inner
    return optimizer


def skipped(optimizer: Any, options: Mapping[str, Any]) -> bool:
    """Whether a step, called with these options, changed nothing because its gradients overflowed.

    A GradScaler does not call most optimizers then. Those that unscale gradients themselves, like
    fused AdamW, it always calls: since PyTorch 2 it leaves the number of overflows in the
    optimizer's found_inf for the time of the call, and before it gives itself as grad_scaler.
    """
    found = getattr(optimizer, "found_inf", None)
    if found is not None:
        return bool(found)
    scaler = options.get("grad_scaler")
    if scaler is None:
        return False
    try:
        return any(bool(found) for found in scaler._found_inf_per_device(optimizer).values())
    except (AttributeError, KeyError):  # no GradScaler of torch.cuda.amp
        return False


class StepHook:
    """Calls `before` when optimizer.step is called, and `after` when it has returned and has
    changed something (skipped), until it is removed.

    PyTorch 2 has register_step_post_hook. Without it, and for optimizers not of torch.optim, the
    instance's step is replaced by a method like it: it passes everything on (a closure, what a
    GradScaler gives), has its signature and attributes, and learning rate schedulers may have
    wrapped it before and may wrap it afterwards.
    """

    def __init__(
        self, optimizer: Any, after: Optional[Callable[[], None]],
        before: Optional[Callable[[], None]] = None,
    ) -> None:
        self._optimizer, self._after, self._first = optimizer, after, before
        self._handles: list[Any] = []
        self._active = True
        if not callable(getattr(optimizer, "step", None)):
            kind = type(optimizer).__name__
            raise TypeError(f"{kind} is no optimizer, and no list of them: it has no step()")
        try:
            if before is not None:
                begin = optimizer.register_step_pre_hook(lambda _, args, options: self._begin())
                self._handles.append(begin)
            self._handles.append(
                optimizer.register_step_post_hook(lambda _, args, options: self._call(options))
            )
        except AttributeError:  # a wrapper may inherit the method and never set it up
            self._wrap()

    def _begin(self) -> None:
        if self._active and self._first is not None:
            self._first()

    def _call(self, options: Mapping[str, Any]) -> None:
        if self._active and self._after is not None and not skipped(self._optimizer, options):
            self._after()

    def _wrap(self) -> None:
        inner = self._optimizer.step
        self._before = self._optimizer.__dict__.get("step")

        @functools.wraps(getattr(inner, "__func__", inner))
        def step(_: Any, *args: Any, **kwargs: Any) -> Any:
            self._begin()
            result = inner(*args, **kwargs)
            self._call(kwargs)
            return result

        # A bound method: that is what schedulers expect to find and wrap.
        self._step = types.MethodType(step, self._optimizer)
        self._optimizer.step = self._step

    def remove(self) -> None:
        """Restores the optimizer's own step. If other code has wrapped ours meanwhile, ours stays
        and does nothing any more."""
        self._active = False
        for handle in self._handles:
            handle.remove()
        if not self._handles and self._optimizer.__dict__.get("step") is self._step:
            if self._before is None:
                del self._optimizer.step
            else:
                self._optimizer.step = self._before
