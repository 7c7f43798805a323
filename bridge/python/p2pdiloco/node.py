"""A peer of a run, for a training loop with a flat float32 vector of parameters."""

from __future__ import annotations

import ctypes
import json
import threading
import time
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional

from . import library, settings
from .errors import (
    AGAIN,
    CLOSED,
    ENDED,
    INVALID,
    OK,
    Closed,
    Ended,
    Error,
    Invalid,
    NotYet,
    error_of,
)
from .vector import Vector

Event = dict[str, Any]
"""What happened on a node: "event" is its name, and docs/operations/events.md has the others."""

_SLICE = 0.1  # seconds that one call waits at most: between two, Python handles signals
_ENDING = 3.0  # seconds for the last events of a node that has left


class Node:
    """One process's part in a run.

        with p2pdiloco.Node("my-run", layout=[("w", (1000,))], bootstrap=[...]) as node:
            node.anchor(params)
            while not node.ended:
                train(params)                       # inner steps
                node.sync(params, weight=tokens)

    The constructor returns at once; the node looks for the run, or founds it, in the background.

    run: the name of the run.
    layout: (name, shape) of each tensor, in the order in which they lie in the vector; None adopts
        the run's layout.
    initial: the vector to start from if this peer founds the run; None means zeros.
    on_event: called with every event, in the thread that calls a method of this node, while that
        method waits and in progress().
    leave_timeout: seconds that leaving waits at most for the others.
    options: those of `p2pdiloco join`, with _ for -.

    Methods raise the classes of p2pdiloco.errors. One thread at a time may call those that take a
    vector. A vector is anything with the buffer protocol that holds float32, with as many elements
    as the layout; the node keeps none.

    Leaving the with block, Ctrl-C and sys.exit leave the run, so that the others go on at once. Any
    other exception closes the node: to the others that is a crash, and a process that is started
    again with the same data_dir carries on as the same member.
    """

    def __init__(
        self,
        run: Optional[str] = None,
        *,
        layout: Optional[Iterable[settings.Tensor]] = None,
        initial: Any = None,
        on_event: Optional[Callable[[Event], None]] = None,
        leave_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        self.leave_timeout = leave_timeout
        self.ended = False
        """Whether the run is over. The vector of the call that set it holds the last model."""
        self.begun = False
        """Whether a begin waits for its finish."""
        self._over = False  # the run ended before the begun contribution was offered
        self._on_event = on_event
        self._last: dict[str, Any] = {"phase": "closed"}
        start = None if initial is None else Vector(initial, writable=False)
        self._library = library.load()
        self._handle = library.Handle()
        self._initial = [start]  # the library reads it until there is an anchor
        self._close = weakref.finalize(self, _close, self._library, self._handle, self._initial)
        try:
            self._library.join(
                self._handle,
                settings.encode(run, layout, options),
                None if start is None else start.address,
                0 if start is None else start.elements,
            )
        except BaseException:  # KeyboardInterrupt, too, though there is a node by then
            self._close()
            raise

    @property
    def closed(self) -> bool:
        """Whether this node has been left or closed, or belongs to another process."""
        return self._library.forked or not self._close.alive

    def anchor(self, params: Any, timeout: Optional[float] = None) -> int:
        """Waits until this peer is a member and holds the run's state, and copies the anchor into
        params: where inner steps begin. It returns the number of outer steps in it. After the run's
        last one, ended is set. NotYet after timeout seconds."""
        slot = self._receive("anchor", params, timeout)
        self._initial.clear()
        return slot

    def sync(self, params: Any, weight: int) -> int:
        """One round: contributes anchor - params with this weight (tokens or samples processed, the
        same unit on all peers), waits until the slot is agreed, and overwrites params by the new
        anchor. It returns the number of outer steps in it. After the run's last one, ended is set.

        An exception while it waits, such as KeyboardInterrupt, leaves the round begun: finish, or
        another sync, which then ignores what params hold, ends it."""
        if not self.begun:
            self.begin(params, weight)
        self.poll(None)
        return self.finish(params)

    def begin(self, params: Any, weight: int) -> None:
        """The first part of sync: offers the contribution. params are free again on return."""
        if self.ended:
            raise Ended("the run is over: there is no round left to contribute to")
        vector = Vector(params, writable=False)
        begun_before, self.begun = self.begun, True  # should an exception keep the answer from us
        code, text = self._call("begin", vector.address, vector.elements, weight)
        if code not in (OK, ENDED):
            self.begun = begun_before
            raise error_of(code, text)
        self._over = code == ENDED

    def poll(self, timeout: Optional[float] = 0) -> bool:
        """Says whether the round is over, and finish will not wait. None waits until it is."""

        def ask(milliseconds: int) -> tuple[int, str]:
            code, text = (OK, "") if self._over else self._call("poll", milliseconds)
            return (OK, "") if code == INVALID and self.begun else (code, text)

        try:
            self._wait(timeout, ask)
        except NotYet:
            return False
        return True

    def finish(self, params: Any, timeout: Optional[float] = None) -> int:
        """The last part of sync: waits, and overwrites params by the new anchor."""
        try:
            slot = self._receive("anchor" if self._over else "finish", params, timeout)
        except (NotYet, Invalid):  # the round goes on: ask again, with a vector that fits
            raise
        except Error:
            self.begun = self._over = False
            raise
        self.begun = self._over = False
        return slot

    def progress(self, steps: int) -> None:
        """Reports how many inner steps of this round are done, so that the others see that this
        peer is at work. It is cheap: call it after each step."""
        self._library.progress(self._handle, steps)
        self._tell()

    def status(self) -> dict[str, Any]:
        """The node's status: the document of `p2pdiloco status --json`, and "task" once there is
        one. For a closed node it is the last known status."""
        text = "" if self.closed else self._library.status(self._handle)
        if text:
            self._last = json.loads(text)
        return self._last

    def event(self, timeout: Optional[float] = 0) -> Optional[Event]:
        """The next event, or None if there is none in this time. It raises Closed after the last
        event of a closed node. The newest 1024 are kept. Do not call it on a node with on_event."""
        found = ""

        def ask(milliseconds: int) -> tuple[int, str]:
            nonlocal found
            code, found = self._library.event(self._handle, milliseconds)
            return code, "the node is closed, and there are no more events of it"

        try:
            self._wait(timeout, ask, tell=False)
        except NotYet:
            return None
        return dict(json.loads(found))

    def events(self) -> Iterator[Event]:
        """All events, from the oldest that is kept to the last one of the closed node."""
        while True:
            try:
                event = self.event(None)
            except Closed:
                return
            if event is not None:
                yield event

    def leave(self, timeout: Optional[float] = None) -> None:
        """Announces that this peer leaves, waits timeout seconds (default: leave_timeout) at most
        for the others to agree, and closes the node. KeyboardInterrupt meanwhile closes it at once.
        On a closed node it does nothing."""
        if self.closed:
            return
        self.status()
        milliseconds = _milliseconds(self.leave_timeout if timeout is None else timeout)
        outcome: list[tuple[int, str]] = []
        # In a thread of its own: a signal is handled by the one that waits for it.
        thread = threading.Thread(
            target=lambda: outcome.append(self._call("leave", milliseconds)),
            name="p2pdiloco leave",
            daemon=True,
        )
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_SLICE)
                self._tell()
        finally:
            self.close()
        if outcome and outcome[0][0] not in (OK, CLOSED):
            raise error_of(*outcome[0])

    def close(self) -> None:
        """Closes the node at once; to the others it looks like a crash. It never raises."""
        if self.closed:
            return
        self.status()
        self._close()
        self.begun = False
        self._tell(until=time.monotonic() + _ENDING)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *rest: object) -> None:
        if kind is None or issubclass(kind, (KeyboardInterrupt, SystemExit)):
            self.leave()
        else:
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a p2pdiloco node belongs to the process that made it and cannot be pickled: "
            "keep it out of datasets and of what is passed to other processes"
        )

    def _receive(self, name: str, params: Any, timeout: Optional[float]) -> int:
        """Calls a function of the library that waits for an anchor and writes it to params."""
        vector, slot = Vector(params), ctypes.c_uint64()

        def ask(ms: int, name: str = name) -> tuple[int, str]:
            code, text = self._call(name, vector.address, vector.elements, ms, ctypes.byref(slot))
            if code == INVALID and name == "finish":
                # Is there no round? An exception, like KeyboardInterrupt, that came after the call
                # was done keeps its answer from us. Then there is an anchor.
                other, why = ask(ms, "anchor")
                if other in (OK, ENDED, AGAIN):
                    return other, why
            return code, text

        code = self._wait(timeout, ask)
        self.ended = self.ended or code == ENDED
        return slot.value

    def _call(self, name: str, *arguments: Any) -> tuple[int, str]:
        return self._library.call(name, self._handle, *arguments)

    def _wait(
        self,
        timeout: Optional[float],
        call: Callable[[int], tuple[int, str]],
        tell: bool = True,
    ) -> int:
        """Calls, for a short time each, until the answer is OK or ENDED, which it returns."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if deadline is None else max(0.0, deadline - time.monotonic())
            code, text = call(_milliseconds(min(left, _SLICE)))
            if tell:
                self._tell()
            if code in (OK, ENDED):
                return code
            if code != AGAIN:
                raise error_of(code, text)
            if left <= _SLICE and deadline is not None and time.monotonic() >= deadline:
                raise NotYet(text or f"not within {timeout} s: nothing is lost, ask again")

    def _tell(self, until: float = 0.0) -> None:
        """Passes events to on_event: those that are there, or all until a given time or the last
        one."""
        while self._on_event is not None:
            left = max(0.0, until - time.monotonic()) if until else 0.0
            code, text = self._library.event(self._handle, _milliseconds(min(left, _SLICE)))
            if code == OK:
                self._on_event(json.loads(text))
            elif code == CLOSED or left == 0.0:
                return


def _milliseconds(seconds: float) -> int:
    return round(max(0, min(1000 * seconds, 2**31 - 1)))


def _close(lib: library.Library, handle: library.Handle, initial: list[Optional[Vector]]) -> None:
    """Closes a node that was garbage collected, or that is open when the interpreter ends."""
    if handle.value:
        try:
            lib.call("close", handle)
        except Error:
            pass
    initial.clear()
