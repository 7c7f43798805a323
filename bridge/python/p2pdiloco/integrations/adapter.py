"""A run for a library that has the training loop: what all integrations do in the same way.

The library calls begin when model and optimizer are made, and end after its last step. Between the
two, every step that the optimizer really takes is an inner step, whatever the library calls a step:
gradient accumulation does not count, nor does a step that a GradScaler leaves out.
"""

from __future__ import annotations

import itertools
import logging
import os
import warnings
from typing import Any, Iterator, Optional, Sequence, Sized

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from ..attach.rendezvous import one_machine
from ..diloco import DiLoCo
from ..errors import Ended, Error, Invalid
from ..schedule import Schedule, Shape

_log = logging.getLogger("p2pdiloco")

# Optimizers and engines that step copies of the parameters of their own.
_OWN_COPIES = ("DeepSpeed", "MegatronLM")


class Adapter:
    """A peer's part in a run, for as long as the library trains.

    run, options: as of DiLoCo. keep: whether the optimizers and the schedulers go on where they
    were when the process is started again.
    """

    def __init__(self, run: Optional[str] = None, *, keep: bool = False, **options: Any) -> None:
        self._run, self._keep, self._options = run, keep, options
        self.diloco: Optional[DiLoCo] = None
        """The part in the run, from the first step on; before, there is none."""

    def begin(
        self, model: torch.nn.Module, optimizers: Any, *, wrapped: Any = None,
        keep: Sequence[Any] = (), planned: Optional[int] = None, schedulers: Sequence[Any] = (),
        whole: int = 0,
    ) -> DiLoCo:
        """Joins the run and loads its model. wrapped: the model as the ranks share it, where that
        is another module. keep: what has a state. planned: the steps that the library will do.
        schedulers: those that it steps after each of them; whole: the steps that they are for."""
        self.close()  # an exception may have ended the training before
        options = dict(self._options)
        add_group(options, model if wrapped is None else wrapped, optimizers)
        if self._keep:
            options["keep"] = list(keep)
        diloco = DiLoCo(model, optimizers, self._run, **options).start()
        self.diloco = diloco
        if diloco.finished:
            raise Ended(
                "the run has ended, and the model is its last one: give another run= to train on"
            )
        if diloco.enabled:
            if planned is not None:
                self._compare(diloco, planned, whole)
            for scheduler in schedulers:
                _keep_time(diloco, scheduler)
        return diloco

    @staticmethod
    def _compare(diloco: DiLoCo, planned: int, whole: int) -> None:
        """Says what does not fit: the library makes its schedules for its own number of steps."""
        status = diloco.status()
        rounds = status.get("last_slot", 0) - status.get("slot", 0)
        left = rounds * ((status.get("task") or {}).get("inner_steps") or 0)
        if left <= 0 or planned == left or _rank() != 0:
            return
        if planned > left and whole == diloco.total_steps:
            return  # this peer has joined late, and its schedules are taken to where the run is
        if planned < left:
            _log.warning(
                "the run goes on for about %d steps, and the library trains for %d: this peer "
                "leaves the run early; set the library's steps to %d to stay", left, planned, left,
            )
            return
        _log.warning(
            "the run ends after about %d steps, and the library was to do %d: a schedule of "
            "learning rates does not come to its end; set the library's steps to %d",
            left, planned, left,
        )

    @property
    def finished(self) -> bool:
        """Whether the run is over, so that the library has to stop."""
        return self.diloco is not None and self.diloco.finished

    def end(self) -> None:
        """Leaves the run after the library's last step. What was trained since the last round is
        contributed first, so that the model is one that all peers agreed on."""
        if self.diloco is not None:
            self.diloco.force_sync()
            self.diloco.leave()

    def close(self) -> None:
        """Detaches at once; the peer stays a member for a while, and may be started again."""
        if self.diloco is not None:
            self.diloco.close()

    def fail(self, kind: type[BaseException]) -> None:
        """After an exception: Ctrl-C and sys.exit leave the run, anything else detaches."""
        if self.diloco is not None:
            self.diloco.__exit__(kind)

    def schedule(self, optimizer: Any, shape: Shape = "cosine", **options: Any) -> Schedule:
        """DiLoCo.schedule, for a library that is given its scheduler before training begins."""
        return Schedule(optimizer, shape, of=lambda: self.diloco, **options)

    def sampler(self, data: Sized, batch_size: int, shard: bool = False) -> Samples:
        """Samples of a map-style dataset that no other peer has, for a DataLoader that is made
        before training begins. batch_size: of an inner step, of all ranks and with gradient
        accumulation. shard: whether this rank gets its share only; else the library divides."""
        return Samples(self, data, batch_size, shard)


def without_loss(figures: dict[str, float]) -> dict[str, float]:
    """A round's figures for a library's log, which has a loss of its own."""
    return {name: value for name, value in figures.items() if name != "loss"}


def _keep_time(diloco: DiLoCo, scheduler: Any) -> None:
    """Has a library's scheduler, which counts this process's steps, go by the run's time."""
    if isinstance(scheduler, Schedule):
        scheduler.update()
        return diloco.followers.append(scheduler.update)
    if isinstance(scheduler, ReduceLROnPlateau):  # it goes by a loss
        return

    def take(step: int) -> None:
        if scheduler.last_epoch != step:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch would rather be called without a step
                scheduler.step(step)

    try:
        take(int(diloco.step))
    except (AttributeError, TypeError, ValueError) as err:
        _log.warning(
            "%s cannot be taken to step %d of the run (%s): its learning rates begin anew. Use the "
            "callback's schedule()", type(scheduler).__name__, diloco.step, err,
        )
        return
    diloco.followers.append(lambda: take(int(diloco.step) - 1))  # the library steps it next


class Samples:
    """A peer's samples, in epochs of the data's length."""

    def __init__(self, adapter: Adapter, data: Sized, batch_size: int, shard: bool) -> None:
        self._adapter, self._data = adapter, data
        self._batch_size, self._shard = batch_size, shard
        self._of: Optional[DiLoCo] = None
        self._samples: Iterator[int] = iter(())

    def __len__(self) -> int:
        return len(self._data) // (_world() if self._shard else 1)

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(self._forever(), len(self))

    def _forever(self) -> Iterator[int]:
        diloco = self._adapter.diloco
        if diloco is None:
            raise Error("the samples of a run are known when training has begun, not before")
        if self._of is not diloco:
            one = diloco.sampler(self._data, self._batch_size, shard=self._shard)
            self._of = diloco
            self._samples = itertools.chain.from_iterable(itertools.repeat(one))
        return self._samples


def add_group(options: dict[str, Any], model: torch.nn.Module, optimizers: Any) -> None:
    """Adds the ranks that share a model to the options of DiLoCo, if they do not name them. It
    refuses what cannot be shared."""
    refuse(model, optimizers)
    if options.get("mesh") is None and options.get("process_group") is None:
        options["process_group"] = process_group(model)


def refuse(model: torch.nn.Module, optimizers: Any) -> None:
    """Refuses what steps copies of the parameters, and what hides them."""
    for one in _inner(optimizers):
        _refuse_optimizer(one)
    for module in model.modules():
        name = type(module).__name__
        if name.startswith(_OWN_COPIES):
            raise Invalid(_own_copies(name))
        if name == "FullyShardedDataParallel":
            raise Invalid(
                "FullyShardedDataParallel hides where a shard's elements belong: use FSDP2 "
                "(fully_shard), which the library may call version 2, or DistributedDataParallel"
            )


def process_group(model: torch.nn.Module) -> Any:
    """The ranks that hold equal copies of a model that a library has prepared. None is for one
    rank, and for shards that the parameters show (DTensor)."""
    world = _world()
    if world == 1:
        return None
    one_machine(os.environ, world)
    if any(hasattr(p, "placements") for p in model.parameters()):
        return None
    distributed: Any = torch.distributed
    return distributed.group.WORLD


def _inner(optimizers: Any) -> Iterator[Any]:
    """Optimizers, and what they are wrapped around."""
    for one in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        seen: set[int] = set()
        while one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            one = getattr(one, "__dict__", {}).get("optimizer")


def _refuse_optimizer(optimizer: Any) -> None:
    name = type(optimizer).__name__
    if name.startswith(_OWN_COPIES):
        raise Invalid(_own_copies(name))
    hooks = hasattr(torch.optim.Optimizer, "register_step_post_hook")
    if getattr(optimizer, "scaler", None) is not None and not hooks:
        raise Invalid(
            "with PyTorch before 2.0, Accelerate's GradScaler goes around what counts the steps: "
            "train in bf16 or float32, or install PyTorch 2"
        )


def _own_copies(name: str) -> str:
    return (
        f"{name} steps copies of the parameters of its own, and would undo what the run loads: "
        "use DistributedDataParallel or FSDP2"
    )


def _world() -> int:
    return int(torch.distributed.get_world_size()) if _distributed() else 1


def _rank() -> int:
    return int(torch.distributed.get_rank()) if _distributed() else 0


def _distributed() -> bool:
    distributed: Any = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())
