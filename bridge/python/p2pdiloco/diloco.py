"""DiLoCo for a PyTorch training loop.

A round counts optimizer steps (hooks.py). After sync_every of them it gathers the parameters into
one float32 vector (tensors.py), contributes it, and overwrites the parameters with the result that
all peers agreed on (node.py). All of this happens in the thread that calls optimizer.step.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Sized, TypeVar, Union

from . import settings
from .data import Place, PartSampler, read_parts
from .errors import Error, Invalid
from .hooks import StepHook
from .metrics import Metrics, Tally
from .node import Event, Node
from .tensors import FlatTensors, Model, choose

_log = logging.getLogger("p2pdiloco")
_LOOK = 1.0  # seconds between two looks at whether the others are ahead

T = TypeVar("T")


class DiLoCo:
    """Takes part in a run for as long as its with block lasts.

        with DiLoCo(model, optimizer, run="tinygpt", bootstrap=[...], sync_every=500) as d:
            for batch in d.batches(data):
                ...
                optimizer.step()

    Entering the block waits until this peer is a member of the run and loads the run's model. Then
    every sync_every-th optimizer.step() ends with a round. Leaving the block leaves the run. Ctrl-C
    (a second one closes at once) and sys.exit leave it, too. Any other exception closes the node:
    to the others that is a crash, and a process started again with the same data_dir is the same
    member. If no run is given, here or in the environment, the loop trains alone.

    model: a module, or named tensors (a dict, or pairs) if the optimizer does not step the module's
        parameters but, for example, float32 master weights. The names, shapes and order must be the
        same on all peers.
    optimizer: any optimizer with step(). In a list, only steps of the last one count, so step it
        last. None means that you call DiLoCo.step() yourself.
    run: the run's name. None takes P2PDILOCO_RUN, or the run of the config file.
    sync_every: optimizer steps between rounds, the run's inner_steps. None adopts the run's number.
    tokens_per_step: the weight of a step; see tokens().
    buffers: "local" leaves a module's buffers (running statistics) to each peer; "average" makes
        floating-point buffers of the state dict part of the model, averaged like parameters.
    frozen: whether parameters with requires_grad=False are part of the model, too. If they are not,
        nothing compares them, so load the same values on all peers.
    on_event: called with every event of the node (a dict), in the thread that trains.
    leave_timeout: seconds that leaving waits at most for the others.
    options: as p2pdiloco join has them, with _ for -: bootstrap, rounds, start_peers, preset,
        data_dir, outer_lr and so on.
    """

    def __init__(
        self,
        model: Model,
        optimizer: Any = None,
        run: Optional[str] = None,
        *,
        sync_every: Optional[int] = None,
        tokens_per_step: int = 1,
        buffers: str = "local",
        frozen: bool = False,
        on_event: Optional[Callable[[Event], None]] = None,
        leave_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        if buffers not in ("local", "average"):
            raise Invalid(f"buffers={buffers!r}: 'local' or 'average' is allowed")
        sync_every = options.pop("inner_steps", None) or sync_every  # two names of one thing
        if sync_every is not None and sync_every < 1 or tokens_per_step < 1:
            raise Invalid("sync_every and tokens_per_step are at least 1")
        if "layout" in options or "initial" in options:
            raise Invalid("layout and initial parameters are the model's")
        self._optimizers: Sequence[Any] = _as_list(optimizer)
        self.sync_every = sync_every or 0
        """Optimizer steps between rounds; 0 until the run's are known."""
        self.enabled = settings.given(run, options)
        """Whether there is a run to take part in."""
        self._tensors = FlatTensors(
            choose(model, buffers=buffers == "average", frozen=frozen), model
        ) if self.enabled else None
        self._tokens_per_step = tokens_per_step
        self._node_options = dict(
            options, run=run, inner_steps=sync_every, on_event=on_event, leave_timeout=leave_timeout
        )
        self._node: Optional[Node] = None
        self._hook: Optional[StepHook] = None
        self._resume: dict[str, Any] = {}
        self._place = Place()
        self._mode = "sync"
        self._delay = 0  # in mode streaming: steps from begin to finish
        self._slot = 0  # that the place in the data is for
        self._due = 0  # steps of the tally with which the next round is due
        self._tally = Tally()
        self._looked = 0.0
        self._torn = False  # an anchor may be in the vector that is not, or half, in the tensors

    # Taking part.

    def start(self) -> DiLoCo:
        """Joins the run and loads its model, as entering the with block does."""
        if not self.enabled or self._tensors is None:
            return self
        if self._node is not None and not self._node.closed:
            raise Error("this DiLoCo has started already: leave or close it first")
        hook_on = self._optimizers[-1] if self._optimizers else None
        self._tensors.initial()
        self._node = Node(
            layout=self._tensors.layout, initial=self._tensors.buffer, **self._node_options
        )
        try:
            self._receive()
            self._hook = StepHook(hook_on, self.step) if hook_on is not None else None
        except BaseException as err:
            self.__exit__(type(err))
            if isinstance(err, Error) and "inner_steps" in str(err):
                hint = "sync_every is the run's inner_steps: leave it out to adopt it"
                raise type(err)(f"{err} ({hint})") from err
            raise
        return self

    def leave(self) -> None:
        """Leaves the run so that the others go on at once, and removes the hook. KeyboardInterrupt
        meanwhile closes at once. Errors are only logged, because the training is done."""
        self._unhook()
        try:
            if self._node is not None:
                self._node.leave()
        except Error as err:
            _log.warning("leaving the run: %s", err)

    def close(self) -> None:
        """Closes the node at once, which to the others is a crash, and removes the hook."""
        self._unhook()
        if self._node is not None:
            self._node.close()

    def __enter__(self) -> DiLoCo:
        return self.start()

    def __exit__(self, kind: Optional[type[BaseException]], *rest: object) -> None:
        if kind is KeyboardInterrupt:
            _log.warning("leaving the run; Ctrl-C once more closes at once")
        if kind is None or issubclass(kind, (KeyboardInterrupt, SystemExit)):
            self.leave()
        else:
            self.close()

    def _unhook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    # Training.

    def step(self) -> None:
        """Counts an inner step, and does the round if one is due. The hook calls it."""
        if not self._active():
            return
        self._tally.steps += 1
        self._node_or_fail().progress(self._tally.steps)
        if self._torn:
            self.reset()
        elif self._streams:
            self._stream()
        elif self._tally.steps >= self._due:
            self._round()
        elif self._behind():
            self.reset()

    def force_sync(self) -> None:
        """Ends the round now instead of after all its steps: contributes what was trained, waits
        until it is applied, and loads the anchor. The model is then the one that all peers agreed
        on, for an evaluation or a checkpoint. It takes as long as the others need for the slot; in
        mode streaming, for one slot of each fragment. The next round begins from there."""
        if not self._active():
            return
        if self._torn:
            self.reset()
        spec = self.status().get("spec", {})
        slots = int(self._node_or_fail().begun)
        if self._streams:
            slots += int(spec.get("fragments") or 1)
        elif self._tally.steps > 0:
            slots = 1
        for _ in range(slots):
            if not self.finished:
                self._round()
        if self._mode != "sync" and self._active():
            self.reset()

    def tokens(self, n: int) -> None:
        """Counts n tokens, or samples, towards the weight of this peer's next contribution. Without
        it a round weighs its steps, times tokens_per_step. All peers must count the same thing."""
        self._tally.weight += int(n)

    def report(self, loss: Any) -> None:
        """Takes a step's loss, a number or a scalar tensor, for metrics.loss. It does not wait for
        a GPU."""
        self._tally.report(loss)

    def batches(self, data: Iterable[T], repeat: bool = False) -> Iterator[T]:
        """Yields from data until the run has ended. With repeat it starts again at the end of data.
        If no run is given, it goes through data once."""
        while not self.finished:
            for batch in data:
                yield batch
                if self.finished:
                    return
            if not repeat or not self.enabled:
                return

    def sampler(self, data: Sized, batch_size: int = 1) -> PartSampler:
        """The indices of a map-style dataset that this peer trains on, as a sampler for a
        DataLoader. batch_size is the number of samples of an inner step; see PartSampler."""
        return PartSampler(data, batch_size, lambda: self._place)

    def parts(self, read: Callable[[int], Iterable[T]]) -> Iterator[T]:
        """The items that this peer trains on, for data that cannot be indexed. It yields from
        read(part), which gives the items of a part from its beginning, and goes on with the next
        part when the round changes. It does not end, so wrap it in batches()."""
        return read_parts(read, lambda: self._place)

    @property
    def part(self) -> int:
        """The number of the part of the data that this round is to train on."""
        return self._place.part

    def reset(self) -> None:
        """Loads the anchor again and so discards the inner steps since the last round. Call it to
        go on after NotFinite. The optimizer's state stays."""
        if not self._active():
            return
        node, tensors = self._node_or_fail(), self._tensors
        if node.begun and self._streams and tensors is not None:
            node.finish(tensors.buffer)  # what lands in it is overwritten by the anchor
        self._receive()

    # Looking.

    @property
    def finished(self) -> bool:
        """Whether the run is over. The model is its last one, and further steps are not shared."""
        return self._node is not None and self._node.ended and not self._torn

    @property
    def rounds(self) -> int:
        """Rounds that this peer has taken part in, since the process started."""
        return self._tally.rounds

    @property
    def rank(self) -> int:
        """This peer's place among the members, from 0, since the last round."""
        return self._place.rank

    @property
    def world(self) -> int:
        """The number of members at the last round; 1 without a run."""
        return self._place.world

    def status(self) -> dict[str, Any]:
        """The node's status, as `p2pdiloco status --json` prints it: {"phase": "off"} without a
        run, and the last known status after the with block."""
        return {"phase": "off"} if self._node is None else self._node.status()

    @property
    def metrics(self) -> Metrics:
        """How far this peer and its run are. Printing it gives one line."""
        return self._tally.metrics(self.status())

    # The caller's own checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """This peer's position in the round, to be saved beside the model's and the optimizer's
        state. The identity and the anchor are in the node's data_dir."""
        if self._node is None:
            return dict(self._resume)
        tally, run_id = self._tally, self.status().get("run_id")
        return {
            "run_id": run_id, "slot": tally.slot, "steps": tally.steps, "weight": tally.weight
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where state_dict was taken, if the run is still at that slot; load the model's
        state before. If the run has gone on, the model is overwritten by the run's anchor, and a
        new round begins. It may be called before start or afterwards."""
        self._resume = dict(state)
        if self._node is None or self._node.closed:
            return
        if self._takes_up(self._tally.slot):
            self._resume = {}
        else:
            self.reset()

    def _takes_up(self, slot: int) -> bool:
        """Takes the loaded state if it belongs to the anchor of this slot, and says whether it
        does."""
        status = self.status()
        here = {"run_id": status.get("run_id"), "slot": slot}
        if status.get("spec", {}).get("mode", "sync") != "sync":
            return False  # where this round started is not kept over a restart
        if not self._resume or any(self._resume.get(k) != v for k, v in here.items()):
            return False
        self._tally.steps, self._tally.weight = self._resume["steps"], self._resume["weight"]
        return True

    # A round.

    def _active(self) -> bool:
        return self._node is not None and not self._node.closed and not self.finished

    def _node_or_fail(self) -> Node:
        if self._node is None:
            raise Error("this DiLoCo has not started")
        return self._node

    @property
    def _streams(self) -> bool:
        return self._mode == "streaming"

    def _round(self) -> None:
        began = time.monotonic()
        if not self._node_or_fail().begun:  # else an exception ended the wait, and it goes on
            self._begin()
        self._finish(began)

    def _begin(self) -> None:
        node, tensors = self._node_or_fail(), self._tensors
        if tensors is None:
            return
        weight = self._tally.weight or max(1, self._tally.steps) * self._tokens_per_step
        tensors.gather()
        node.begin(tensors.buffer, weight)
        self._tally.contribute(weight)
        if self._streams:  # what follows counts for the next border
            self._tally.begin(self._tally.slot)

    def _finish(self, began: float) -> None:
        node, tensors = self._node_or_fail(), self._tensors
        node.poll(None)
        if self._streams and tensors is not None:
            tensors.gather()  # the slot's fragment lands in it
        self._receive()
        self._tally.end(stall=time.monotonic() - began)
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s", self.metrics)

    def _stream(self) -> None:
        """Does what is due in mode streaming: offers a fragment when its slot is due, and lands it
        delay steps later. A slot that was missed is due at once."""
        node = self._node_or_fail()
        if not node.begun and (self._tally.steps >= self._due or self._behind()):
            self._begin()
        if node.begun and (self._tally.steps >= self._delay or node.ended):
            self._finish(time.monotonic())
        elif node.begun:
            self._move_on()

    def _receive(self) -> None:
        """Begins inner steps from the next anchor. An exception on the way, like KeyboardInterrupt,
        leaves the tensors in an unknown state; the next step then loads the anchor again."""
        node, tensors = self._node_or_fail(), self._tensors
        if tensors is None:
            return
        self._torn = True
        name = "finish" if node.begun else "anchor"
        try:
            slot = getattr(node, name)(tensors.buffer)
        except Error:  # nothing was received
            self._torn = False
            raise
        landed = self._streams and name == "finish"
        self._tally.land(slot) if landed else self._tally.begin(slot)
        tensors.adopt() if self._takes_up(slot) else tensors.load()
        self._resume = {}
        self._torn = False
        self._settle()

    def _settle(self) -> None:
        """Takes the task of the round that begins, or in mode streaming goes on, from the
        status."""
        status = self.status()
        self._looked = time.monotonic()
        self._mode = str(status.get("spec", {}).get("mode") or "sync")
        task = status.get("task") or {}
        steps = int(task.get("inner_steps") or self.sync_every)
        self._delay = int(task.get("delay") or 0)
        self._due = steps + (self._tally.steps if self._streams else 0)
        self.sync_every = self._due
        done = int(task.get("part_done") or 0)
        self._take(task, done if self._streams else done + self._tally.steps)

    def _take(self, task: dict[str, Any], done: int) -> None:
        """Takes a task's place in the data."""
        members = task.get("members") or ()
        world = members if isinstance(members, int) else len(members)
        rank = max(0, int(task.get("rank") or 0))
        self._slot = int(task.get("slot") or 0)
        self._place = Place(
            rank, max(world, rank + 1), int(task.get("seed") or 0), int(task.get("part") or 0),
            int(task.get("part_steps") or 0), done, self._place.round + 1,
        )

    def _move_on(self) -> None:
        """Goes on with the next slot's part of the data as soon as there is one."""
        task = self.status().get("task") or {}
        if int(task.get("slot") or 0) != self._slot:
            self._take(task, self._tally.steps)

    def _behind(self) -> bool:
        """Whether the others are so far ahead that they would drop a contribution of this peer.
        Then the round ends early, and the next one starts from the new anchor."""
        if time.monotonic() - self._looked < _LOOK:
            return False
        self._looked = time.monotonic()
        status = self.status()
        staleness = len(re.findall(r"\d+", str(status.get("spec", {}).get("discount", "")))) - 1
        return int(status.get("slot", 0)) > self._tally.slot + max(0, staleness)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a DiLoCo belongs to the process that made it and cannot be pickled: keep it out of "
            "datasets and of what is passed to other processes"
        )


def _as_list(optimizer: Union[None, Any, Iterable[Any]]) -> list[Any]:
    if optimizer is None:
        return []
    if isinstance(optimizer, (list, tuple)):
        return list(optimizer)
    return [optimizer]
