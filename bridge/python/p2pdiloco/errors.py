"""What goes wrong, one class for each code of the C interface (bridge/include/p2pdiloco.h)."""

from __future__ import annotations

import errno
import os

OK, AGAIN, ENDED, CLOSED, INVALID, FORKED = 0, 2, 3, 4, 6, 8


class Error(Exception):
    """Any failure of p2pdiloco. Its text says what happened and what to do."""

    code = 1


class NotYet(Error, TimeoutError):
    """The time given was over. Nothing is lost: ask again."""

    code = AGAIN


class Ended(Error):
    """The run is over: there is no round left to take part in."""

    code = ENDED


class Closed(Error):
    """The node is closed."""

    code = CLOSED


class Busy(Error):
    """Another call on this node's vectors is under way, or a begin without its finish."""

    code = 5


class Invalid(Error, ValueError):
    """An argument or a setting is wrong."""

    code = INVALID


class NotFinite(Error, ArithmeticError):
    """The model holds a NaN, an infinity or a huge value, and nothing was offered to the others."""

    code = 7


class Forked(Error):
    """This process is a child, made by fork, of the one that the node belongs to."""

    code = FORKED


class Missed(Error):
    """The run ended without this peer, and no peer with its model answers."""

    code = 9


class BranchEnded(Error):
    """The last slot is applied, on a branch that is not the run: the others went on without this
    peer, or are gone. The node looks for them while it is open: anchor waits for it again."""

    code = 10


class LibraryNotFound(Error, OSError):
    """The C library is not there, or speaks another version of the interface."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.ENOENT, text)

    def __str__(self) -> str:
        return str(self.args[1])


_by_code = {
    kind.code: kind
    for kind in (NotYet, Ended, Closed, Busy, Invalid, NotFinite, Forked, Missed, BranchEnded)
}


def error_of(code: int, text: str) -> Error:
    """The exception for a code that a function of the library returned."""
    return _by_code.get(code, Error)(text or f"the library returned {code} (pid {os.getpid()})")
