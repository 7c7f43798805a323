"""The memory that a node shares with its ranks: two mappings of words and D float32."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from typing import Any

_LINE = 64  # bytes of a rank's own words


class Memory:
    """start, which the node writes, and local, which the ranks write; both are mapped, not copied.

    elements: D. offset, size: bytes, from SHARE. rank: whose line of words progress writes.
    """

    def __init__(
        self, start: int, local: int, *, elements: int, offset: int, size: int, rank: int
    ) -> None:
        if sys.byteorder != "little":
            raise OSError("the attach protocol needs a machine of little-endian byte order")
        self.elements, self._line = elements, _LINE * rank
        try:
            if offset % 8 or offset + 4 * elements > size or _LINE * (rank + 1) > offset:
                raise ValueError(f"{elements} elements at byte {offset} do not fit {size} bytes")
            self._start = mmap.mmap(start, size, mmap.MAP_SHARED, mmap.PROT_READ)
            self._local = mmap.mmap(local, size, mmap.MAP_SHARED)
        finally:
            os.close(start)
            os.close(local)
        end = offset + 4 * elements
        self.start: Any = memoryview(self._start)[offset:end].cast("f")
        """(D), float32, read-only."""
        self.local: Any = memoryview(self._local)[offset:end].cast("f")
        """(D), float32."""

    def progress(self, steps: int) -> None:
        """Says how many steps of the TRAIN are done. A rank that never says so counts as hung."""
        struct.pack_into("<Q", self._local, self._line, steps)

    def beat(self) -> int:
        """The node's beat: another number four times a second, for as long as the node lives."""
        (beat,) = struct.unpack_from("<Q", self._start, 0)
        return int(beat)

    def close(self) -> None:
        """Unmaps the memory, as soon as no array of the caller's lies in it."""
        self.start, self.local = memoryview(b""), memoryview(b"")
        for mapping in (self._start, self._local):
            try:
                mapping.close()
            except BufferError:  # a view of it is still in use: the collector unmaps it with that
                pass
