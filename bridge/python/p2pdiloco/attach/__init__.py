"""The client of the attach protocol (docs/attach.md): a trainer's ranks and their machine's node.

The node is a process of its own. Its model lies in memory that the ranks map, and messages over
a Unix socket say who may read and write it when. Nothing here needs more than Python's standard
library; pieces.py and torchmodel.py know PyTorch.

    wire        messages and their bytes
    memory      the two mappings
    pieces      which parts of which tensors a rank holds
    session     one rank's conversation with the node
    rendezvous  where the node listens, and how it is started
    torchmodel  a PyTorch model as pieces
    events      what happened on the node
    status      what the node says of itself
    box         how the ranks share a model
    private     what a rank keeps of its own
    loop        a trainer's part in a run
    trainer     DiLoCo for a PyTorch loop
    flat        the same for one float32 vector
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .flat import Flat
    from .torchmodel import Part
    from .trainer import DiLoCo

__all__ = ["DiLoCo", "Flat", "Part"]


def __getattr__(name: str) -> Any:
    if name == "DiLoCo":
        from .trainer import DiLoCo

        return DiLoCo
    if name == "Flat":
        from .flat import Flat

        return Flat
    if name == "Part":
        from .torchmodel import Part

        return Part
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
