"""What a rank knows of its node: its status while it lives, and its last word of the run."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..errors import Error
from ..settings import flags
from . import rendezvous, status
from .session import Session


class View:
    """The status that was seen last."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {"phase": "closed"}

    def look(self, session: Optional[Session]) -> dict[str, Any]:
        """The node's status. Without a session, or where the node does not answer, it is the one
        seen last; of a run that has ended, with what the node has said of its end."""
        if session is not None and session.data_dir:
            self._last = status.read(session.data_dir) or self._last
        if session is not None and session.ended:
            self._end(session)
        return self._last

    def _end(self, session: Session) -> None:
        info = session.info
        if info is not None and info.root:
            self._last.update(slot=info.slot, last_slot=info.last_slot, state_root=info.root)
        if not str(self._last["phase"]).startswith("ended"):
            self._last["phase"] = "ended"

    def left(self, session: Session) -> None:
        """Notes that this rank has left its node."""
        if not session.ended:
            self._last = dict(self._last, phase="closed")

    @staticmethod
    def ask(session: Optional[Session], command: str, options: Mapping[str, Any]) -> str:
        """What a command of the node's program prints of this node."""
        if session is None or not session.data_dir:
            raise Error(f"{command} asks a node, and this rank is not attached to one")
        return rendezvous.ask([command, *flags(dict(options, data_dir=session.data_dir))])
