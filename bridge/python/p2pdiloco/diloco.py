"""DiLoCo for a PyTorch training loop."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, TypeVar, Union

from . import box, trackers
from .attach.events import Event
from .errors import Error, Invalid
from .hf import Names
from .hooks import innermost
from .loop import Loop
from .private import Private, drop_not_finite
from .schedule import Schedule, Shape
from .torchmodel import Model, TorchHeld

_log = logging.getLogger("p2pdiloco")

Self = TypeVar("Self", bound="DiLoCo")


class DiLoCo(Loop):
    """Takes part in a run for as long as its with block lasts.

        with DiLoCo(model, optimizer, run="tinygpt", bootstrap=[...], sync_every=500) as d:
            for batch in d.batches(data):
                ...
                optimizer.step()

    Entering the block attaches to the node of this machine, waits until it is a member of the run,
    and loads the run's model. The node is the one that P2PDILOCO_ATTACH names (p2pdiloco join
    --run RUN -- COMMAND sets it), else that of data_dir, and where none answers it is started.
    Leaving the block leaves the run. So do Ctrl-C (a second one closes at once) and sys.exit. After
    any other exception the peer stays a member for trainer_return, and a process that is started
    again goes on from the newest anchor. If no run is given, here or in the environment, the loop
    trains alone.

    With several ranks (DDP, FSDP2, tensor parallel), each of them makes a DiLoCo, steps equally
    often, and all of them together are one peer.

    model: a module, or named tensors (a dict, or pairs) if the optimizer does not step the module's
        parameters; a Part for a tensor of which this rank holds a part that it does not show.
        Names, global shapes and order must be the same on all peers.
    optimizer: any optimizer with step(). In a list, only steps of the last one count, so step it
        last. None means that you call DiLoCo.step() yourself.
    run: the run's name. None takes P2PDILOCO_RUN, or the run of the config file.
    ticket: an invitation to a run, as `p2pdiloco invite` prints it, instead of run and bootstrap.
    mesh, process_group: the ranks of this machine, where the model does not show them.
    sync_every: optimizer steps between rounds, the run's inner_steps. None adopts the run's number.
    tokens_per_step: the weight of a step of this rank; see tokens(). 0 for a rank that shares its
        data with another one, and does not count.
    buffers: "local" leaves a module's buffers (running statistics) to each peer; "average" makes
        floating-point buffers of the state dict part of the model, averaged like parameters.
    frozen: whether parameters with requires_grad=False are part of the model, too.
    evaluate: returns the held-out loss, for a node that asks for it.
    keep: what has state_dict and load_state_dict (the optimizer, a scheduler) and goes on after a
        crash of this process or of the node, and after reset, with the anchor that it was at.
    on_event: called with every event (a dict) of a node that is started here, in the thread that
        trains, after a step and after a round.
    tracker: where the figures of each round go (figures): "wandb", "trackio", "tensorboard",
        "mlflow" or "aim", with ":PROJECT" behind it (tensorboard: ":FOLDER") where that has another
        name; or an object with log(values, step=…), as an Accelerator is, or a function.
    node_timeout: seconds to wait for a node that is gone, and at least 30 for one that is there and
        shows no sign of life. leave_timeout: seconds that leaving waits at most for the node's end.
    quiet: shows warnings alone. Else the lines of the node, and of this package, go to stderr,
        unless the program handles the logger p2pdiloco, or the root logger, itself.
    options: as p2pdiloco join has them, with _ for -: bootstrap, rounds, start_peers, preset,
        data_dir, outer_lr and so on. They are for a node that is started here.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        run: Optional[str] = None,
        *,
        ticket: Optional[str] = None,
        mesh: Any = None,
        process_group: Any = None,
        sync_every: Optional[int] = None,
        tokens_per_step: int = 1,
        buffers: str = "local",
        frozen: bool = False,
        evaluate: Optional[Callable[[], float]] = None,
        keep: Sequence[Any] = (),
        on_event: Optional[Callable[[Event], None]] = None,
        tracker: trackers.Named = None,
        node_timeout: float = 600.0,
        leave_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        if buffers not in ("local", "average"):
            raise Invalid(f"buffers={buffers!r}: 'local' or 'average' is allowed")
        super().__init__(
            run, ticket=ticket, sync_every=sync_every, tokens_per_step=tokens_per_step,
            node_timeout=node_timeout, leave_timeout=leave_timeout, on_event=on_event,
            tracker=tracker, options=options,
        )
        self._optimizers = _as_list(optimizer)
        self._hook_on = self._optimizers[-1] if self._optimizers else None
        self._model: Optional[TorchHeld] = None
        self._guards: list[Any] = []
        self._replaces = False  # replace is under way
        if not self.enabled:
            return
        self._ranks = box.ranks(model, mesh=mesh, process_group=process_group)
        private = Private(keep, self._ranks.world, self.replace) if keep else None
        self._private = private
        self._held = self._model = TorchHeld(
            model, buffers=buffers == "average", frozen=frozen, evaluate=evaluate,
            restore=private.restore if private else None,
        )
        begins = [*self._optimizers, *(one for one in keep if hasattr(one, "param_groups"))]
        self._steps = list({id(one): one for one in begins if hasattr(one, "step")}.values())

    def start(self: Self) -> Self:
        if self.enabled and self._model is not None:
            self._model.check_optimizers(self._optimizers)
            own = self._model.own_statistics()
            if own and self._ranks.rank == 0:
                _log.warning(
                    "each peer keeps running statistics of its own (%s%s): peers with the same "
                    "parameters evaluate differently. buffers=\"average\" makes them part of the "
                    "model", ", ".join(own[:3]), ", …" if len(own) > 3 else "",
                )
        super().start()
        if self._session is not None and self._model is not None:
            self._guards = self._model.guard(self._refuse)
        return self

    def _unhook(self) -> None:
        super()._unhook()
        for guard in self._guards:
            guard.remove()
        self._guards = []

    def _refuse(self) -> None:
        """Refuses what replaces the model's values while they are trained for the others."""
        forked = self._session is None or self._session.forked
        if self._counted and not self._replaces and not forked and not self.finished:
            raise Error(
                "load_state_dict in the middle of a run: the others would take what it loads for "
                "what this peer has trained. Load before the with block; or do it in "
                "`with d.replace():` if that is what you want"
            )

    @contextlib.contextmanager
    def replace(self) -> Iterator[None]:
        """Lets load_state_dict replace the model's values after the first step. When the round
        ends, they count as trained by this peer, and the others average them with theirs."""
        before, self._replaces = self._replaces, True
        try:
            yield
        finally:
            self._replaces = before

    def _sample(self, prompt: str) -> Optional[str]:
        assert self._model is not None
        with self._model.shown():
            return super()._sample(prompt)

    def _names(self) -> Names:
        return self._model.names() if self._model is not None else Names()

    def schedule(
        self, optimizer: Any, shape: Shape = "cosine", *, warmup: float = 0,
        min_lr_rate: float = 0.0, total_steps: int = 0,
    ) -> Schedule:
        """A scheduler of an optimizer's learning rates that goes by the run's time: at a step of
        the run they are the same for a peer that joined late, or came back after a crash. The rates
        that the optimizer has now are the highest.

        shape: cosine, linear, constant or warmup_stable_decay, or a function that gives the rates'
            factor for the part of the run that is over, from 0 to 1. warmup: the steps in which the
            rates rise before that; below 1 it is a part of the run. min_lr_rate: what is left of
            the rates at the end. total_steps: of a loop that no run is given.
        """
        made = Schedule(
            optimizer, shape, warmup=warmup, min_lr_rate=min_lr_rate, total_steps=total_steps,
            of=lambda: self,
        )
        self.followers.append(made.update)
        return made

    def reset(self) -> None:
        super().reset()
        drop_not_finite(self._optimizers)

    @property
    def page_locked(self) -> Optional[bool]:
        """Whether copies between this rank's GPUs and the node's memory run beside the processor.
        None if the model is on no GPU, and outside the with block."""
        return self._model.page_locked if self._model is not None else None


def _as_list(optimizer: Union[None, Any, Iterable[Any]]) -> list[Any]:
    if optimizer is None:
        return []
    if isinstance(optimizer, (list, tuple)):
        return [innermost(o) for o in optimizer]
    return [innermost(optimizer)]
