"""A call after every step of an optimizer."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable


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


class StepHook:
    """Calls `after` when optimizer.step has returned, until it is removed.

    PyTorch 2 has register_step_post_hook. Without it, and for optimizers not of torch.optim, the
    instance's step is replaced by a method like it: it passes everything on (a closure, what a
    GradScaler gives), has its signature and attributes, and learning rate schedulers may have
    wrapped it before and may wrap it afterwards.
    """

    def __init__(self, optimizer: Any, after: Callable[[], None]) -> None:
        self._optimizer, self._after = optimizer, after
        self._handle: Any = None
        self._active = True
        if not callable(getattr(optimizer, "step", None)):
            kind = type(optimizer).__name__
            raise TypeError(f"{kind} is no optimizer, and no list of them: it has no step()")
        try:
            self._handle = optimizer.register_step_post_hook(lambda *_: self._call())
        except AttributeError:  # a wrapper may inherit the method and never set it up
            self._wrap()

    def _call(self) -> None:
        if self._active:
            self._after()

    def _wrap(self) -> None:
        inner = self._optimizer.step
        self._before = self._optimizer.__dict__.get("step")

        @functools.wraps(getattr(inner, "__func__", inner))
        def step(_: Any, *args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            self._call()
            return result

        # A bound method: that is what schedulers expect to find and wrap.
        self._step = types.MethodType(step, self._optimizer)
        self._optimizer.step = self._step

    def remove(self) -> None:
        """Restores the optimizer's own step. If other code has wrapped ours meanwhile, ours stays
        and does nothing any more."""
        self._active = False
        if self._handle is not None:
            self._handle.remove()
        elif self._optimizer.__dict__.get("step") is self._step:
            if self._before is None:
                del self._optimizer.step
            else:
                self._optimizer.step = self._before
