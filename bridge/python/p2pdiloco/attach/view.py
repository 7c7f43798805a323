"""What a rank knows of its node: its status while it lives, and its last word of the run."""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional

from ..errors import Error
from ..settings import flags
from . import rendezvous, status
from .session import Session


_EVERY = 10.0  # seconds between two looks that nobody asked for


class View:
    """The status that was seen last."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {"phase": "closed"}
        self._looked = 0.0

    def look(self, session: Optional[Session]) -> dict[str, Any]:
        """The node's status. Without a session, or where the node does not answer, it is the one
        seen last; of a run that has ended, with what the node has said of its end."""
        if session is not None:
            if session.data_dir:
                self._looked = time.monotonic()
                self._last = status.read(session.data_dir) or self._last
            self._hear(session)
        return self._last

    def glance(self, session: Session) -> None:
        """Looks now and then, and when the run has ended, so that the figures are there when the
        node is gone."""
        if session.ended or not self._looked or time.monotonic() > self._looked + _EVERY:
            self.look(session)

    def _hear(self, session: Session) -> None:
        """Takes what the node has told this rank, where its API has not said it."""
        info = session.info
        told: dict[str, Any] = {}
        if info is not None:
            told["last_slot"] = info.last_slot
            if info.root:
                told.update(slot=info.slot, state_root=info.root)
        if session.ended:
            self._last = {**self._last, **told}
            if not str(self._last["phase"]).startswith("ended"):
                self._last["phase"] = "ended"
        else:
            self._last = {**told, **self._last}

    def left(self, session: Session) -> None:
        """Notes that this rank has left its node."""
        self._hear(session)
        if not session.ended:
            self._last = dict(self._last, phase="closed")

    @staticmethod
    def ask(session: Optional[Session], command: str, options: Mapping[str, Any]) -> str:
        """What a command of the node's program prints of this node."""
        if session is None or not session.data_dir:
            raise Error(f"{command} asks a node, and this rank is not attached to one")
        return rendezvous.ask([command, *flags(dict(options, data_dir=session.data_dir))])
