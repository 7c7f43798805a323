"""A PyTorch model, or this rank's part of one, in the memory that a node shares.

The anchor is float32 on all peers. A tensor of bfloat16 or float16 cannot hold it, so what it
contributes is

    shown(start) - tensor now

where shown is what loading start makes of the tensor: what inner steps did not change contributes
exactly nothing, and no copy of the anchor is kept. The same serves float64, and a running variance,
which is loaded with 0 as lower bound.

What lies on a GPU is copied beside the processor: the node's memory is page-locked, each copy is
only queued, and there is one wait, for all of them, before the node is told (pagelock.py).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union, cast

import torch

from . import pieces
from .attach import wire
from .attach.memory import Memory
from .attach.wire import Box, Flat, Piece, TensorSpec
from .errors import Invalid, NotFinite
from .hf import Names
from .pagelock import PORTABLE, READ_ONLY, PageLock

_DTYPES = {
    torch.float32: wire.F32, torch.float64: wire.F32, torch.bfloat16: wire.BF16,
    torch.float16: wire.F16,
}
_SHARDED = "FSDPModule"  # the class that fully_shard adds to a module
_NOT_NEGATIVE = "running_var"  # batch norm's


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a tensor that this rank holds, where the tensor does not say so itself.

    value: the live elements. shape: of the whole tensor. first: the first of value's elements, in
    row-major order, for a flat shard (ZeRO, FSDP1); or offset: its place in each dimension, for a
    box (tensor parallel).
    """

    value: torch.Tensor
    shape: Sequence[int]
    first: Optional[int] = None
    offset: Optional[Sequence[int]] = None

    def piece(self, tensor: int, name: str) -> Piece:
        if (self.first is None) == (self.offset is None):
            raise Invalid(f"{name}: give a part's first element, or its offset in each dimension")
        if self.first is not None:
            return Flat(tensor, self.first, self.value.numel())
        return Box(tensor, tuple(self.offset or ()), tuple(self.value.shape))


Model = Union[
    torch.nn.Module,
    Mapping[str, Union[torch.Tensor, Part]],
    Iterable[tuple[str, Union[torch.Tensor, Part]]],
]


def named(model: Model, *, buffers: bool = False, frozen: bool = False) -> list[tuple[str, Any]]:
    """Names and tensors that make up the layout: parameters in the order of named_parameters, each
    once under its first name, then floating-point buffers of the state dict, if asked for."""
    if not isinstance(model, torch.nn.Module):
        found = list(model.items() if isinstance(model, Mapping) else model)
    else:
        found = [(n, p) for n, p in model.named_parameters() if p.requires_grad or frozen]
        if buffers:
            # state_dict leaves out what some wrappers put into the names.
            kept = {pieces.plain_name(n) for n in model.state_dict()}
            found += [
                (n, b) for n, b in model.named_buffers()
                if b.is_floating_point() and pieces.plain_name(n) in kept
            ]
    chosen: dict[int, tuple[str, Any]] = {}
    for name, value in found:
        inner = value.value if isinstance(value, Part) else value
        _check(name, inner)
        if not isinstance(value, Part) and value.numel() == 0:
            continue  # of a Part, another rank may hold elements
        chosen.setdefault(id(inner), (pieces.plain_name(name), value))
    if not chosen:
        raise Invalid("the model has no parameter to train: requires_grad is False on all of them")
    names = collections.Counter(name for name, _ in chosen.values())
    twice = [name for name, n in names.items() if n > 1]
    if twice:
        raise Invalid(f"two tensors are named {min(twice)}: rename one of them")
    return list(chosen.values())


def _check(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor) or value.dtype not in _DTYPES:
        kind = getattr(value, "dtype", type(value).__name__)
        raise Invalid(f"{name} is of {kind}: float32, float64, bfloat16 or float16 is needed")
    if torch.nn.parameter.is_lazy(value):
        raise Invalid(
            f"{name} has no shape yet (as in LazyLinear): run a batch through the model before"
        )
    if value.is_meta:
        raise Invalid(f"{name} is on the meta device and has no values: give it some before")
    if any(n > 1 and step == 0 for n, step in zip(value.shape, value.stride())):
        raise Invalid(f"elements of {name} share their memory (expand): clone() it before")


class _Live:
    """One piece of the model on this rank."""

    def __init__(self, name: str, value: torch.Tensor, shape: Sequence[int], piece: Piece,
                 runs: pieces.Runs) -> None:
        self.name, self.value, self.runs = name, value, runs
        self.floor = name.rpartition(".")[2] == _NOT_NEGATIVE
        self.writes = False
        self._piece, self._shape = piece, tuple(shape)
        self._first = 0
        self._elements = 1
        for n in self._shape:
            self._elements *= n
        self.detach()

    def attach(self, start: torch.Tensor, local: torch.Tensor, first: int, writes: bool) -> None:
        """Takes this piece's place in the vectors. first: of its tensor in the flat vector."""
        self.start, self.local = (self._place(v, first) for v in (start, local))
        self.writes = writes

    def detach(self) -> None:
        """Lets go of the vectors."""
        self.start = self.local = torch.empty(0)
        self.start_locked = self.local_locked = False  # whether their pages are

    def _place(self, vector: torch.Tensor, first: int) -> torch.Tensor:
        """A view of the piece in a vector, in the piece's own shape."""
        if isinstance(self._piece, Flat):
            at = first + self._piece.first
            return vector[at : at + self._piece.count].view(self.value.shape)
        view = vector[first : first + self._elements].view(self._shape)
        for d, (offset, extent) in enumerate(zip(self._piece.offset, self._piece.extent)):
            view = view.narrow(d, offset, extent)
        return view.view(self.value.shape) if view.dim() != self.value.dim() else view

    def span(self, vector: torch.Tensor) -> tuple[int, int]:
        """The addresses in a vector from this piece's first element to its last one."""
        at, runs = vector.data_ptr(), self.runs
        return at + 4 * runs.starts[0], at + 4 * (runs.starts[-1] + runs.length)

    def shown(self, start: torch.Tensor) -> torch.Tensor:
        """What loading start makes of it. All devices round to the nearest even number."""
        if self.floor:
            start = start.clamp(min=0)
        return start.to(self.value.dtype)

    def take(self, live: torch.Tensor, start: torch.Tensor) -> None:
        """Loads a part of start into the same part of the live tensor."""
        if not _beside(self.start_locked, start):
            live.copy_(self.shown(start))
            return
        live.copy_(start, non_blocking=True)  # PyTorch converts on the device then
        if self.floor:
            live.clamp_(min=0)

    def give(self, local: torch.Tensor, out: torch.Tensor) -> None:
        """Writes a part of what is exported to the same part of local."""
        local.copy_(out, non_blocking=_beside(self.local_locked, local))

    def load(self) -> None:
        self.take(self.value, self.start)

    def export(self) -> None:
        """Writes start - live to local."""
        here = self.value.device.type == "cpu" and not self.value.is_cuda
        if here and self.value.dtype == torch.float32:
            # one pass, no copy between
            torch.sub(self.shown(self.start), self.value.detach(), out=self.local)
            return
        self.give(self.local, self.local_value(gradient=True))

    def local_value(self, gradient: bool) -> torch.Tensor:
        """What is exported: the live values, or what the inner steps took away from start."""
        return self.value_of(self.value.detach(), self.start, gradient)

    def value_of(self, live: torch.Tensor, start: torch.Tensor, gradient: bool) -> torch.Tensor:
        """The same of a part of the live tensor and the same part of start."""
        now = live.to(torch.float32)
        if not gradient:
            return now
        if not now.is_cuda:  # of another kind of GPU, it is copied here first
            return self.shown(start).to(torch.float32) - now.cpu()
        there = torch.empty_like(now, memory_format=torch.contiguous_format)
        if _beside(self.start_locked, start):
            there.copy_(start, non_blocking=True)
            there = self.shown(there).to(torch.float32)
        else:
            there.copy_(self.shown(start))
        return there.sub_(now)


def _beside(locked: bool, vector: torch.Tensor) -> bool:
    """Whether a part of a shared vector can be copied beside the processor. Where it is in several
    pieces, PyTorch copies by way of ordinary memory, which has to be waited for."""
    return locked and vector.is_contiguous()


class _Guard:
    """A call before load_state_dict. A copy of the module has one that does nothing."""

    __slots__ = ("_call",)

    def __init__(self, call: Optional[Callable[[], None]] = None) -> None:
        self._call = call

    def __call__(self, *_: Any) -> None:
        if self._call is not None:
            self._call()

    def __reduce__(self) -> Any:
        return _Guard, ()


class TorchHeld:
    """The pieces that this rank holds, as session.Held."""

    def __init__(
        self, model: Model, *, buffers: bool = False, frozen: bool = False,
        evaluate: Optional[Callable[[], float]] = None,
        restore: Optional[Callable[[str, int, int], None]] = None,
    ) -> None:
        self._module = model if isinstance(model, torch.nn.Module) else None
        self._evaluate, self._restore = evaluate, restore
        self.saves = restore is not None
        self.tensors: list[TensorSpec] = []
        self.pieces: list[Piece] = []
        self.live: list[_Live] = []
        self._firsts: list[int] = []
        self._devices: set[torch.device] = set()
        self._pages: Optional[PageLock] = None  # of a model that is on a GPU
        self.page_locked: Optional[bool] = None
        """Whether the node's vectors are page-locked; None without a GPU, and while detached."""
        self._start = self._local = torch.empty(0)
        at = 0
        self._given = named(model, buffers=buffers, frozen=frozen)
        for name, value in self._given:
            spec, piece, live = _describe(len(self.tensors), name, value)
            self.tensors.append(spec)
            self.pieces.append(piece)
            self._firsts.append(at)
            runs = pieces.runs_of(piece, self.tensors, self._firsts)
            self.live.append(_Live(name, live, spec.shape, piece, runs))
            if live.is_cuda:
                self._devices.add(live.device)
                self._pages = self._pages or PageLock(live.device)
            at += spec.elements
        self.elements = at
        self._kinds = [_kind(live.value) for live in self.live]

    # session.Held.

    def attach(self, memory: Memory, writes: Sequence[bool]) -> None:
        if memory.elements != self.elements or len(writes) != len(self.live):
            raise Invalid(
                f"the node shares {memory.elements} elements and {len(writes)} pieces, this model "
                f"has {self.elements} and {len(self.live)}"
            )
        self._start, self._local = _view(memory.start), _view(memory.local)
        for live, piece, write in zip(self.live, self.pieces, writes):
            live.attach(self._start, self._local, self._firsts[piece.tensor], write)
        if self._pages is not None:
            self._lock(self._pages)

    def _lock(self, pages: PageLock) -> None:
        """Page-locks what this rank copies from and to its GPUs, and no more of the vectors."""
        there = [live for live in self.live if live.value.is_cuda and live.runs.elements]
        start = pages.lock([live.span(self._start) for live in there], PORTABLE | READ_ONLY)
        written = [live.span(self._local) for live in there if live.writes]
        local = pages.lock(written, PORTABLE)
        for live in there:
            live.start_locked, live.local_locked = start, local
        self.page_locked = start and local

    def detach(self) -> None:
        if self._pages is not None:
            self._pages.unlock()  # no copy is under way: load and export wait for theirs
        self.page_locked = None
        self._start = self._local = torch.empty(0)
        for live in self.live:
            live.detach()

    def fill(self) -> None:
        for live in self.live:
            bad = (~torch.isfinite(live.value.detach())).flatten().nonzero()
            if len(bad):
                raise NotFinite(
                    f"{live.name} has {live.value.detach().flatten()[bad[0]].item()} in element "
                    f"{int(bad[0])}: no run is founded from such a model"
                )
        self.export(0, self.elements, gradient=False)

    @torch.no_grad()
    def load(self, begin: int, end: int) -> None:
        self.check()
        try:
            for live in self.live:
                if live.runs.outside(begin, end):
                    continue
                if live.runs.inside(begin, end):
                    live.load()
                else:
                    self._load_part(live, begin, end)
        finally:  # nothing is under way in the shared memory once this has failed, either
            self._synchronize()

    def _load_part(self, live: _Live, begin: int, end: int) -> None:
        flat = live.value.detach().reshape(-1)
        for at, within, n in live.runs.cut(begin, end):
            live.take(flat[within : within + n], self._start[at : at + n])
        if flat.data_ptr() != live.value.data_ptr():  # reshape made a copy
            live.value.copy_(flat.view(live.value.shape))

    @torch.no_grad()
    def export(self, begin: int, end: int, gradient: bool) -> None:
        self.check()
        try:
            for live in self.live:
                if live.writes and not live.runs.outside(begin, end):
                    self._export_part(live, begin, end, gradient)
        finally:
            self._synchronize()

    def _export_part(self, live: _Live, begin: int, end: int, gradient: bool) -> None:
        whole = live.runs.inside(begin, end)
        if whole and gradient:
            live.export()
            return
        if whole:
            live.give(live.local, live.local_value(gradient))
            return
        cuts = list(live.runs.cut(begin, end))
        if len(cuts) == 1:  # the range alone is computed, as of a fragment that ends in a tensor
            at, within, n = cuts[0]
            now = live.value.detach().reshape(-1)[within : within + n]
            out = live.value_of(now, self._start[at : at + n], gradient)
            live.give(self._local[at : at + n], out)
            return
        flat = live.local_value(gradient).reshape(-1)
        for at, within, n in cuts:
            live.give(self._local[at : at + n], flat[within : within + n])

    def evaluate(self) -> Optional[float]:
        return None if self._evaluate is None else float(self._evaluate())

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """The model as it is looked at: in eval mode, without gradients; then as it was."""
        modules = list(self._module.modules()) if self._module is not None else []
        before = [m.training for m in modules]
        for m in modules:
            m.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            for m, training in zip(modules, before):
                m.training = training

    def restore(self, folder: str, rank: int, world: int) -> bool:
        if self._restore is None:
            return False
        self._restore(folder, rank, world)
        return True

    @torch.no_grad()
    def copy(self) -> list[torch.Tensor]:
        self.check()
        return [live.value.detach().clone() for live in self.live]

    @torch.no_grad()
    def put(self, copy: Any) -> None:
        for live, value in zip(self.live, copy):
            live.value.copy_(value)

    # What the module has beside it.

    def names(self) -> Names:
        """All names of the layout's tensors, which tied ones have, and those of the others."""
        names: dict[int, list[str]] = {}
        modules = self._module.named_modules(remove_duplicate=False) if self._module else ()
        for prefix, module in modules:
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                if value is not None:
                    full = pieces.plain_name(f"{prefix}.{name}" if prefix else name)
                    names.setdefault(id(value), []).append(full)
        mine = {name: names.pop(id(value), [name]) for name, value in self._given}
        return Names(mine, frozenset(n for others in names.values() for n in others))

    def own_statistics(self) -> list[str]:
        """Running statistics of the module that are not in the layout."""
        given = {id(value) for _, value in self._given}
        return [
            name for name, b in (self._module.named_buffers() if self._module else ())
            if name.endswith(("running_mean", "running_var")) and id(b) not in given
        ]

    def guard(self, refuse: Callable[[], None]) -> list[Any]:
        """Has refuse called before load_state_dict changes a part of the module, until the handles
        that it returns are removed."""
        modules = self._module.modules() if self._module is not None else ()
        return [m._register_load_state_dict_pre_hook(_Guard(refuse)) for m in modules]

    # Checks.

    def check(self) -> None:
        """Looks where the model's elements lie now: FSDP2 moves a rank's shards to other memory in
        the first forward pass. Refuses a model whose tensors were replaced, or one with more
        parameters to train than before: they would be trained by this peer alone, without notice.
        """
        if self._module is not None:
            _reshard(self._module)
            self._check_module(self._module)
        for (name, value), live, kind in zip(self._given, self.live, self._kinds):
            live.value = _elements(value)
            if _kind(live.value) != kind:
                raise Invalid(
                    f"{name} was {kind}, and is {_kind(live.value)}: change it before (since this "
                    "DiLoCo was made)"
                )

    def _check_module(self, module: torch.nn.Module) -> None:
        have = {id(t) for t in (*module.parameters(), *module.buffers())}
        for name, value in self._given:
            if id(value) not in have:
                raise Invalid(
                    f"{name} is another tensor now: write to it in place, or assign to its data "
                    "(since this DiLoCo was made)"
                )
        given = {id(value) for _, value in self._given}
        for name, p in module.named_parameters():
            if p.requires_grad and id(p) not in given and p.numel():
                raise Invalid(
                    f"{name} is to be trained now, and was not when this DiLoCo was made: this "
                    "peer alone would train it. With frozen=True such parameters are part of the "
                    "model from the beginning; those of new layers must be there before. To train "
                    "it here alone, give the shared tensors by name, in the model's place"
                )

    def check_optimizers(self, optimizers: Sequence[Any]) -> None:
        """Refuses optimizers that step copies of the model's tensors, as in float32, in their
        place. Some step nothing of the model's because others do, as in hooks of the backward
        pass."""
        groups = [g for one in optimizers for g in getattr(one, "param_groups", ())]
        stepped = [p for group in groups for p in group["params"]]
        given = {id(value) for _, value in self._given}
        memory = {_memory(live.value) for live in self.live}
        if not stepped or any(id(p) in given for p in stepped):
            return
        if any(_memory(_elements(p)) in memory for p in stepped):
            return
        sizes = {live.value.numel() for live in self.live if live.value.numel() > 1}
        if any(p.numel() in sizes for p in stepped):
            raise Invalid(
                "the optimizer steps none of the model's tensors, so what it trains would not be "
                "shared: give the model that it steps. If it keeps float32 copies of the "
                "parameters, give those, by name"
            )

    def _synchronize(self) -> None:
        """Waits for the copies that were queued, after which the node may use the memory."""
        for device in self._devices:
            stream: Any = torch.cuda.current_stream(device)
            stream.synchronize()


def _describe(number: int, name: str, value: Any) -> tuple[TensorSpec, Piece, torch.Tensor]:
    """What the layout says of a tensor, the piece of it that is here, and where it lives."""
    if isinstance(value, Part):
        spec = TensorSpec(name, tuple(value.shape), _DTYPES[value.value.dtype])
        return spec, value.piece(number, name), value.value
    spec = TensorSpec(name, tuple(value.shape), _DTYPES[value.dtype])
    if _is_dtensor(value):
        return spec, pieces.of_dtensor(number, name, value), _elements(value)
    return spec, pieces.whole(number, value.shape), value


def _is_dtensor(value: Any) -> bool:
    return hasattr(value, "placements") and hasattr(value, "to_local")


def _elements(value: Any) -> torch.Tensor:
    """The elements of a tensor of the model that are here, where they lie now."""
    if isinstance(value, Part):
        return value.value
    if not _is_dtensor(value):
        return cast(torch.Tensor, value)
    with torch.no_grad():  # the elements themselves, not a result computed from them
        return cast(torch.Tensor, value.to_local())


def _memory(value: torch.Tensor) -> Any:
    """The memory that a tensor or a view of it lies in; an object of its own, if none is known."""
    try:
        storage = getattr(value, "untyped_storage", value.storage)()
        return storage.data_ptr() or object()
    except (RuntimeError, NotImplementedError):
        return object()


def _reshard(module: torch.nn.Module) -> None:
    """Has FSDP2 show its shards again, which loading writes to. A forward pass without a backward
    pass leaves whole parameters in the outermost module."""
    for m in module.modules():
        if any(kind.__name__ == _SHARDED for kind in type(m).__mro__):
            cast(Any, m).reshard()


def _kind(value: torch.Tensor) -> str:
    return f"{tuple(value.shape)}, {value.dtype}"


def _view(vector: Any) -> torch.Tensor:
    """A tensor over shared memory. start is read-only, which a tensor cannot be: nothing here
    writes to it, and the system would not let it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(vector, dtype=torch.float32)
