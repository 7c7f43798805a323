"""What a training script prints."""

from __future__ import annotations

import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A peer's part in a run at one moment."""

    phase: str = "off"
    """searching, joining, waiting, running, paused, ended or closed; off where no run was given."""
    slot: int = 0
    """Outer steps in the model that the current inner steps started from."""
    last_slot: int = 0
    """The run ends with this one."""
    rounds: int = 0
    """Rounds that this peer has taken part in, since the process started."""
    steps: int = 0
    """Inner steps since the last round."""
    loss: Optional[float] = None
    """Mean of the losses reported during the last whole round; None if there was none."""
    weight: int = 0
    """What this peer has contributed in all, in tokens, samples or steps."""
    members: int = 0
    contributors: int = 0
    """Members that train."""
    bytes_sent: int = 0
    bytes_received: int = 0
    stall_seconds: float = 0.0
    """Time in which no inner step was done because of rounds, in all."""
    last_stall_seconds: float = 0.0

    def __str__(self) -> str:
        if self.phase == "off":
            return "no run"
        loss = "" if self.loss is None else f", loss {self.loss:.4f}"
        return (
            f"slot {self.slot} of {self.last_slot} ({self.phase}), {self.steps} steps since{loss}, "
            f"{self.members} members, {_bytes(self.bytes_sent)} sent, "
            f"{_bytes(self.bytes_received)} received, {self.stall_seconds:.1f} s stalled"
        )


def _bytes(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"
