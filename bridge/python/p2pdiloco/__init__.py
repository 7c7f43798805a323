"""Train one model with PyTorch, or anything else, on machines that only talk now and then.

    with p2pdiloco.DiLoCo(model, optimizer, run="tinygpt", bootstrap=[...], sync_every=500) as d:
        for batch in d.batches(data):
            loss = model(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(d.metrics)

DiLoCo is for PyTorch models, on one GPU or several. Flat with Arrays is for numpy, or for a vector
of your own. The node that talks to the other machines is a process of its own (attach).

    diloco      DiLoCo             loop        a trainer's part in a run
    flat        Flat               hooks       a call after each step of an optimizer
    torchmodel  a PyTorch model    data        which data is a peer's own
    pieces      parts of tensors   metrics     numbers that a script prints
    box         ranks of a box     attach      the conversation with the node
    private     a rank's own state settings    which run, and how the node is started
    pagelock    memory that a GPU copies by itself

Errors are subclasses of Error. Neither torch nor numpy is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .arrays import Arrays
from .attach.events import Event
from .errors import (
    Busy,
    Closed,
    Ended,
    Error,
    Forked,
    Invalid,
    Lost,
    Missed,
    NodeGone,
    NotFinite,
)
from .flat import Flat
from .metrics import Metrics

if TYPE_CHECKING:
    from .diloco import DiLoCo
    from .muon import Muon
    from .torchmodel import Part

__version__ = "0.1.0"

__all__ = [
    "Arrays",
    "Busy",
    "Closed",
    "DiLoCo",
    "Ended",
    "Error",
    "Event",
    "Flat",
    "Forked",
    "Invalid",
    "Lost",
    "Metrics",
    "Missed",
    "Muon",
    "NodeGone",
    "NotFinite",
    "Part",
    "found",
]


def found(model: Any, optimizer: Any = None, run: Optional[str] = None, **options: Any) -> DiLoCo:
    """A DiLoCo that founds its run if no peer of it answers, also where bootstrap addresses are
    given. Its invite() gives a ticket for others."""
    diloco: DiLoCo = __getattr__("DiLoCo")(model, optimizer, run, found=True, **options)
    return diloco


def __getattr__(name: str) -> Any:
    if name not in ("DiLoCo", "Muon", "Part"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import diloco, muon, torchmodel
    except ModuleNotFoundError as err:
        if err.name != "torch":
            raise
        raise ImportError(
            f"p2pdiloco.{name} needs PyTorch, which is not installed here. p2pdiloco.Flat and "
            "p2pdiloco.Arrays work without it"
        ) from err
    return {"DiLoCo": diloco.DiLoCo, "Muon": muon.Muon, "Part": torchmodel.Part}[name]
