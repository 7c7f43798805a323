"""Where a piece's elements lie in the flat vector, and which piece a DTensor's local part is.

A piece's elements, in row-major order, are runs of neighbours in the flat vector: all of equal
length, one for each place in its leading dimensions.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any, Iterator, Sequence

from .attach.wire import Box, Flat, Piece, TensorSpec
from .errors import Invalid

_WRAPPERS = re.compile(
    r"(?:(?<=^)|(?<=\.))"
    r"(?:module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)


def plain_name(name: str) -> str:
    """A parameter's name without what DDP, torch.compile, FSDP and activation checkpointing put in
    front of its parts."""
    while True:
        shorter = _WRAPPERS.sub("", name)
        if shorter == name:
            return name
        name = shorter


@dataclasses.dataclass(frozen=True)
class Runs:
    """A piece's place in the flat vector: runs of length elements, beginning at starts."""

    starts: Sequence[int]
    length: int

    @property
    def elements(self) -> int:
        return len(self.starts) * self.length

    def inside(self, begin: int, end: int) -> bool:
        """Whether all of it lies in [begin, end)."""
        if not self.elements:
            return True
        return begin <= self.starts[0] and self.starts[-1] + self.length <= end

    def outside(self, begin: int, end: int) -> bool:
        """Whether nothing of it lies in [begin, end)."""
        if not self.elements:
            return True
        return self.starts[-1] + self.length <= begin or end <= self.starts[0]

    def cut(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """What lies in [begin, end): place in the flat vector, place in the piece, length."""
        for k, start in enumerate(self.starts):
            low, high = max(start, begin), min(start + self.length, end)
            if low < high:
                yield low, k * self.length + low - start, high - low


def runs_of(piece: Piece, tensors: Sequence[TensorSpec], firsts: Sequence[int]) -> Runs:
    """A piece's runs. firsts: each tensor's first element in the flat vector."""
    base, shape = firsts[piece.tensor], tensors[piece.tensor].shape
    if isinstance(piece, Flat):
        if piece.first + piece.count > tensors[piece.tensor].elements:
            raise Invalid(
                f"{tensors[piece.tensor].name}: elements {piece.first} to "
                f"{piece.first + piece.count} of {tensors[piece.tensor].elements}"
            )
        return Runs([base + piece.first], piece.count)
    if any(o + e > n for o, e, n in zip(piece.offset, piece.extent, shape)) or not (
        len(piece.offset) == len(piece.extent) == len(shape)
    ):
        raise Invalid(
            f"{tensors[piece.tensor].name}{list(shape)}: a part at {list(piece.offset)} of "
            f"{list(piece.extent)} is not inside"
        )
    return _box_runs(base, shape, piece)


def _box_runs(base: int, shape: Sequence[int], box: Box) -> Runs:
    if 0 in box.extent:
        return Runs([], 0)
    strides, n = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        strides[d], n = n, n * shape[d]
    inner, length = len(shape), 1  # dimensions from inner on are one run
    while inner > 0:
        inner -= 1
        length *= box.extent[inner]
        if box.extent[inner] != shape[inner]:
            break
    first = base + sum(o * s for o, s in zip(box.offset, strides))
    if inner == 0:
        return Runs([first], length)
    steps = [[i * strides[d] for i in range(box.extent[d])] for d in range(inner)]
    return Runs([first + sum(at) for at in itertools.product(*steps)], length)


def whole(tensor: int, shape: Sequence[int]) -> Box:
    """All of a tensor: what every rank of DDP holds."""
    return Box(tensor, (0,) * len(shape), tuple(shape))


def of_dtensor(tensor: int, name: str, value: Any) -> Box:
    """The part of a DTensor that this rank holds, from its placements: Shard(dim) cuts as
    torch.chunk does, in the order of _cuts, and Replicate leaves it whole."""
    offset, extent = [0] * len(value.shape), list(value.shape)
    place = value.device_mesh.get_coordinate()
    if place is None:
        raise Invalid(f"{name}: this rank is not part of the tensor's mesh")
    for mesh_dim, dim in _cuts(name, value):
        size = value.device_mesh.size(mesh_dim)
        chunk = -(-extent[dim] // size)
        low = min(chunk * place[mesh_dim], extent[dim])
        offset[dim] += low
        extent[dim] = min(low + chunk, extent[dim]) - low
    box = Box(tensor, tuple(offset), tuple(extent))
    held = tuple(value.to_local().shape)
    if held != box.extent:
        raise Invalid(
            f"{name}: this rank holds {list(held)}, and its placements mean {list(box.extent)}: "
            "give its parts as Part()"
        )
    return box


def _cuts(name: str, value: Any) -> list[tuple[int, int]]:
    """The mesh dimensions that cut a DTensor, each with the dimension that it cuts, in the order of
    the cuts. That is the mesh's order, but a _StridedShard (FSDP2 over tensor parallelism) cuts
    what the next Shard of the same dimension has left; split_factor is how many parts that makes.
    """
    cuts: list[tuple[int, int]] = []
    waiting: dict[int, list[tuple[int, Any]]] = {}
    for mesh_dim, placement in enumerate(value.placements):
        kind = type(placement).__name__
        if kind == "Replicate":
            continue
        if kind not in ("Shard", "_StridedShard"):
            raise Invalid(
                f"{name} is {kind} on mesh dimension {mesh_dim}, and only Shard and Replicate have "
                "values of their own: redistribute it, or give this rank's parts as Part()"
            )
        dim = placement.dim % len(value.shape)
        if kind == "_StridedShard":
            waiting.setdefault(dim, []).append((mesh_dim, placement))
            continue
        cuts.append((mesh_dim, dim))
        parts = value.device_mesh.size(mesh_dim)
        for strided, p in reversed(waiting.pop(dim, [])):
            if p.split_factor != parts:
                raise Invalid(_strided(name, p.split_factor, strided))
            cuts.append((strided, dim))
            parts *= value.device_mesh.size(strided)
    for (strided, p), *_ in waiting.values():
        raise Invalid(_strided(name, p.split_factor, strided))
    return cuts


def _strided(name: str, factor: int, mesh_dim: int) -> str:
    return (
        f"{name} is cut in strides (split_factor {factor}) on mesh dimension {mesh_dim}, which the "
        "mesh dimensions behind it do not explain: give this rank's parts as Part()"
    )
