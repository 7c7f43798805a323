"""A peer whose model is one float32 vector in host memory: numpy, or Python alone."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, Callable, Iterable, Optional, Sequence

from . import trackers
from .attach.events import Event
from .attach.memory import Memory
from .attach.rendezvous import number, ranks_of
from .attach.wire import Piece, TensorSpec
from .errors import Invalid, NotFinite
from .loop import Loop
from .pieces import whole
from .settings import Tensor


class FlatHeld:
    """All of the model in one vector, as session.Held. params: the buffer protocol, float32, D."""

    def __init__(
        self, layout: Iterable[Tensor], params: Any, evaluate: Optional[Callable[[], float]] = None
    ) -> None:
        self.tensors = [TensorSpec(name, tuple(int(n) for n in shape)) for name, shape in layout]
        self.pieces: list[Piece] = [whole(i, t.shape) for i, t in enumerate(self.tensors)]
        self._evaluate = evaluate
        view = memoryview(params)
        if view.format != "f" or not view.c_contiguous or view.readonly:
            raise Invalid(
                f"params are of format {view.format}: writable, contiguous float32 is needed"
            )
        elements = sum(t.elements for t in self.tensors)
        if view.nbytes != 4 * elements:
            raise Invalid(f"params have {view.nbytes // 4} elements, the layout {elements}")
        self._live = view.cast("B").cast("f")
        self._start: Any = memoryview(b"")
        self._local: Any = memoryview(b"")
        self._writes: Sequence[bool] = ()

    def attach(self, memory: Memory, writes: Sequence[bool]) -> None:
        if memory.elements != len(self._live) or len(writes) != len(self.tensors):
            raise Invalid(
                f"the node shares {memory.elements} elements, params have {len(self._live)}"
            )
        self._start, self._local, self._writes = memory.start, memory.local, writes

    def detach(self) -> None:
        self._start = self._local = memoryview(b"")

    def fill(self) -> None:
        if not math.isfinite(sum(self._live)):
            raise NotFinite("params hold NaN or infinity: no run is founded from such a model")
        self.export(0, len(self._live), gradient=False)

    def load(self, begin: int, end: int) -> None:
        self._live[begin:end] = self._start[begin:end]

    def export(self, begin: int, end: int, gradient: bool) -> None:
        at = 0
        for tensor, writes in zip(self.tensors, self._writes):
            low, high = max(at, begin), min(at + tensor.elements, end)
            at += tensor.elements
            if writes and low < high and gradient:
                subtract(self._start[low:high], self._live[low:high], self._local[low:high])
            elif writes and low < high:
                self._local[low:high] = self._live[low:high]

    def evaluate(self) -> Optional[float]:
        return None if self._evaluate is None else float(self._evaluate())

    saves = False

    def restore(self, folder: str, rank: int, world: int) -> bool:
        return False

    def copy(self) -> bytes:
        return self._live.tobytes()

    def put(self, copy: Any) -> None:
        self._live[:] = memoryview(copy).cast("f")


def subtract(a: Any, b: Any, out: Any) -> None:
    """out = a - b in float32. Python subtracts in float64, which rounds to the same number."""
    try:
        import numpy
    except ImportError:
        for i in range(len(out)):
            out[i] = a[i] - b[i]
        return
    arrays: Any = [numpy.frombuffer(v, numpy.float32) for v in (a, b, out)]
    numpy.subtract(arrays[0], arrays[1], out=arrays[2])


def _world() -> int:
    """The ranks of this start: of PyTorch's process group, if this process is in one, else by the
    environment."""
    distributed: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return number(os.environ, "WORLD_SIZE", 1)


class Flat(Loop):
    """Takes part in a run with a float32 vector, for as long as its with block lasts.

        model = p2pdiloco.Arrays({"w": w, "b": b})
        with p2pdiloco.Flat(model.layout, model.vector, run="my-run") as f:
            while not f.finished:
                train(model["w"], model["b"])           # an inner step, in place
                f.step()

    layout: (name, shape) of each tensor, in the order in which they lie in params. All else is as
    in DiLoCo.
    """

    def __init__(
        self,
        layout: Iterable[Tensor],
        params: Any,
        run: Optional[str] = None,
        *,
        ticket: Optional[str] = None,
        sync_every: Optional[int] = None,
        tokens_per_step: int = 1,
        evaluate: Optional[Callable[[], float]] = None,
        on_event: Optional[Callable[[Event], None]] = None,
        tracker: trackers.Named = None,
        node_timeout: float = 600.0,
        leave_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        super().__init__(
            run, ticket=ticket, sync_every=sync_every, tokens_per_step=tokens_per_step,
            node_timeout=node_timeout, leave_timeout=leave_timeout, on_event=on_event,
            tracker=tracker, options=options,
        )
        if not self.enabled:
            return
        if _world() > 1:
            raise Invalid(
                f"this process is one of {_world()} ranks, and Flat is for one alone: "
                "each would train a model of its own. Use DiLoCo with DistributedDataParallel, or "
                "with Part"
            )
        self._ranks = ranks_of(os.environ, 0, 1)
        self._held = FlatHeld(layout, params, evaluate)
