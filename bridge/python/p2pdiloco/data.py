"""Which data is a peer's own.

All peers of a run agree which part of the data each of them trains on in a round
(docs/how-to/data.md). A part is part_steps inner steps' worth; parts are numbered from 0 without an
end.
"""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, NamedTuple, Sized, TypeVar

T = TypeVar("T")

_WORD = (1 << 64) - 1


class Place(NamedTuple):
    """What a peer is to train on now."""

    rank: int = 0
    world: int = 1
    seed: int = 0
    part: int = 0
    part_steps: int = 0
    """Inner steps that a part is enough for; 0 without a run: then there is one part."""
    done: int = 0
    """Of them, done when the round began, or went on."""
    round: int = 0
    """Another one whenever the inner steps begin anew, or go on elsewhere."""


def _mix(z: int) -> int:
    """The finalizer of SplitMix64."""
    z &= _WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _WORD
    return z ^ z >> 31


class Permutation:
    """An order of the numbers below n that needs no memory, the one of the built-in trainer: a
    Feistel network of four rounds over the least even number of bits that holds them, applied again
    until the result is below n."""

    def __init__(self, n: int, seed: int, epoch: int) -> None:
        self._n, self._half = n, max(1, ((n - 1).bit_length() + 1) // 2)
        first = _mix(_mix(seed) + epoch)
        self._keys = [_mix(first + i * 0x9E3779B97F4A7C15) for i in range(2, 6)]

    def __getitem__(self, x: int) -> int:
        half, mask = self._half, (1 << self._half) - 1
        while True:
            left, right = x >> half, x & mask
            for key in self._keys:
                left, right = right, left ^ (_mix(right + key) & mask)
            x = left << half | right
            if x < self._n:
                return x


class PartSampler:
    """A sampler for torch.utils.data.DataLoader over a map-style dataset: the samples of this
    peer's parts, so that an epoch is without replacement over all peers together, and every epoch
    in a new order. When the round changes it goes on with the new part; a round with more steps
    than a part begins the part again. One iteration is this peer's share of an epoch, in whole
    batches; the next iteration goes on behind it.

    A DataLoader asks ahead, by prefetch_factor batches a worker: so many at the beginning of
    a round are of the part before, from its beginning, and so many at a part's end are left out.

    data: its length counts. batch_size: samples of an inner step, gradient accumulation included;
    the same on all peers. place: asked for before every sample. rank, ranks: of the processes that
    are one peer, each of which gets its share of every inner step.
    """

    def __init__(
        self, data: Sized, batch_size: int, place: Callable[[], Place], rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if batch_size < 1 or len(data) < 1:
            raise ValueError("a sampler needs data, and a batch_size of at least 1")
        if batch_size % ranks:
            raise ValueError(
                f"batch_size={batch_size} is for all {ranks} ranks of this peer together: a "
                f"multiple of {ranks} is needed"
            )
        self._size, self._batch, self._place = len(data), batch_size, place
        self._own = batch_size // ranks  # samples of an inner step that are this rank's
        self._first = rank * self._own
        self._round = -1
        self._next = 0  # of this rank's samples of the part
        self._epoch = -1
        self._order = Permutation(1, 0, 0)

    def __iter__(self) -> Iterator[int]:
        for _ in range(len(self)):
            yield self._sample()

    def __len__(self) -> int:
        share = -(-self._size // self._place().world)
        return -(-share // self._batch) * self._own

    def _sample(self) -> int:
        place = self._place()
        if place.round != self._round:
            self._round, self._next = place.round, place.done * self._own
        size = place.part_steps * self._batch
        step, sample = divmod(self._next, self._own)
        within = step * self._batch + self._first + sample
        within = within % size if size else within
        self._next += 1
        epoch, at = divmod(place.part * size + within, self._size)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, Permutation(self._size, place.seed, epoch)
        return self._order[at]


def read_parts(read: Callable[[int], Iterable[T]], place: Callable[[], Place]) -> Iterator[T]:
    """Yields from read(part), part after part, without an end: for data that cannot be indexed.
    When the round changes it goes on with the new part; one that is exhausted before is read
    again."""
    while True:
        now, empty = place(), True
        for item in read(now.part):
            empty = False
            yield item
            if place().round != now.round:
                break
        if empty:
            raise ValueError(f"there is nothing in part {now.part} of the data: parts have no end")
