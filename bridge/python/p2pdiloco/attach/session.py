"""One rank's conversation with the node: who speaks when, and what happens when one is gone.

The node asks and the ranks answer (docs/reference/attach.md, section 3). A training loop calls
border() when it begins and whenever the steps of a TRAIN are done; border answers the node's
requests until it asks for inner steps. All of it happens in the thread that calls.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import logging
import os
import select
import socket
import time
import weakref
from typing import Any, Callable, Optional, Protocol, Sequence

from ..errors import (
    Busy,
    Closed,
    Ended,
    Error,
    Forked,
    Invalid,
    Lost,
    Missed,
    NodeGone,
    NotFinite,
)
from ..lines import spelled
from . import watch, wire
from .memory import Memory
from .watch import Watch
from .wire import Message, Piece, TensorSpec

_log = logging.getLogger("p2pdiloco")
_CLIENT = "python 0.1"
_RETRY = 0.2  # seconds between two attempts to connect
_IDLE = 0.5  # seconds between two calls of idle
_GATHERS = 10.0  # seconds between two looks whether a node lives that waits for other ranks

# Codes of ERROR (docs/reference/attach.md, section 6).
_KINDS: dict[int, type[Error]] = {
    3: Invalid,  # another run
    4: Busy,
    5: Invalid,  # rank or world
    6: Invalid,  # layout
    8: Lost,
    9: NotFinite,
    10: Lost,  # hung
    11: Ended,
    12: Closed,
    13: Missed,
}


class _Own(Exception):
    """Carries a ConnectionError of what the caller has given, as of evaluate, out of border."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Held(Protocol):
    """What a rank holds of the model, as session needs it."""

    @property
    def tensors(self) -> Sequence[TensorSpec]:
        """The run's layout, in flat order."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """The parts of it that this rank holds."""

    def attach(self, memory: Memory, writes: Sequence[bool]) -> None:
        """Takes the memory that a node shares; writes says of each piece whether this rank exports
        it. It is called again when another node, or this one started again, shares another one."""

    def detach(self) -> None:
        """Lets go of the memory, which is unmapped next."""

    def fill(self) -> None:
        """Writes the initial parameters to local."""

    def load(self, begin: int, end: int) -> None:
        """Replaces the live parameters of a range of the flat vector by start's."""

    def export(self, begin: int, end: int, gradient: bool) -> None:
        """Writes a range to local: start - live, or the live parameters."""

    def evaluate(self) -> Optional[float]:
        """The mean held-out loss; None if this trainer has none."""

    @property
    def saves(self) -> bool:
        """Whether the caller saves its private state where a TRAIN names a folder."""

    def restore(self, folder: str, rank: int, world: int) -> bool:
        """Takes the private state back that world ranks have saved in a folder; without one, takes
        back nothing of what it was told. False if this trainer saves nothing."""

    def copy(self) -> Any:
        """A copy of the live parameters, for put."""

    def put(self, copy: Any) -> None:
        """Replaces the live parameters by a copy of them."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a rank says of the inner steps that it has done."""

    steps: int
    tokens: int
    samples: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    seconds: float = 0.0


class Session:
    """A rank that is attached to a node, or on its way there.

    find: gives the socket's path, or None where there is none yet; it is asked again whenever the
        node is gone. rank, world: among the ranks of this box. set: the same text in all of them,
        and another one after every start. run: the run's name; "" takes the node's. connect_timeout
        and node_timeout: seconds to wait for the node at first, and when it is gone, or is there
        and shows no sign of life. idle: called about twice a second while border waits. sample:
        answers a prompt with the live model; None if it cannot.
    """

    def __init__(
        self, find: Callable[[], Optional[str]], held: Held, *, rank: int = 0, world: int = 1,
        set: str = "", run: str = "", connect_timeout: float = 60.0, node_timeout: float = 600.0,
        idle: Optional[Callable[[], None]] = None, state: int = 0,
        sample: Optional[Callable[[str], Optional[str]]] = None,
    ) -> None:
        self._find, self._held = find, held
        self._rank, self._world, self._set = rank, world, set or f"pid {os.getpid()}"
        self._run, self._node_timeout, self._idle = run, node_timeout, idle
        self._sample = sample
        self._resets = 0
        self._watch, self._beat = Watch(), 0
        self._shared = False  # with the node that it is attached to
        self._id = 0
        self._pid = os.getpid()
        _sessions.add(self)
        self._socket: Optional[socket.socket] = None
        self._memory: Optional[Memory] = None
        self._train: Optional[Message] = None
        self.look = 0
        """The number of steps after which at() is to be called; 0 is never."""
        self.info: Optional[Message] = None
        """What the node says of its run; None until it knows it."""
        self.data_dir = ""
        """The node's data directory."""
        self.node_pid = 0
        """The node's process."""
        self.contributed = False
        """Whether the last border has offered steps that count: of no round that was given up, and
        to a node that did not go."""
        self._gave_up = False
        self.state = state
        """What the next HELLO says of the caller's private state: the slot whose round it has
        whole; 0 for none, and STATE_STAYS for one that is not to be replaced."""
        self.ended = False
        """Whether the run has ended. The model is its last one."""
        self._connect(connect_timeout)

    @property
    def forked(self) -> bool:
        """Whether this process is a child, made by fork, of the one that attached."""
        return os.getpid() != self._pid

    # Connecting.

    def _connect(self, timeout: float) -> None:
        """Attaches. While there is no node, or another trainer has it, it tries again."""
        until = time.monotonic() + timeout
        said = False
        while True:
            try:
                return self._attach(max(until - time.monotonic(), watch.QUIET))
            except NodeGone:
                self._drop()
                raise
            except (Busy, OSError) as err:
                self._drop()
                if time.monotonic() > until:
                    raise self._too_late(err, timeout) from err
                if not said and not isinstance(err, FileNotFoundError):
                    _log.warning("waiting for the node of this machine: %s", err)
                    said = True
            except BaseException:
                self._drop()
                raise
            time.sleep(_RETRY)

    @staticmethod
    def _too_late(err: BaseException, timeout: float) -> Error:
        if isinstance(err, Busy):
            return err
        return NodeGone(
            f"no node of this machine answered for {timeout:.0f} s ({err}): start one with "
            "p2pdiloco join --run RUN --trainer attach, or see its log for why it ended"
        )

    def _attach(self, timeout: float) -> None:
        path = self._find()
        if path is None:
            raise FileNotFoundError(errno.ENOENT, "no node listens here")
        self._shared = False
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(None)
        self._socket = connection
        connection.connect(path)
        self._watch.pid, self._watch.data_dir = watch.process(connection), ""
        self._watch.begin(timeout)  # HELLO is answered at once, whatever the node does
        hello = Message(
            wire.HELLO, self._next(), version=wire.VERSION, rank=self._rank, world=self._world,
            set=self._set + (f".{self._resets}" if self._resets else ""), run=self._run,
            client=_CLIENT, saves=int(self._held.saves), state=self.state,
        )
        self._send(hello)
        welcome = self._wait(wire.WELCOME, hello.id)
        if welcome.version >> 16 != wire.VERSION >> 16:
            raise Invalid(
                f"this client speaks attach protocol {wire.VERSION >> 16}, the node "
                f"{welcome.version >> 16}: install the same release of both"
            )
        self.data_dir, self.node_pid = welcome.data_dir, welcome.pid
        self._watch.pid = watch.process(connection, welcome.pid)
        self._watch.data_dir = welcome.data_dir
        patience = max(self._node_timeout, watch.QUIET)  # a busy machine may take some seconds
        alive = functools.partial(watch.answers, path)
        self._watch.begin(patience, alive, _GATHERS)
        layout = Message(
            wire.LAYOUT, self._next(), tensors=tuple(self._held.tensors),
            pieces=tuple(self._held.pieces),
        )
        self._send(layout)
        self._share(*self._wait_with_memory(layout.id))
        self._watch.begin(patience, self._beats)

    def _beats(self) -> bool:
        """Whether the node's beat has moved. It does so whatever the node's rounds do."""
        before, self._beat = self._beat, self._memory.beat() if self._memory is not None else 0
        return self._beat != before

    def _share(self, share: Message, descriptors: list[int]) -> None:
        if len(descriptors) != 2:
            for fd in descriptors:
                os.close(fd)
            raise wire.WireError(f"the node shared {len(descriptors)} descriptors instead of 2")
        mine = sum(t.elements for t in self._held.tensors)
        try:
            memory = Memory(
                descriptors[0], descriptors[1], elements=share.elements, offset=share.offset,
                size=share.size, rank=self._rank,
            )
            if share.elements != mine or len(share.writes) != len(self._held.pieces):
                memory.close()
                raise ValueError(f"{share.elements} elements, and the model has {mine}")
        except (OSError, ValueError, OverflowError) as err:
            raise wire.WireError(
                f"the node shares memory that does not fit this layout: {err}"
            ) from err
        self._unmap()
        self._memory, self._shared = memory, True
        self._held.attach(memory, [b == 1 for b in share.writes])

    # Messages.

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _link(self) -> socket.socket:
        if self.forked:
            raise Forked("this process is a child of the one that attached: attach in it anew")
        if self._socket is None:
            raise Closed("this rank is not attached to a node")
        return self._socket

    def _send(self, message: Message) -> None:
        """Sends a message. If the node has closed the socket, its last word is read and raised."""
        try:
            self._link().sendall(wire.pack(message))
        except (BrokenPipeError, ConnectionResetError):
            while True:  # until the last word, or the end of what was sent
                self._receive()

    def _exactly(self, size: int, descriptors: Optional[list[int]] = None) -> bytes:
        """Reads so many bytes, and takes descriptors that come with them."""
        data = bytearray()
        while len(data) < size:
            while self._silent():
                pass
            if descriptors is None:
                part = self._link().recv(size - len(data))
            else:
                part, fds, _, _ = socket.recv_fds(self._link(), size - len(data), 2)
                for fd in fds:
                    os.set_inheritable(fd, False)
                descriptors.extend(fds)
            if not part:
                raise ConnectionResetError(errno.ECONNRESET, "the node closed the connection")
            self._watch.heard()
            data += part
        return bytes(data)

    def _receive(self, descriptors: Optional[list[int]] = None) -> Optional[Message]:
        """The next message; None if it needs no answer from the caller. ERROR is raised."""
        size, kind, id = wire.unpack_header(self._exactly(wire.HEADER.size, descriptors))
        message = wire.unpack(kind, id, self._exactly(size, descriptors))
        if message is None:
            return None
        if message.kind == wire.ERROR:
            text = spelled(message.text) or f"the node gave no reason (code {message.code})"
            raise _KINDS.get(message.code, Error)(text)
        if message.kind == wire.NOTICE:
            if self._rank == 0 or not self._shared:  # before that, one rank alone is told
                level = logging.WARNING if message.level else logging.INFO
                _log.log(level, "%s", spelled(message.text))
            return None
        if message.kind == wire.INFO:
            self.info = message
            return None
        return message

    def _wait(self, kind: int, id: int, descriptors: Optional[list[int]] = None) -> Message:
        while True:
            message = self._receive(descriptors)
            if message is not None and message.kind == kind and message.id == id:
                return message

    def _wait_with_memory(self, id: int) -> tuple[Message, list[int]]:
        descriptors: list[int] = []
        try:
            return self._wait(wire.SHARE, id, descriptors), descriptors
        except BaseException:
            for fd in descriptors:
                os.close(fd)
            raise

    # Training.

    def border(self, offer: Optional[Offer] = None) -> Optional[Message]:
        """Offers what was trained since the last TRAIN, and does what the node asks for until it
        asks for inner steps. It returns that TRAIN; None is the end of the run. If the node is
        gone, it waits for the next one: then nothing was offered, and the model is the anchor."""
        self.look, self.contributed = 0, False
        try:
            if offer is not None and self._train is not None:
                self._export_for(self._train)
                train, self._train = self._train, None
                self._send(Message(wire.OFFER, train.id, **dataclasses.asdict(offer)))
                self.contributed, self._gave_up = not self._gave_up, False
            self._train = self._serve()
        except Ended:
            self.ended = True
            self.close()
            return None
        except _Own as err:
            raise err.error from None
        except NodeGone:  # it is there, and attaching anew would wait for it as long once more
            self.close()
            raise
        except ConnectionError as err:
            self._reattach(err)
            return self.border()
        except Error:
            self.close()
            raise
        self.look = self._train.look
        return self._train

    def _export_for(self, train: Message) -> None:
        if train.export == wire.GRADIENT and self._memory is not None:
            self._held.export(0, self._memory.elements, gradient=True)

    def _serve(self) -> Message:
        """Answers requests until TRAIN."""
        while True:
            while self._idle is not None and self._silent():
                self._idle()
            message = self._receive()
            if message is None:
                continue
            if message.kind == wire.TRAIN:
                return message
            if wire.FILL <= message.kind < wire.TRAIN:
                self._answer(message)

    def _silent(self) -> bool:
        """Waits until there is something to read, but not for long; whether there is nothing. If
        the node has been quiet for too long, NodeGone is raised."""
        poll, began = select.poll(), time.monotonic()
        poll.register(self._link(), select.POLLIN)
        if poll.poll(1000 * _IDLE):
            return False
        self._watch.silent(time.monotonic() - began)
        return True

    def _answer(self, request: Message) -> None:
        """Does what the node asks for. If that fails, the node and the other ranks are told, and it
        is raised here. A private state that cannot be read is no reason to end."""
        try:
            done = self._do(request)
        except Exception as err:
            failed = Message(wire.DONE, request.id, status=wire.STATUS_FAILED, text=str(err))
            if request.kind == wire.RESTORE:
                return self._send(failed)
            try:
                self._send(failed)
            except ConnectionError:
                pass  # the node is gone as well, and what comes next will show it
            if isinstance(err, ConnectionError):  # not the node's, which would be waited for
                raise _Own(err) from err
            raise
        self._send(Message(wire.DONE, request.id, **done))

    def _do(self, request: Message) -> dict[str, Any]:
        held = self._held
        if request.kind in (wire.LOAD, wire.EXPORT):
            elements = self._memory.elements if self._memory is not None else 0
            if not request.begin <= request.end <= elements:
                raise wire.WireError(
                    f"the node asks for elements {request.begin} to {request.end} of {elements}"
                )
        if request.kind == wire.FILL:
            held.fill()
        elif request.kind == wire.LOAD:
            held.load(request.begin, request.end)
        elif request.kind == wire.EXPORT:
            held.export(request.begin, request.end, request.what == wire.GRADIENT)
        elif request.kind == wire.EVALUATE and request.prompt:
            return self._sampled(request.prompt)
        elif request.kind == wire.EVALUATE:
            loss = held.evaluate()
            return {"status": wire.STATUS_UNSUPPORTED} if loss is None else {"loss": loss}
        elif request.kind == wire.RESTORE:
            if not held.restore(request.folder, self._rank, request.world):
                return {"status": wire.STATUS_UNSUPPORTED}
        return {}

    def _sampled(self, prompt: str) -> dict[str, Any]:
        """What DONE says of a prompt. What goes wrong is for who asked: training goes on."""
        try:
            text = self._sample(prompt) if self._sample is not None else None
            if text is None:
                return {"status": wire.STATUS_UNSUPPORTED}
            cut = str(text).encode(errors="replace")[: wire.MAX_SAMPLE].decode(errors="ignore")
            if cut:
                return {"text": cut}
            why = "it returned an empty text"
        except Exception as err:
            why = f"{type(err).__name__}: {err}"[:1000]
        return {"status": wire.STATUS_FAILED, "text": f"d.sampler_fn: {why}"}

    def at(self, steps: int) -> bool:
        """Asks, after so many steps of a TRAIN, whether to go on. False is to give up: the caller
        calls border with an offer of these steps, or with none if the node is gone."""
        if self._train is None:
            return False
        ask = Message(wire.AT, self._next(), train=self._train.id, steps=steps)
        try:
            self._send(ask)
            go = self._wait(wire.GO, ask.id)
        except NodeGone:
            self.close()
            raise
        except ConnectionError as err:
            self._reattach(err)
            return False
        except Error:
            self.close()
            raise
        self.look = go.look
        if go.answer != wire.GIVE_UP:
            return True
        # After "give up" nothing is exported, and OFFER says how many steps were done.
        self._train, self._gave_up = Message(wire.TRAIN, self._train.id), True
        return False

    def progress(self, steps: int) -> None:
        """Says how many steps of the TRAIN are done; it costs nothing."""
        if self._memory is not None:
            self._memory.progress(steps)

    # The end.

    def _reattach(self, err: BaseException) -> None:
        _log.warning("the node of this machine is gone (%s): waiting for it", err)
        self._train, self._gave_up = None, False
        self._drop()
        self._connect(self._node_timeout)
        _log.info("attached to the node again")

    def reset(self) -> None:
        """Attaches again as a new set, in all ranks: the next border loads the anchor."""
        self._drop()
        self._train, self._gave_up = None, False
        self._resets += 1
        self._connect(self._node_timeout)

    def leave(self, reason: str = "the training loop has ended", run: bool = False) -> None:
        """Says goodbye and closes. run: the peer leaves the run, too."""
        if self._socket is not None and not self.forked:
            message = Message(wire.LEAVE, self._next(), reason=reason, run=int(run))
            try:
                self._socket.sendall(wire.pack(message))
            except OSError:
                pass  # the node is gone already
        self.close()

    def close(self) -> None:
        """Closes the socket and unmaps the memory."""
        self._drop()
        self._train = None
        self._unmap()

    def _unmap(self) -> None:
        if self._memory is None:
            return
        try:
            if not self.forked:  # what is held belongs to the parent, as does its GPU
                self._held.detach()
        finally:
            self._memory.close()
            self._memory = None

    def _drop(self) -> None:
        if self._socket is None:
            return
        if not self.forked:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)  # other processes may still have it open
            except OSError:
                pass  # the node is gone already
        self._socket.close()
        self._socket = None

    def in_child(self) -> None:
        """Closes the socket in a child made by fork, so that the node sees the parent's end."""
        if self._socket is not None:
            self._socket.close()


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _after_fork() -> None:
    for session in _sessions:
        session.in_child()


os.register_at_fork(after_in_child=_after_fork)
