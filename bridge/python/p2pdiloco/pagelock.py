"""Page-locked memory, for copies from and to a GPU that the processor need not wait for.

The driver copies from and to ordinary memory through buffers of its own, piece by piece. Memory
whose pages are locked (registered with CUDA) is read and written by the GPU itself. What a node
shares was made by the node, so it cannot be allocated that way, and is registered where it is
mapped.
"""

from __future__ import annotations

import logging
import mmap
from typing import Any, Iterable

import torch

_log = logging.getLogger("p2pdiloco")

# Flags of cudaHostRegister.
PORTABLE = 1  # locked for all devices of this process
READ_ONLY = 8  # mapped for reading alone; some drivers refuse that

_NEAR = 1 << 20  # bytes


def spans(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The addresses [begin, end) of whole pages that hold the parts of a vector, in order. No page
    is in two of them, because CUDA locks a page once. Parts that are near each other are locked
    with what lies between them."""
    found: list[tuple[int, int]] = []
    page = mmap.PAGESIZE
    for begin, end in sorted(parts):
        low, high = begin // page * page, -(-end // page) * page
        if found and low <= found[-1][1] + _NEAR:
            low, last = found.pop()
            high = max(high, last)
        found.append((low, high))
    return found


class PageLock:
    """The pages that are locked for the GPUs of this process. device: one of these. CUDA would
    otherwise begin to use the first one, which may be another process's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._locked: list[int] = []  # where each registration begins
        self._said = False

    def lock(self, parts: Iterable[tuple[int, int]], flags: int) -> bool:
        """Locks the pages of parts of a vector, given as addresses [begin, end), and says whether
        it could. If it could not, none of them is locked."""
        before = len(self._locked)
        with self._current():
            for begin, end in spans(parts):
                error = int(_runtime().cudaHostRegister(begin, end - begin, flags))
                if error:
                    self._release(before)
                    self._failed(error)
                    return False
                self._locked.append(begin)
        return True

    def unlock(self) -> None:
        """Unlocks all pages, which must still be mapped, and of which no copy is under way."""
        if self._locked:
            with self._current():
                self._release(0)

    def _current(self) -> Any:
        return torch.cuda.device(self._device)

    def _release(self, keep: int) -> None:
        while len(self._locked) > keep:
            if int(_runtime().cudaHostUnregister(self._locked.pop())):
                self._clear()

    def _failed(self, error: int) -> None:
        self._clear()
        if not self._said:
            _log.warning(
                "a vector that the node shares cannot be page-locked (CUDA error %d): copies "
                "between it and the GPU are slower", error
            )
            self._said = True

    def _clear(self) -> None:
        """Takes the error that CUDA keeps of a call that has failed. PyTorch looks for one after
        each kernel, and would raise it out of the training loop."""
        try:
            torch.ones(1, device=self._device)
        except RuntimeError:
            pass


def _runtime() -> Any:
    runtime: Any = torch.cuda.cudart()
    return runtime
