"""What a rank keeps of its own, with the anchor that it trains from: its optimizer, and what else
has a state.

A round ends inside the caller's optimizer.step(), after which a scheduler may have its step to do.
So what is kept is copied, or put back, when the next round's first step begins (whole). The copy is
in the memory of this machine, and a thread writes it beside the steps.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import os
import threading
from typing import Any, Callable, ContextManager, Iterator, Optional, Sequence

import torch

from .errors import Invalid

_log = logging.getLogger("p2pdiloco")

_SMALL = 16 << 20  # bytes of states that the first step waits for, where a disk is busy, too
_PATIENCE = 10.0, 0.25  # seconds that it waits for small ones, and for others


class Private:
    """Objects with state_dict and load_state_dict, in one file a rank."""

    def __init__(
        self, kept: Sequence[Any], world: int,
        within: Callable[[], ContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """within: in what the states are taken back, where they may hold the model's."""
        for one in kept:
            if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                raise Invalid(
                    f"keep holds a {type(one).__name__}: what has state_dict and load_state_dict "
                    "can be kept"
                )
        self._kept, self._world, self._within = list(kept), world, within
        self._path = self._file = ""  # of the file that is due, and of the round's; "": none is
        self._quick = False  # the last one was written at once
        self._epochs: list[int] = []  # of schedulers, when the inner step was counted
        self._ahead: list[int] = []  # their steps after that, in the caller's part of the last one
        self._random = torch.get_rng_state()  # when it became due
        self._back: Optional[dict[str, Any]] = None  # what was read, and is not taken back yet
        self._writer: Optional[threading.Thread] = None

    def begin(self, path: str, random: bool) -> None:
        """A round begins, whose first state goes to the file at path; "": to none. random: whether
        the random state is taken back, where another one is."""
        if self._back is not None and random:
            torch.set_rng_state(self._back["random"])
        self._path = self._file = path
        self._random = torch.get_rng_state()

    def stepped(self) -> None:
        """An inner step is counted, in the midst of the caller's."""
        self._epochs = [_epoch(one) for one in self._kept]

    def end(self) -> None:
        """The round's last step is counted, and its slot may be agreed before the next step begins:
        what is quick to write is on the disk before that. What schedulers lack, they do when it is
        taken back."""
        if self._file and self._quick and not self._path:
            folder, name = os.path.split(self._file)
            os.makedirs(os.path.join(folder, "next"), exist_ok=True)
            self._random = torch.get_rng_state()
            self._save(os.path.join(folder, "next", name), self._ahead)

    def whole(self) -> bool:
        """Takes back what restore has read, and saves what is due. It says whether something was
        taken back."""
        if self._epochs:
            before, self._epochs = self._epochs, []
            self._ahead = [_epoch(one) - n for one, n in zip(self._kept, before)]
        back, self._back = self._back, None
        if back is not None:
            self._take_back(back)
        if self._path:
            path, self._path = self._path, ""
            self._save(path)
        return back is not None

    # Saving.

    def _save(self, path: str, ahead: Sequence[int] = ()) -> None:
        """Has a copy of the states written beside the steps, or writes the states themselves if
        there is no memory for one."""
        self.wait()
        try:
            states = [one.state_dict() for one in self._kept]
            size = _size(states)
            beside = 2 * size < _free()
            saved = {
                "states": _copy(states) if beside else states, "random": self._random,
                "ahead": list(ahead),
            }
        except Exception as err:
            return _failed(path, err)
        self._writer = threading.Thread(target=_write, args=(path, saved))
        self._writer.start()
        self.wait(_PATIENCE[size > _SMALL] if beside else None)
        self._quick = beside and not self._writer.is_alive()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until what is being written is on the disk."""
        if self._writer is not None:
            self._writer.join(timeout)

    # Taking back.

    def restore(self, folder: str, rank: int, world: int) -> None:
        """Reads the states that world ranks have saved. They are taken back when all ranks have
        read theirs; without a folder nothing is."""
        self._back = None
        if not folder:
            return
        self.wait()
        if world != self._world:
            raise Invalid(f"{world} ranks have saved their states, and now there are {self._world}")
        # It holds what this user's own trainer wrote, not only tensors.
        whole = "weights_only" in inspect.signature(torch.load).parameters
        saved = torch.load(
            os.path.join(folder, f"rank-{rank}"), map_location="cpu",
            **({"weights_only": False} if whole else {}),
        )
        if len(saved["states"]) != len(self._kept):
            raise Invalid(
                f"the saved state has {len(saved['states'])} objects and keep= lists "
                f"{len(self._kept)}: give the same list as before"
            )
        self._back = saved

    def _take_back(self, saved: dict[str, Any]) -> None:
        """Takes all states back, or none. A state that does not fit is no reason to end: it would
        not fit at the next start either."""
        before = copy.deepcopy([one.state_dict() for one in self._kept])
        try:
            self._load(saved["states"])
            for one, more in zip(self._kept, saved.get("ahead", ())):
                for _ in range(more):
                    one.step()
        except Exception as err:
            self._load(before)
            _log.warning(
                "what was saved does not fit what keep has (%s): the optimizer begins anew", err
            )

    def _load(self, states: Sequence[Any]) -> None:
        with self._within():
            for one, state in zip(self._kept, states):
                one.load_state_dict(state)


def _epoch(one: Any) -> int:
    """How many steps a scheduler has done; 0 for what is none."""
    return int(one.last_epoch) if hasattr(one, "last_epoch") and hasattr(one, "step") else 0


def _write(path: str, saved: dict[str, Any]) -> None:
    """Writes states to a file, which is there when it is on the disk."""
    try:
        for i, value in enumerate(_tensors(saved["states"])):
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise Invalid(f"tensor {i} of {tuple(value.shape)} holds NaN or infinity")
        with open(f"{path}.new", "wb") as f:
            torch.save(saved, f)
            f.flush()
            os.fsync(f.fileno())
        os.rename(f"{path}.new", path)
    except Exception as err:
        _failed(path, err)


def _failed(path: str, err: Exception) -> None:
    """Says so, also to the node: by an empty file."""
    _log.warning(
        "what keep has was not saved: %s. After a crash it goes on as it was in an earlier round",
        err, exc_info=not isinstance(err, (Invalid, OSError)),
    )
    try:
        if os.path.exists(f"{path}.new"):
            os.unlink(f"{path}.new")
        open(path, "wb").close()
    except OSError:
        pass  # the node sees that the file is not there


def _copy(value: Any) -> Any:
    """A copy, with the tensors of devices in the memory of this machine."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        sharded = hasattr(value, "placements")
        return value.clone() if sharded else value.to("cpu", copy=True)
    if type(value) is dict:
        return {key: _copy(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copy(one) for one in value)
    return copy.deepcopy(value)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value.to_local() if hasattr(value, "to_local") else value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def _size(value: Any) -> int:
    return sum(one.numel() * one.element_size() for one in _tensors(value))


def _free() -> float:
    """Bytes of memory that programs may still take."""
    try:
        with open("/proc/meminfo") as f:
            fields = dict(line.split(":", 1) for line in f)
        return 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return float("inf")


def drop_not_finite(optimizers: Sequence[Any]) -> None:
    """Has optimizers forget what they hold of parameters, where that is not finite: a step with it
    gives NaN for ever."""
    dropped = 0
    for one in optimizers:
        states = getattr(one, "state", {})
        for parameter in list(states):
            held = _tensors(states[parameter])
            if not all(bool(torch.isfinite(t).all()) for t in held if t.is_floating_point()):
                del states[parameter]
                dropped += 1
    if dropped:
        _log.warning(
            "the optimizer's state of %d tensors held NaN or infinity, and begins anew. With "
            "keep=[optimizer, …] it would go back to the beginning of the round", dropped,
        )
