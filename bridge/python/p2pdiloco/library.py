"""The C library: where it is, and its functions with their types.

Each of them releases the interpreter's lock while it runs (ctypes.CDLL does). Nothing is loaded
before the first node is made, and nothing is called in a child that was made by fork.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
import threading
from typing import Optional

from .errors import CLOSED, FORKED, OK, LibraryNotFound, error_of

ABI = 1
"""The version of the C interface that this package speaks."""

_NAMES = {"darwin": "libp2pdiloco.dylib", "win32": "p2pdiloco.dll"}
FILE_NAME = _NAMES.get(sys.platform, "libp2pdiloco.so")

_i32, _u32, _i64, _u64 = ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64
_text, _pointer = ctypes.c_char_p, ctypes.c_void_p
_error = ctypes.POINTER(ctypes.c_void_p)

Handle = ctypes.c_int64
"""A node; 0 is none."""

# name: (result, arguments). Texts that must be freed are plain addresses.
_FUNCTIONS = {
    "abi": (_u32, []),
    "version": (_text, []),
    "join": (_i32, [_text, _pointer, _u64, ctypes.POINTER(_i64), _error]),
    "anchor": (_i32, [_i64, _pointer, _u64, _i32, ctypes.POINTER(_u64), _error]),
    "begin": (_i32, [_i64, _pointer, _u64, _u64, _error]),
    "poll": (_i32, [_i64, _i32, _error]),
    "finish": (_i32, [_i64, _pointer, _u64, _i32, ctypes.POINTER(_u64), _error]),
    "progress": (_i32, [_i64, _u64]),
    "status": (_pointer, [_i64]),
    "event": (_i32, [_i64, _i32, _error]),
    "leave": (_i32, [_i64, _i32, _error]),
    "close": (_i32, [_i64, _error]),
    "free": (None, [_pointer]),
}


class Library:
    """The functions of one loaded library. Those that can fail return the code and the error's
    text, unless they say otherwise."""

    def __init__(self, path: str) -> None:
        try:
            self._c = ctypes.CDLL(path)
        except OSError as err:
            raise LibraryNotFound(f"{path} cannot be loaded: {err}") from err
        self.path = path
        self._pid = os.getpid()
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._c, "p2pdiloco_" + name)
            except AttributeError:
                raise LibraryNotFound(
                    f"{path} is no p2pdiloco library: it lacks p2pdiloco_{name}"
                ) from None
            function.restype, function.argtypes = result, arguments
        abi = self._c.p2pdiloco_abi()
        if abi != ABI:
            raise LibraryNotFound(
                f"{path} speaks version {abi} of the interface and this package version {ABI}: "
                "install both from one version of p2pdiloco"
            )

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that loaded the library."""
        return os.getpid() != self._pid

    def version(self) -> str:
        """The version of the library, its protocol and its arithmetic."""
        return str(self._c.p2pdiloco_version().decode())

    def call(self, name: str, *arguments: object) -> tuple[int, str]:
        """Calls a function whose last argument is char **error."""
        if self.forked:
            return FORKED, (
                "this process was made by fork from one that uses p2pdiloco, and cannot use it: "
                "start it with spawn, or before the first node is made"
            )
        error, text = ctypes.c_void_p(), ""
        try:
            code = getattr(self._c, "p2pdiloco_" + name)(*arguments, ctypes.byref(error))
        finally:  # a signal that came meanwhile raises as soon as the function has returned
            text = self._take(error.value)
        return code, text

    def join(self, handle: Handle, config: str, params: Optional[int], elements: int) -> None:
        """Starts a node and writes its handle. It raises what the library says is wrong."""
        code, text = self.call(
            "join", config.encode(), params, elements, ctypes.byref(handle)
        )
        if code != OK:
            raise error_of(code, text)

    def progress(self, handle: Handle, steps: int) -> None:
        """Reports how many inner steps of the round are done. It ignores a closed node."""
        if not self.forked:
            self._c.p2pdiloco_progress(handle, steps)

    def status(self, handle: Handle) -> str:
        """The status of a node as JSON; empty for an unknown node."""
        return "" if self.forked else self._take(self._c.p2pdiloco_status(handle))

    def event(self, handle: Handle, milliseconds: int) -> tuple[int, str]:
        """OK and the next event as JSON; AGAIN or CLOSED if there is none."""
        if self.forked:
            return CLOSED, ""
        event, text = ctypes.c_void_p(), ""
        try:
            code = self._c.p2pdiloco_event(handle, milliseconds, ctypes.byref(event))
        finally:
            text = self._take(event.value)
        return code, text

    def _take(self, address: Optional[int]) -> str:
        if not address:
            return ""
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            self._c.p2pdiloco_free(address)


_lock = threading.Lock()
_loaded: Optional[Library] = None


def load() -> Library:
    """The library, loaded by the first call in this process. It looks for the file that
    P2PDILOCO_LIBRARY names, beside this package, and where the system keeps libraries, and raises
    LibraryNotFound where there is none."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Library(_find())
    return _loaded


def _find() -> str:
    given = os.environ.get("P2PDILOCO_LIBRARY")
    if given:
        if not os.path.exists(given):
            raise LibraryNotFound(f"P2PDILOCO_LIBRARY: {given} does not exist")
        return os.path.abspath(given)
    beside = pathlib.Path(__file__).with_name(FILE_NAME)
    if beside.exists():
        return str(beside)
    try:
        ctypes.CDLL(FILE_NAME)
    except OSError:
        raise LibraryNotFound(
            f"{FILE_NAME} is neither beside the package ({beside.parent}) nor installed. In the "
            "repository, pip install ./bridge/python builds it, or bridge/libp2pdiloco/build.sh "
            "FOLDER does: then set P2PDILOCO_LIBRARY to its path"
        ) from None
    return FILE_NAME
