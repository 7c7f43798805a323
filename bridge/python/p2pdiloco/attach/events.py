"""Events of a node, from the file that it appends them to."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable, Optional

Event = dict[str, Any]
"""What happened on a node: "event" is its name, and docs/reference/events.md has the others."""


class Events:
    """Passes the events of a file to a function, from its end on."""

    def __init__(self, path: pathlib.Path, on_event: Callable[[Event], None]) -> None:
        self.path, self._on_event = path, on_event
        try:
            self._at = path.stat().st_size
        except FileNotFoundError:
            self._at = 0
        self._file: Optional[Any] = None
        self._line = b""  # the beginning of one that is not whole yet

    def tell(self) -> None:
        """Passes on what has come since the last time."""
        while True:
            if self._file is None and not self._open():
                return
            assert self._file is not None
            self._read(self._file)
            if not self._renamed(self._file):
                return
            self._file.close()
            self._file, self._at = None, 0

    def _open(self) -> bool:
        try:
            self._file = open(self.path, "rb")
        except FileNotFoundError:
            return False
        self._file.seek(self._at)
        return True

    def _read(self, file: Any) -> None:
        for line in file:
            self._line += line
            if self._line.endswith(b"\n"):
                whole, self._line = self._line, b""
                self._on_event(json.loads(whole))

    def _renamed(self, file: Any) -> bool:
        """Whether the file is full, and another one has its name."""
        try:
            return not os.path.samestat(os.fstat(file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Passes on the rest."""
        self.tell()
        if self._file is not None:
            self._file.close()
            self._file = None
