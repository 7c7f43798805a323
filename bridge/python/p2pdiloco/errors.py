"""What goes wrong. All classes are subclasses of Error."""

from __future__ import annotations


class Error(Exception):
    """Any failure of p2pdiloco. Its text says what happened and what to do."""


class Invalid(Error, ValueError):
    """An argument or a setting is wrong, or does not fit the run."""


class NotFinite(Error, ArithmeticError):
    """The model holds a NaN, an infinity or a huge value, and nothing was offered to the others.
    reset() loads the anchor again."""


class Busy(Error):
    """Another trainer has the node of this data directory."""


class Lost(Error):
    """Another rank of this machine is gone, or does not move. All ranks end, and are started again
    together."""


class NodeGone(Error, ConnectionError):
    """The node of this machine is gone, and none came back in time."""


class Closed(Error):
    """The node has ended, or has left the run."""


class Forked(Error):
    """This process is a child, made by fork, of the one that has attached."""


class Ended(Error):
    """The run is over: there is no round left to take part in."""


class Missed(Error):
    """The run ended without this peer, and no peer with its model answers."""
