"""A trainer's part in a run, whatever holds the model.

An inner step is an optimizer step (hooks.py), or a call of step(). When those of a TRAIN are done,
the rank offers them and does what the node asks for, until it asks for the next ones (session.py).
All of this happens in the thread that calls step.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional, Sized, TypeVar, Union

from . import lines, settings, trackers
from .attach import rendezvous, statedir, status
from .attach.events import Event, Events
from .attach.session import Held, Offer, Session
from .attach.view import View
from .attach.wire import STATE_STAYS, Message
from .data import PartSampler, Place, read_parts
from .errors import Busy, Closed, Error, Invalid
from .hooks import StepHook
from .metrics import Metrics, Tally

if TYPE_CHECKING:
    from .hf import Names

_log = logging.getLogger("p2pdiloco")

T = TypeVar("T")
Self = TypeVar("Self", bound="Loop")

_LEAVING = 60.0  # seconds for a node that leaves its run
_AGAIN = 0.5  # seconds between two attempts meanwhile
_LOOK = 0.05  # seconds between two looks at the status
_ONE = (
    "this process trains in this run already: one process is one peer. End that with block, or "
    "call leave(), before the next; or start the second peer as a process of its own"
)
_NOT_LEFT = "something in this process has started in this run before, and has not left it"
_OF_A_MODULE = ("keep", "buffers", "frozen", "mesh", "process_group")
_MOST = 1 << 56  # weight of a contribution
_NOT_HERE = ("layout", "initial", "trainer")


class Steps(int):
    """Steps done of the run's time, a number. Called, as in d.step(), it counts an inner step."""

    def __new__(cls, done: int, count: Callable[[], None]) -> Steps:
        steps = super().__new__(cls, done)
        steps._count = count  # type: ignore[attr-defined]
        return steps

    def __call__(self) -> None:
        self._count()  # type: ignore[attr-defined]


class Loop:
    """What DiLoCo and Flat have in common; they say what is held, and who the ranks are."""

    def __init__(
        self, run: Optional[str], *, ticket: Optional[str], sync_every: Optional[int],
        tokens_per_step: int, node_timeout: float, leave_timeout: float,
        on_event: Optional[Callable[[Event], None]], tracker: trackers.Named,
        options: dict[str, Any],
    ) -> None:
        sync_every = options.pop("inner_steps", None) or sync_every  # two names of one thing
        if sync_every is not None and sync_every < 1 or tokens_per_step < 0:
            raise Invalid(
                f"sync_every={sync_every}, tokens_per_step={tokens_per_step}: sync_every is at "
                "least 1, and tokens_per_step, the weight of a step, at least 0"
            )
        for name in _NOT_HERE:
            if name in options:
                raise Invalid(
                    f"{name}= is for trainers that p2pdiloco starts: here the model is yours, so "
                    "leave it out"
                )
        for name in _OF_A_MODULE:
            if name in options:
                raise Invalid(
                    f"{name}= is for DiLoCo, which knows a module: a Flat shares its vector alone. "
                    "Put into that what the peers are to average, and save the rest yourself, with "
                    "state_dict()"
                )
        if ticket is not None:
            options["ticket"] = ticket
        self._quiet = str(settings.value(options, "quiet") or "").lower() in ("true", "1")
        options.pop("quiet", None)
        self._socket = os.environ.get(rendezvous.SOCKET_VARIABLE, "")
        self.enabled = bool(self._socket) or settings.given(
            run, {**options, "sync_every": sync_every}
        )
        """Whether there is a run to take part in."""
        if self.enabled and getattr(multiprocessing.current_process(), "_inheriting", False):
            raise Error(
                "multiprocessing has started this process, which runs the script once more and "
                "would be another peer: put what trains below if __name__ == \"__main__\":"
            )
        self.sync_every = sync_every or 0
        """Inner steps of the part of a round under way; before, those that were asked for."""
        self.total_steps = 0
        """Inner steps of the run, from its first to its last round; 0 until it is known."""
        self._wanted, self._tokens_per_step = sync_every, tokens_per_step
        self._timeouts = (node_timeout, leave_timeout)
        named = self.enabled and not self._socket
        self._named = settings.identity(run, options) if named else ("", "")
        self._run, self._options = run, options
        self._on_event = on_event
        trackers.check(tracker)
        self._tracks, self._tracker = tracker, None  # type: Any, Optional[trackers.Tracker]
        self._figures: tuple[int, Metrics, dict[str, float]] = (0, Metrics(), {})
        self._events: Optional[Events] = None
        self._ranks = rendezvous.Ranks()
        self._held: Optional[Held] = None
        self._hook_on: Any = None  # an optimizer whose steps count
        self._node: Union[rendezvous.Given, rendezvous.Own, None] = None
        self._session: Optional[Session] = None
        self._hook: Optional[StepHook] = None
        self._train: Optional[Message] = None
        self._place = Place()
        self._tally = Tally()
        self._told = False  # weights come from tokens, not from the number of steps
        self._began = 0.0  # when the inner steps of the TRAIN began
        self._view = View()
        self._over = False  # the run had ended when its node was left
        self._torn = False  # an exception, like KeyboardInterrupt, has ended a border half way
        self._trained = False  # the model is not an anchor any more
        self._counted = False  # some inner step was
        self._time = (0, 0, 0, 1)  # of this round: begin and end, and steps done and to do in it
        self.sampler_fn: Optional[Callable[[str], str]] = None
        """Answers a prompt of the dashboard with the model, which is the newest anchor then,
        between two rounds, in eval mode and without gradients. All ranks of a peer call theirs."""
        self.followers: list[Callable[[], None]] = []
        """What is called when an inner step is counted, and when a round begins."""
        self._lock = threading.RLock()  # of the round
        self._inside = False  # of its with block
        self._private: Any = None  # what is kept
        self._steps: list[Any] = []  # what calls step at the beginning of an inner step
        self._firsts: list[StepHook] = []
        self._whole = True  # the caller's inner step is, and the next has not begun
        self._thread = 0  # that has started it
        self._resume: dict[str, Any] = {}
        self._made: Optional[pathlib.Path] = None  # the file of init, for the node

    # Taking part.

    def start(self: Self) -> Self:
        """Joins the run and loads its model, as entering the with block does."""
        if not self.enabled or self._held is None:
            return self
        if self._session is not None:
            raise Error("this DiLoCo has started already: call leave() or close() first")
        self._take_over()
        if self._ranks.rank == 0:
            lines.show(self._quiet)
            _log.info("%sthis peer starts", f"run {self._run}: " if self._run else "")
        self._node = self._find_node()
        try:
            self._session = self._attach(self._node, self._held)
        except Busy:
            self._node.release()
            raise
        except BaseException:
            self._node.give_up()
            self._node.release()
            raise
        self._node.met(self._session.node_pid)
        try:
            self._border(None)
            if self._made is not None:
                self._made.unlink(missing_ok=True)
            self._same_steps()
            self._only_one()
            if self._hook_on is not None:
                self._hook = StepHook(self._hook_on, self._step, self._next)
            others = [one for one in self._steps if one is not self._hook_on]
            self._firsts = [StepHook(one, None, self._next) for one in others]
        except BaseException as err:
            self.__exit__(type(err))
            raise
        return self

    def _others(self) -> list[Loop]:
        """What else of this process takes part in a run, as the same rank."""
        return [
            loop for loop in _loops if loop is not self and loop._session is not None
            and not loop._session.forked and loop._ranks.rank == self._ranks.rank
        ]

    def _take_over(self) -> None:
        """Goes on as the peer that this process is in the run already, as where the cell of a
        notebook is run again. It would be a second member, and both wait for each other's steps."""
        for other in self._others():
            if (other._socket, other._named) != (self._socket, self._named):
                continue
            data_dir = [settings.value(one._options, "data_dir") for one in (other, self)]
            if other._works() or len({*data_dir}) > 1:
                raise Busy(_ONE)
            _log.warning("%s: it is closed, and this one goes on as the same peer", _NOT_LEFT)
            other.close()
        self._thread = threading.get_ident()
        _loops.add(self)

    def _only_one(self) -> None:
        """The same where the run was named in another way, as by a ticket: they are two members."""
        mine = self._session.info if self._session is not None else None
        for other in self._others():
            info = other._session.info if other._session is not None else None
            if mine is None or info is None or not mine.run_id == info.run_id != "":
                continue
            if other._works():
                self.leave()
                raise Busy(_ONE)
            _log.warning("%s: it leaves the run, and this one is the peer", _NOT_LEFT)
            other.leave()

    def _works(self) -> bool:
        """Whether it may be in use: in its with block, or in another thread."""
        return self._inside or self._thread != threading.get_ident()

    def _attach(self, node: Union[rendezvous.Given, rendezvous.Own], held: Held) -> Session:
        """Attaches. A node of this directory that is just leaving is waited for: after it another
        one is started."""
        until = time.monotonic() + _LEAVING
        while True:
            try:
                return Session(
                    node.find, held, rank=self._ranks.rank, world=self._ranks.world,
                    set=self._ranks.set, run=self._run or "", node_timeout=self._timeouts[0],
                    idle=self._tell if self._events is not None else None, sample=self._sample,
                    state=STATE_STAYS if self._resume else 0,
                )
            except Closed as err:
                if isinstance(node, rendezvous.Given) or time.monotonic() > until:
                    raise
                _log.info("waiting for the end of a node: %s", err)
                time.sleep(_AGAIN)

    def _find_node(self) -> Union[rendezvous.Given, rendezvous.Own]:
        if self._socket:
            if self._options and self._ranks.rank == 0:
                _log.warning(
                    "the node is there already: %s are not for it", ", ".join(sorted(self._options))
                )
            if self._on_event is not None:
                _log.warning(
                    "on_event is for a node that is started here: see p2pdiloco join --events FILE"
                )
            return rendezvous.Given(self._socket)
        options = dict(self._options)
        given = settings.value(options, "data_dir")
        options.pop("data_dir", None)
        if self._run is not None:
            options["run"] = self._run
        if self._wanted is not None:
            options["inner_steps"] = self._wanted
        claim = None
        if not given:
            folder = statedir.of_run(*settings.identity(self._run, self._options))
            claim = statedir.Claim(folder, self._ranks.set, self._ranks.rank)
        where = (claim.path if claim else pathlib.Path(given).expanduser()).absolute()
        if self._on_event is not None:
            file = options.setdefault("events", str(where / "events.jsonl"))
            self._events = Events(pathlib.Path(file), self._on_event)
        init = settings.value(options, "init")
        return rendezvous.Own(
            where, options, start=self._ranks.rank == 0, claim=claim,
            init=(lambda: self._initial(where, str(init))) if init else None,
        )

    def _initial(self, where: pathlib.Path, init: str) -> Optional[str]:
        """The file that a node in a data directory founds its run from, which is removed once it is
        a member; None if it has been one before."""
        from . import hf as folders

        self._made = where / "init.safetensors"
        if any((where / "state").glob("*")) or self._held is None:
            return None
        layout = {t.name: tuple(t.shape) for t in self._held.tensors}
        folders.convert(init, layout, self._names(), str(self._made))
        return str(self._made)

    def _sample(self, prompt: str) -> Optional[str]:
        return self.sampler_fn(prompt) if self.sampler_fn is not None else None

    def _names(self) -> Names:
        from .hf import Names

        return Names()

    def _same_steps(self) -> None:
        """Refuses a run with another number of inner steps than the caller wants."""
        info = self._session.info if self._session is not None else None
        if self._wanted is None or info is None or info.inner_steps in (0, self._wanted):
            return
        raise Invalid(
            f"sync_every={self._wanted}, and the run has inner_steps {info.inner_steps}: leave "
            "sync_every out to adopt the run's"
        )

    def leave(self) -> None:
        """Leaves the run so that the others go on at once, and removes the hook. KeyboardInterrupt
        meanwhile closes at once."""
        self._unhook()
        session = self._session
        if session is None:
            return
        self.status()
        self._session, self._over = None, session.ended
        session.leave(run=True)
        if self._node is not None:
            self._node.wait(self._timeouts[1])
            self._node.release()
        if self._events is not None:
            self._events.close()
        self._view.left(session)

    def close(self) -> None:
        """Detaches from the node at once, which waits for another trainer, and removes the hook."""
        self._unhook()
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._over = session.ended
            self._view.left(session)
        if self._node is not None:
            self._node.release()

    def __enter__(self: Self) -> Self:
        self._inside = True
        try:
            return self.start()
        except BaseException:
            self._inside = False
            raise

    def __exit__(self, kind: Optional[type[BaseException]], *rest: object) -> None:
        self._inside = False
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
        for first in self._firsts:
            first.remove()
        self._firsts = []
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()

    # Training.

    @property
    def step(self) -> Steps:
        """Inner steps that are over of the run's time: those of its rounds before this one, whoever
        did them, and this peer's of this round. A peer that has joined late, or came back, has the
        same number as the others. Calling it, d.step(), counts an inner step, and does the round if
        one is due: a loop does so where no optimizer's steps are counted."""
        begin, end, done, whole = self._time
        over = min(done + self._tally.steps, whole) * (end - begin) // whole
        return Steps(self.total_steps if self.finished else begin + over, self._step)

    @property
    def progress(self) -> float:
        """The part of the run that is over, from 0 to 1: for schedules of any kind."""
        return self.step / self.total_steps if self.total_steps else 0.0

    def _next(self) -> None:
        """The caller begins an inner step, so the last one is whole, with a scheduler's part."""
        session = self._session
        if session is None or session.forked:
            return
        with self._lock:
            self._whole = True
            if self._private is not None and self._private.whole():
                self._followed()

    def _step(self) -> None:
        """Counts an inner step. Threads that step one optimizer take turns."""
        session = self._session
        if session is None or session.forked:  # where another thread may have had the lock
            return
        with self._lock:
            if not self.finished:
                self._count(session)

    def _count(self, session: Session) -> None:
        self._tally.steps += 1
        if self._private is not None:
            self._private.stepped()
        self._trained = self._counted = True
        self._whole = False
        if self._torn or self._train is None:
            self._anew(0)
            return
        session.progress(self._tally.steps)
        self._tell()
        if self._tally.steps >= self._train.steps or self._gives_up(session):
            self._border(self._offer())
        else:
            self._followed()

    def _followed(self) -> None:
        for follow in self.followers:
            follow()

    def _gives_up(self, session: Session) -> bool:
        """Asks the node, where it has named the steps done, whether to go on."""
        while 0 < session.look <= self._tally.steps:
            self._torn = True  # until the answer is there, as at a border
            goes_on = session.at(session.look)
            self._torn = False
            if not goes_on:
                return True
        return False

    def force_sync(self) -> None:
        """Ends the round now instead of after all its steps: contributes what was trained, waits
        until it is applied, and loads the anchor. The model is then the one that all peers agreed
        on, for an evaluation or a checkpoint. It takes as long as the others need for the slot; in
        mode streaming, for one slot of each fragment. All ranks call it after the same step."""
        session = self._session
        if session is None or self.finished:
            return
        with self._lock:
            if self._torn or self._train is None:
                self.reset()
            if self._mode() == "sync":
                if self._tally.steps > 0:
                    self._border(self._offer())
            elif self._trained:
                self._drain(session)

    def _mode(self) -> str:
        info = self._session.info if self._session is not None else None
        return str(info.mode) if info is not None else "sync"

    def _drain(self, session: Session) -> None:
        """Contributes what was trained in a mode that trains beside the slot in flight, waits until
        that is applied, and loads the anchor."""
        if self._train is None or status.read(session.data_dir) is None:
            raise Error(
                "force_sync asks the node how far the run is, and its API does not answer: start "
                "the node without api=\"off\""
            )
        slots = 1
        if self._mode() == "streaming" and session.info is not None:
            slots = int(json.loads(session.info.spec or "{}").get("fragments") or 1)
        last = self._train.slot + slots - 1
        while self._train is not None and self._train.slot <= last:
            self._border(self._offer(least=1 if self._ranks.rank == 0 else 0))
        while not self.finished:
            found = status.read(session.data_dir)
            if found is None or int(found.get("slot") or 0) >= last:
                return self._anew(STATE_STAYS)
            self._tell()
            time.sleep(_LOOK)

    def tokens(self, n: int) -> None:
        """Counts n tokens, or samples, towards the weight of this peer's next contribution. Without
        it a round weighs its steps, times tokens_per_step. All peers must count the same thing, and
        of ranks that train on the same data one."""
        with self._lock:
            weight = self._tally.weight + int(n)
            if n < 0 or weight >= _MOST:
                raise Invalid(
                    f"tokens({n}): a weight is 0 or more, and of a round below {_MOST:,}: count "
                    "tokens or samples"
                )
            self._tally.weight = weight
        self._told = True

    def report(self, loss: Any) -> None:
        """Takes a step's loss, a number or a scalar tensor, for metrics.loss. It does not wait for
        a GPU."""
        self._tally.report(loss)

    def batches(self, data: Iterable[T], repeat: bool = False) -> Iterator[T]:
        """Yields from data until the run has ended. With repeat it starts again at the end of data,
        which must give something every time. If no run is given, it goes through data once."""
        while not self.finished:
            empty = True
            for batch in data:
                empty = False
                yield batch
                if threading.get_ident() == self._thread:  # else they are read ahead
                    self._next()
                if self.finished:
                    return
            if not repeat or not self.enabled:
                return
            if empty:
                raise Invalid(
                    "repeat=True, and data gives no batch: an iterator that is used up does not "
                    "begin again (give the loader itself), and drop_last leaves out all of a share "
                    "that is smaller than a batch"
                )

    def sampler(self, data: Sized, batch_size: int = 1, *, shard: bool = True) -> PartSampler:
        """The indices of a map-style dataset that this rank trains on, as a sampler for a
        DataLoader. batch_size is the number of samples of an inner step of all ranks together; see
        PartSampler. Without shard, all ranks get the indices of all of them, for a library that
        divides them itself."""
        rank, ranks = (self._ranks.rank, self._ranks.world) if shard else (0, 1)
        return PartSampler(data, batch_size, lambda: self._place, rank=rank, ranks=ranks)

    def parts(self, read: Callable[[int], Iterable[T]]) -> Iterator[T]:
        """The items that this peer trains on, for data that cannot be indexed. It yields from
        read(part), which gives the items of a part from its beginning, and goes on with the next
        part when the round changes. It does not end, so wrap it in batches(). The ranks of a box
        get the same items: leave out those of the others in read."""
        return read_parts(read, lambda: self._place)

    @property
    def part(self) -> int:
        """The number of the part of the data that this round is to train on."""
        return self._place.part

    def reset(self) -> None:
        """Loads the anchor again and so discards the inner steps since the last round. Call it, in
        all ranks, to go on after NotFinite. What keep has goes back to the beginning of the round,
        too. Without keep the optimizer's state stays, but for what is not finite in it."""
        self._whole = True
        self._anew(0)

    def _anew(self, state: int) -> None:
        """Attaches again. state: what is said of what keep has (wire.Message, HELLO)."""
        session = self._session
        if session is None:
            return
        with self._lock:
            if self.finished:
                return
            session.state = state or self._stays()
            session.reset()
            self._border(None, random=False)
            self._trained = False

    def _stays(self) -> int:
        """What is said of the private state in the midst of a round (wire.Message, HELLO)."""
        return STATE_STAYS if self._private is None else 0

    # The caller's own checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """This rank's position in the round, to be saved beside the model's and the optimizer's
        state. Who this peer is, and the anchor, are in the node's data_dir."""
        info = self._session.info if self._session is not None else None
        if info is None:
            return dict(self._resume)
        tally = self._tally
        return {
            "run_id": info.run_id, "slot": tally.slot, "steps": tally.steps, "weight": tally.weight,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where state_dict was taken, if the run is still at that slot; load the model's
        state before, and call it on all ranks. If the run has gone on, or its mode is not sync, the
        run's anchor replaces the model, and a new round begins. It may be called before start or
        afterwards."""
        self._resume = dict(state)
        self._anew(STATE_STAYS)

    def _takes_up(self, train: Message, copy: Any) -> None:
        """Puts the loaded state in the place of the anchor, if it grew from it."""
        state, self._resume = self._resume, {}
        info = self._session.info if self._session is not None else None
        here = {"run_id": info.run_id if info is not None else "", "slot": train.slot - 1}
        if self._held is None or self._mode() != "sync" or state.get("steps", 0) >= train.steps:
            return
        if any(state.get(name) != value for name, value in here.items()):
            return
        self._held.put(copy)
        self._tally.steps, self._tally.weight = state["steps"], state["weight"]
        self._told = self._told or state["weight"] > 0

    # Looking.

    @property
    def finished(self) -> bool:
        """Whether the run is over. The model is its last one, and further steps are not shared."""
        return self._over if self._session is None else self._session.ended

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
        return self._view.look(self._session) if self.enabled else {"phase": "off"}

    def invite(self, ttl: Optional[str] = None, uses: Optional[int] = None) -> str:
        """A ticket with which others can join this run, as `p2pdiloco invite` prints it. ttl: how
        long it is good, like "12h". uses: newcomers that it admits to a private run."""
        return self._view.ask(self._session, "invite", {"ttl": ttl, "uses": uses}).strip()

    def export(self, *, hf: str, like: Optional[str] = None, force: bool = False) -> None:
        """Writes the run's newest model on this peer's disk as a Hugging Face folder that is not
        there yet. like: the folder that it is to be like, with config.json, the tokenizer, dtypes
        and what the run does not train; None is that of init. A model that holds NaN or infinity is
        refused, unless force is given. Call it on one rank, inside the with block."""
        from . import hf as folders

        init = str(settings.value(self._options, "init") or "")
        like = like or (init[len(folders.PREFIX):] if init.startswith(folders.PREFIX) else None)
        if like is None:
            raise Invalid("nothing says what model this is: give like=, a folder with config.json")
        like, out = os.path.expanduser(like), os.path.expanduser(hf).rstrip(os.sep)
        if os.path.exists(out):
            raise Invalid(f"{out} is there already: choose another name")
        part = f"{out}.part-{os.getpid()}"
        try:
            self._view.ask(self._session, "export", {"out": f"{part}.safetensors", "force": force})
            folders.export(like, f"{part}.safetensors", self._names(), part)
            os.rename(part, out)
        finally:
            pathlib.Path(f"{part}.safetensors").unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)

    def doctor(self) -> dict[str, Any]:
        """What `p2pdiloco doctor --json` finds."""
        return dict(json.loads(self._view.ask(self._session, "doctor", {"json": True})))

    @property
    def metrics(self) -> Metrics:
        """How far this peer and its run are. Printing it gives one line."""
        return self._tally.metrics(self.status())

    @property
    def figures(self) -> dict[str, float]:
        """The newest round's numbers as trackers and libraries log them (Metrics.figures); {}
        before the first. Bytes and weight are those since the figures were asked for before."""
        rounds, before, _ = self._figures
        if rounds != self.rounds:
            now = self.metrics
            self._figures = (self.rounds, now, now.figures(before))
        return self._figures[2]

    def _track(self) -> None:
        """Takes the figures of a round to the tracker, from one rank of a peer."""
        if self._tracks is None or self._ranks.rank != 0 or self._figures[0] == self.rounds:
            return
        if self._tracker is None:
            self._tracker = trackers.Tracker(self._tracks, self._run or "")
        self._tracker.log(self.figures, int(self.step))

    # A round.

    def _weight(self) -> int:
        return self._tally.weight or self._tally.steps * self._tokens_per_step

    def _offer(self, least: int = 0) -> Offer:
        tally = self._tally
        weight = max(self._weight(), least)
        return Offer(
            tally.steps, weight, loss=tally.mean() or 0.0, seconds=time.monotonic() - self._began
        )

    def _border(self, offer: Optional[Offer], random: bool = True) -> None:
        """Offers what was trained, and begins what is to be trained next. An exception on the way,
        like KeyboardInterrupt, leaves the conversation torn; the next step then begins another.
        random: whether the random state goes back with what keep has."""
        session = self._session
        if session is None:
            return
        began, before, self._torn = time.monotonic(), self._train, True
        copy = self._held.copy() if self._resume and self._held is not None else None
        if offer is not None and before is not None:
            # where the next node has that anchor, this rank begins the round after it
            whole = offer.steps >= before.steps and self._private is not None
            session.state = int(before.slot) if whole else self._stays()
            if whole and self._mode() == "sync":
                self._private.end()
        again = self._tally.steps
        try:
            self._train = session.border(offer)
        except Error:  # the session is closed, or closes when reset is called
            self._train = None
            raise
        self._view.glance(session)
        self._torn, self._began = False, time.monotonic()
        self._tell()
        if offer is not None and before is not None:
            went_on = self._train is None or self._train.slot != before.slot
            if went_on and session.contributed:
                self._tally.contribute(offer.tokens)
            self._tally.end(stall=time.monotonic() - began)
        if self._train is None:
            info = session.info
            at = (info.slot if info.root else info.last_slot) if info is not None else 0
            self._tally.begin(int(at) or self._tally.slot)
            self._locate(None)
            self._track()
            return self._followed()
        session.state = self._stays()
        if again and self._tally.slot == self._train.slot - 1 and not session.contributed:
            _log.info("steps 1 to %d of the round are done again", again)
        self._tally.begin(int(self._train.slot) - 1)
        if self._private is not None:
            save, rank = str(self._train.save), self._ranks.rank
            self._private.begin(os.path.join(save, f"rank-{rank}") if save else "", random)
            if self._whole or not (self._hook or self._firsts):
                self._private.whole()
        if self._resume:
            self._takes_up(self._train, copy)
        self._take(self._train)
        self._locate(self._train)
        self._track()
        self._followed()

    def _tell(self) -> None:
        """Passes events on."""
        if self._events is not None:
            self._events.tell()

    def _take(self, train: Message) -> None:
        """Takes a task's place in the data."""
        self.sync_every = train.steps
        self._place = Place(
            train.member, max(train.members, train.member + 1), train.seed, train.part,
            train.part_steps, train.part_done + self._tally.steps, self._place.round + 1,
        )

    def _locate(self, train: Optional[Message]) -> None:
        """Notes which steps of the run's time a task is for: H a round, however many it has."""
        info = self._session.info if self._session is not None else None
        if info is None:
            return
        spec = json.loads(info.spec or "{}")
        h, slots = int(info.inner_steps), int(spec.get("fragments") or 1)

        def border(slot: int) -> int:
            return slot // slots * h + slot % slots * h // slots

        self.total_steps = border(int(info.last_slot)) or self.total_steps
        if train is not None:
            begin, end = border(int(train.slot) - 1), border(int(train.slot))
            done, whole = 0, int(train.steps)
            if spec.get("pace", "steps") == "steps":  # part of it, where a slot lands on the way
                done, whole = int(train.part_done), end - begin
            self._time = (begin, end, done, max(whole, 1))

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} belongs to the process that made it and cannot be pickled: "
            "keep it out of datasets and of what is passed to other processes"
        )


_loops: weakref.WeakSet[Loop] = weakref.WeakSet()  # that were started in this process
