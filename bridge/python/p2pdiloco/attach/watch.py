"""Notices a node that is there and does nothing: one that is stopped, or hangs.

What it does for a slot may take hours, so only a sign of life counts, and not its answer.
"""

from __future__ import annotations

import logging
import shlex
import socket
import struct
from typing import Callable, Optional

from ..errors import NodeGone
from . import wire
from .wire import Message

_log = logging.getLogger("p2pdiloco")

QUIET = 30.0  # seconds without a sign of life until that is said
_MUTE = 10.0  # seconds without a word until it is said who is waited for
_SLICE = 1.0  # seconds that count of one wait: this process may have been stopped as well
_ANSWER = 5.0  # seconds for an answer that the node gives at once


class Watch:
    """Counts how long the node has been quiet while this rank waits for it."""

    def __init__(self) -> None:
        self.pid = 0
        """The node's process; 0: it is not known."""
        self.data_dir = ""
        """The node's data directory; "": it is not known."""
        self.begin(0.0)

    def begin(
        self, limit: float, alive: Optional[Callable[[], bool]] = None, every: float = 0.0
    ) -> None:
        """Begins to wait in another way. limit: seconds without a sign of life after which
        NodeGone is raised. alive: asks whether there was one; None: only what the node sends is.
        every: seconds between two such questions."""
        self._limit, self._alive, self._every = limit, alive, every
        self._quiet, self._due, self._said = 0.0, every, False
        self._mute = 0.0

    def heard(self, word: bool = True) -> None:
        """Takes in a sign of life. word: the node has sent something."""
        self._quiet, self._due = 0.0, self._every
        self._mute = 0.0 if word else self._mute
        if self._said:
            self._said = False
            _log.warning("%s goes on", self._name)

    def silent(self, seconds: float) -> None:
        """Takes in that the node has sent nothing for so long."""
        seconds = min(seconds, _SLICE)
        self._quiet += seconds
        self._due -= seconds
        self._mute += seconds
        if self._mute >= _MUTE:
            self._mute = 0.0
            _log.info("still waiting for %s: see %s", self._name, self._status)
        if self._alive is not None and self._due <= 0:
            self._due = self._every
            if self._alive():
                return self.heard(word=False)
        if self._quiet >= self._limit:
            raise NodeGone(f"{self._name} {self._state(self._quiet)}")
        if self._quiet >= QUIET and not self._said:
            self._said = True
            _log.warning(
                "%s %s. This rank waits %.0f s for it", self._name, self._state(self._quiet),
                self._limit,
            )

    @property
    def _name(self) -> str:
        return "the node of this machine" + (f" (pid {self.pid})" if self.pid else "")

    @property
    def _status(self) -> str:
        where = f" --data-dir {shlex.quote(self.data_dir)}" if self.data_dir else ""
        return f"p2pdiloco status{where}"

    def _state(self, seconds: float) -> str:
        pid = str(self.pid) if self.pid else "PID"
        return (
            f"has shown no sign of life for {seconds:.0f} s: it is stopped or hangs. See "
            f"{self._status}; kill -CONT {pid} lets a stopped one go on, and kill -9 {pid} makes "
            "room for another"
        )


def process(connection: socket.socket, told: int = 0) -> int:
    """The process that listens at the other end, as this process can name it: 0 where it lives in
    another namespace, and what it has told of itself where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return told
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return max(int(pid), 0)


def answers(path: str) -> bool:
    """Whether a node lives that listens here. PING before HELLO is refused at once; in the set's
    own conversation it would count as progress of the trainer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_ANSWER)
            probe.connect(path)
            probe.sendall(wire.pack(Message(wire.PING, 1)))
            return bool(probe.recv(1))
    except OSError:
        return False
