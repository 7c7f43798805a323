"""A PyTorch model as one flat float32 vector in host memory, and back.

Tensors of float32 go through unchanged. Of a tensor of bfloat16 or float16 the anchor has more
digits than the model can hold, and outer steps are often smaller than one of the model's. So the
anchor is kept beside it, in float32, and

    local = anchor + (tensor now - tensor as it was loaded)

is what counts as the local parameters: an element that inner steps did not change contributes
exactly nothing, and no outer step is lost in rounding. The same serves buffers that are loaded with
a bound (a running variance is never negative, though an outer step with momentum may pass 0).
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Iterable, Iterator, Mapping, Union

import torch

from .errors import Invalid
from .settings import Tensor

Model = Union[torch.nn.Module, Mapping[str, torch.Tensor], Iterable[tuple[str, torch.Tensor]]]
"""A module; or named tensors, of which these and no others are trained, in this order."""

_ALLOWED = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_NOT_NEGATIVE = "running_var"  # batch norm's


def choose(model: Model, *, buffers: bool, frozen: bool) -> list[tuple[str, torch.Tensor]]:
    """Names and tensors that make up the layout: parameters in the order of named_parameters, each
    once, then floating-point buffers of the state dict, if asked for. Empty ones are left out."""
    if not isinstance(model, torch.nn.Module):
        named = list(model.items() if isinstance(model, Mapping) else model)
    else:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad or frozen]
        if buffers:
            kept = model.state_dict().keys()
            named += [
                (n, b) for n, b in model.named_buffers() if b.is_floating_point() and n in kept
            ]
    chosen: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in named:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _ALLOWED:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise Invalid(f"{name} is of {kind}: float32, float64, bfloat16 or float16 is needed")
        if tensor.is_meta:
            raise Invalid(f"{name} is on the meta device and has no values: give it some before")
        if any(n > 1 and step == 0 for n, step in zip(tensor.shape, tensor.stride())):
            raise Invalid(f"elements of {name} share their memory (expand): clone() it before")
        if tensor.numel() > 0:
            # torch.compile wraps modules; its peers without it have the same layout.
            chosen.setdefault(id(tensor), (name.replace("_orig_mod.", ""), tensor))
    if not chosen:
        raise Invalid("the model has no parameter to train: requires_grad is False on all of them")
    return list(chosen.values())


@dataclasses.dataclass(frozen=True)
class _Part:
    """One tensor of the model."""

    tensor: torch.Tensor
    flat: torch.Tensor  # its place in the vector, with its shape
    kept: Union[torch.Tensor, None]  # its anchor, where the tensor cannot hold it
    floor: bool  # loaded with 0 as lower bound

    def shown(self, anchor: torch.Tensor) -> torch.Tensor:
        """The tensor's value after an anchor was loaded. It is the same on all devices, because the
        CPU converts it."""
        if self.floor:
            anchor = anchor.clamp(min=0)
        return anchor.to(self.tensor.dtype)


class FlatTensors:
    """Named tensors and the vector of all their elements, which is allocated once."""

    def __init__(self, named: list[tuple[str, torch.Tensor]], model: Any = None) -> None:
        self._module = model if isinstance(model, torch.nn.Module) else None
        self._kinds = [(name, t.shape, t.dtype) for name, t in named]
        self.layout: list[Tensor] = [(name, tuple(tensor.shape)) for name, tensor in named]
        self._devices = {tensor.device for _, tensor in named if tensor.is_cuda}
        inexact = [_is_inexact(name, tensor) for name, tensor in named]
        sizes = [tensor.numel() for _, tensor in named]
        self.vector = torch.empty(sum(sizes), dtype=torch.float32, pin_memory=bool(self._devices))
        """(D), float32, on the processor; pinned if the model is on a GPU."""
        self.kept = torch.zeros(sum(n for n, i in zip(sizes, inexact) if i), dtype=torch.float32)
        """The anchor of those tensors that cannot hold it."""
        self._parts = list(self._cut(named, inexact))

    def _cut(self, named: list[tuple[str, torch.Tensor]], inexact: list[bool]) -> Iterator[_Part]:
        at = kept_at = 0
        for (name, tensor), has_kept in zip(named, inexact):
            n, kept = tensor.numel(), None
            if has_kept:
                kept = self.kept[kept_at : kept_at + n].view(tensor.shape)
                kept_at += n
            flat = self.vector[at : at + n].view(tensor.shape)
            yield _Part(tensor, flat, kept, name.rpartition(".")[2] == _NOT_NEGATIVE)
            at += n

    @property
    def buffer(self) -> Any:
        """The vector with the buffer protocol, without a copy."""
        kind = ctypes.c_float * self.vector.numel()
        return kind.from_address(self.vector.data_ptr())

    @torch.no_grad()
    def initial(self) -> None:
        """Writes the tensors as they are to the vector, as a founder's initial parameters."""
        for part in self._parts:
            part.flat.copy_(part.tensor, non_blocking=part.tensor.is_cuda)
        self._synchronize()

    @torch.no_grad()
    def gather(self) -> None:
        """Writes the local parameters to the vector. It raises Invalid if the model has others
        now."""
        self._check()
        self.initial()
        for part in self._parts:
            if part.kept is not None:
                part.flat.sub_(part.shown(part.kept)).add_(part.kept)

    @torch.no_grad()
    def load(self) -> None:
        """Writes the anchor, which is in the vector, to the tensors, in place."""
        self.adopt()
        for part in self._parts:
            part.tensor.copy_(part.shown(part.flat), non_blocking=part.tensor.is_cuda)
        self._synchronize()

    @torch.no_grad()
    def adopt(self) -> None:
        """Takes the vector as the anchor that the tensors started from, and leaves the tensors."""
        for part in self._parts:
            if part.kept is not None:
                part.kept.copy_(part.flat)

    def _check(self) -> None:
        """Refuses a model whose tensors were replaced: it would train alone without notice."""
        module = self._module
        have = module and {id(t) for t in (*module.parameters(), *module.buffers())}
        for part, (name, shape, dtype) in zip(self._parts, self._kinds):
            if have is not None and id(part.tensor) not in have:
                why = "is another tensor now: write to it in place, or assign to its data"
            elif (part.tensor.shape, part.tensor.dtype) != (shape, dtype):
                now = f"{tuple(part.tensor.shape)}, {part.tensor.dtype}"
                why = f"was {tuple(shape)}, {dtype}, and is {now}: change it before"
            else:
                continue
            raise Invalid(f"{name} {why} (since this DiLoCo was made)")

    def _synchronize(self) -> None:
        """Waits for the copies, after which the host may use the vector again."""
        for device in self._devices:
            stream: Any = torch.cuda.current_stream(device)
            stream.synchronize()


def _is_inexact(name: str, tensor: torch.Tensor) -> bool:
    half = tensor.dtype in (torch.bfloat16, torch.float16)
    return half or name.rpartition(".")[2] == _NOT_NEGATIVE
