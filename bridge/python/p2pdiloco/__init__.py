"""Train one model with PyTorch, or anything else, on machines that only talk now and then.

    with p2pdiloco.DiLoCo(model, optimizer, run="tinygpt", bootstrap=[...], sync_every=500) as d:
        for batch in data:
            loss = model(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(d.metrics)

DiLoCo is for PyTorch models. Node with Arrays is for numpy, or for a vector of your own.
Errors are subclasses of Error. Neither torch nor numpy is imported before it is needed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

from .arrays import Arrays
from .errors import (
    BranchEnded,
    Busy,
    Closed,
    Ended,
    Error,
    Forked,
    Invalid,
    LibraryNotFound,
    Missed,
    NotFinite,
    NotYet,
)
from .library import load as _load
from .metrics import Metrics
from .node import Event, Node

if TYPE_CHECKING:
    from .diloco import DiLoCo

__version__ = "0.1.0"

__all__ = [
    "Arrays",
    "BranchEnded",
    "Busy",
    "Closed",
    "DiLoCo",
    "Ended",
    "Error",
    "Event",
    "Forked",
    "Invalid",
    "LibraryNotFound",
    "Metrics",
    "Missed",
    "Node",
    "NotFinite",
    "NotYet",
    "found",
    "library_version",
]


def library_version() -> str:
    """The version of the C library, its protocol and its arithmetic."""
    return _load().version()


def found(model: Any, optimizer: Any = None, run: Optional[str] = None, **options: Any) -> DiLoCo:
    """A DiLoCo that founds its run if no peer of it answers, also where bootstrap addresses are
    given. Its invite() gives a ticket for others."""
    diloco: DiLoCo = __getattr__("DiLoCo")(model, optimizer, run, found=True, **options)
    return diloco


def _attaches() -> bool:
    """Whether DiLoCo is the one that attaches to a node: p2pdiloco join RUN -- COMMAND has started
    this process, or the node's program is known or in this package, as a wheel has it."""
    if any(os.environ.get(f"P2PDILOCO_{name}") for name in ("ATTACH", "BINARY")):
        return True
    return os.path.isfile(os.path.join(os.path.dirname(__file__), "bin", "p2pdiloco"))


def __getattr__(name: str) -> Any:
    if name != "DiLoCo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if _attaches():
            from .attach.trainer import DiLoCo as Attached

            return Attached
        from .diloco import DiLoCo
    except ModuleNotFoundError as err:
        if err.name != "torch":
            raise
        raise ImportError(
            "p2pdiloco.DiLoCo needs PyTorch, which is not installed here. p2pdiloco.Node and "
            "p2pdiloco.Arrays work without it"
        ) from err
    return DiLoCo
