"""Where the elements of a caller's vector lie."""

from __future__ import annotations

import ctypes
from typing import Any

from .errors import Invalid


class Vector:
    """The memory of a float32 vector, held for as long as this object lives.

    It is made from anything with the buffer protocol that holds float32 in one piece: a numpy array
    of any shape, array.array("f"), a ctypes array, a memoryview. With writable=False it may be
    read-only: then it is copied.
    """

    __slots__ = ("_owner", "address", "elements")

    def __init__(self, source: Any, *, writable: bool = True) -> None:
        try:
            view = memoryview(source)
        except TypeError:
            raise Invalid(
                f"a vector of type {type(source).__name__}: give a numpy array of float32, or "
                "anything with the buffer protocol"
            ) from None
        if view.format not in ("f", "<f", "=f", "@f") or not view.c_contiguous:
            raise Invalid(
                f"a vector of format {view.format!r}{'' if view.c_contiguous else ', in pieces'}: "
                "contiguous float32 ('f') is needed"
            )
        self.elements = view.nbytes // 4
        kind = ctypes.c_float * self.elements
        if not view.readonly:
            self._owner = kind.from_buffer(source)
        elif writable:
            raise Invalid("a read-only vector: the new model is to be written to it")
        else:
            self._owner = kind.from_buffer_copy(view)
        self.address = ctypes.addressof(self._owner)
