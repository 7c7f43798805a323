"""What a rank keeps of its own over a restart: its optimizer, and what else has a state."""

from __future__ import annotations

import copy
import inspect
import logging
import os
from typing import Any, Sequence

import torch

from .errors import Invalid

_log = logging.getLogger("p2pdiloco")


class Private:
    """Objects with state_dict and load_state_dict, in one file a rank."""

    def __init__(self, kept: Sequence[Any], world: int) -> None:
        for one in kept:
            if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                raise Invalid(
                    f"keep holds a {type(one).__name__}: what has state_dict and load_state_dict "
                    "can be kept"
                )
        self._kept, self._world = list(kept), world

    def save(self, path: str) -> None:
        """Writes the states to a file, and waits until they are on the disk."""
        states = [one.state_dict() for one in self._kept]
        with open(path, "wb") as f:
            torch.save({"states": states, "random": torch.get_rng_state()}, f)
            f.flush()
            os.fsync(f.fileno())

    def restore(self, folder: str, rank: int, world: int) -> None:
        """Takes the states back that world ranks have saved, all or none. A state that does not fit
        is no reason to end: it would not fit at the next start either."""
        path = os.path.join(folder, f"rank-{rank}")
        if world != self._world or not os.path.exists(path):
            _log.warning(
                "%d ranks have saved their optimizers, and now there are %d: they begin anew",
                world, self._world,
            )
            return
        before = copy.deepcopy([one.state_dict() for one in self._kept])
        try:
            self._load(path)
        except Exception as err:
            for one, state in zip(self._kept, before):
                one.load_state_dict(state)
            _log.warning(
                "%s does not fit what keep has (%s): the optimizer begins anew", path, err
            )

    def _load(self, path: str) -> None:
        # It holds what this user's own trainer wrote, not only tensors.
        whole = "weights_only" in inspect.signature(torch.load).parameters
        saved = torch.load(path, map_location="cpu", **({"weights_only": False} if whole else {}))
        if len(saved["states"]) != len(self._kept):
            raise Invalid(
                f"the saved state has {len(saved['states'])} objects and keep= lists "
                f"{len(self._kept)}: give the same list as before"
            )
        for one, state in zip(self._kept, saved["states"]):
            one.load_state_dict(state)
        torch.set_rng_state(saved["random"])
