"""The numbers that a training script prints."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A peer's part in a run at one moment."""

    phase: str = "off"
    """searching, joining, waiting, running, paused, ended, ended_provisional, ended_missed or
    closed; off where no run was given."""
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
    """Total time in which rounds kept the trainer from inner steps."""
    last_stall_seconds: float = 0.0

    def figures(self, before: Metrics) -> dict[str, float]:
        """The newest round's numbers under short names, as libraries log them: up_mb and dn_mb, in
        megabytes, and weight since before; sync_s is how long the round held up the training."""
        named = {
            "slot": self.slot, "loss": self.loss, "members": self.members,
            "contributors": self.contributors, "sync_s": self.last_stall_seconds,
            "weight": max(0, self.weight - before.weight),  # below it was another node's, or peer's
            "up_mb": max(0, self.bytes_sent - before.bytes_sent) / 1e6,
            "dn_mb": max(0, self.bytes_received - before.bytes_received) / 1e6,
        }
        return {name: float(value) for name, value in named.items() if value is not None}

    def __str__(self) -> str:
        if self.phase == "off":
            return "no run"
        loss = "" if self.loss is None else f", loss {self.loss:.4f}"
        return (
            f"slot {self.slot} of {self.last_slot} ({self.phase}), {self.steps} steps since{loss}, "
            f"{self.members} members, {_bytes(self.bytes_sent)} sent, "
            f"{_bytes(self.bytes_received)} received, {self.stall_seconds:.1f} s stalled"
        )


class Tally:
    """Counts of a peer, since its last round and over all rounds."""

    def __init__(self) -> None:
        self.slot = self.steps = self.weight = 0  # of this round
        self.rounds = self.contributed = 0  # in all
        self.stall = self.last_stall = 0.0
        self.loss: Optional[float] = None
        self._sum: Any = 0.0
        self._losses = 0

    def begin(self, slot: int) -> None:
        """A new round, from the anchor of this slot."""
        self.slot, self.steps, self.weight = slot, 0, 0

    def land(self, slot: int) -> None:
        """A slot has landed in the middle of a round: its steps go on."""
        self.slot = slot

    def contribute(self, weight: int) -> None:
        """A contribution was offered."""
        self.rounds += 1
        self.contributed += weight

    def report(self, loss: Any) -> None:
        """Takes a step's loss. A tensor stays where it is."""
        self._sum = self._sum + (loss.detach() if hasattr(loss, "detach") else loss)
        self._losses += 1

    def mean(self) -> Optional[float]:
        """The mean of the losses since the last round; it waits for a GPU."""
        return float(self._sum) / self._losses if self._losses else None

    def end(self, stall: float) -> None:
        """Ends a round that held up the training for so many seconds."""
        self.last_stall = stall
        self.stall += stall
        if self._losses:
            self.loss = self.mean()
            self._sum, self._losses = 0.0, 0

    def metrics(self, status: Mapping[str, Any]) -> Metrics:
        """The same, with what the node knows."""
        return Metrics(
            phase=status["phase"], slot=self.slot, last_slot=status.get("last_slot", 0),
            rounds=self.rounds, steps=self.steps, loss=self.loss,
            weight=self.contributed,
            members=len(status.get("members") or ()), contributors=status.get("contributors", 0),
            bytes_sent=status.get("bytes_sent", 0), bytes_received=status.get("bytes_received", 0),
            stall_seconds=self.stall, last_stall_seconds=self.last_stall,
        )


def _bytes(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"
