"""Which data is a peer's own."""

from __future__ import annotations

import random
from typing import Callable, Iterator, NamedTuple, Sized


class Place(NamedTuple):
    """A peer's place among the members of its run."""

    rank: int
    world: int
    seed: int


class ShardSampler:
    """A sampler for torch.utils.data.DataLoader: every epoch in a new order, of which each peer
    takes every world-th index. The order follows from the run's seed and the epoch, so that peers
    in the same epoch draw disjoint shares. Members come and go: the share follows from the next
    index on, and then some are drawn twice, or not in this epoch.

    data: its length counts. place: asked for before every index.
    """

    def __init__(self, data: Sized, place: Callable[[], Place]) -> None:
        self._data, self._place = data, place
        self.epoch = 0
        """Of the next iteration. Set it where a checkpoint is resumed."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self._data)))
        random.Random(f"{self._place().seed}/{self.epoch}").shuffle(order)
        self.epoch += 1
        for at, index in enumerate(order):
            rank, world, _ = self._place()
            if at % world == rank:
                yield index

    def __len__(self) -> int:
        rank, world, _ = self._place()
        return len(range(rank, len(self._data), world))
