"""Who the ranks of this box are, where its node listens, and how a node is started.

A node is a process of its own. It listens at a socket whose path the file `attach` in its data
directory holds. Where none answers, the first rank starts one; it goes on when this process
crashes, and waits for the next one (trainer_return).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import shutil
import socket
import subprocess
import weakref
from typing import Any, Callable, Mapping, Optional, Sequence

from ..errors import Error, Invalid
from ..lines import spelled
from ..settings import flags
from .statedir import Claim

_log = logging.getLogger("p2pdiloco")

SOCKET_VARIABLE = "P2PDILOCO_ATTACH"
"""Names the socket to a command that `p2pdiloco join --run RUN -- COMMAND` starts."""
_STARTER_VARIABLE = "P2PDILOCO_STARTER"
"""Tells a node that its standard input ends when this process does."""
_USAGE = 2  # exit status of a node whose settings cannot be obeyed
_END = 15.0  # seconds for a node to end that nobody has attached to
BINARY_VARIABLE = "P2PDILOCO_BINARY"
"""Names the node's program."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """A process's place among those that train this machine's part, and what they have in common:
    the same set in all of them, and another one after every start."""

    rank: int = 0
    world: int = 1
    set: str = ""


def ranks_of(
    environment: Mapping[str, str], rank: int, world: int, group: Sequence[int] = ()
) -> Ranks:
    """The ranks of one start of a trainer. Several need a text in common, which the environment of
    torchrun, or that of torch.distributed, has. group: the ranks among all of that start, where
    they are some of them. The host is in the text, because several may have one home folder."""
    host = socket.gethostname()
    if world == 1:
        return Ranks(0, 1, f"pid {os.getpid()} on {host}")
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
    common = ".".join(environment[name] for name in names if environment.get(name))
    if not common:
        raise Invalid(
            f"nothing tells the {world} ranks of this start from those of another: start them with "
            "torchrun, or set MASTER_ADDR and MASTER_PORT in all of them"
        )
    if group:
        common += " " + ",".join(map(str, group))
    return Ranks(rank, world, f"ranks of {common} on {host}")


def number(environment: Mapping[str, str], name: str, default: int) -> int:
    """A variable that holds a number."""
    text = environment.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{name}={text} in the environment: a number is needed") from None


def one_machine(environment: Mapping[str, str], world: int, group: Sequence[int] = ()) -> None:
    """Refuses ranks of several machines: each machine is a peer of its own. group: the ranks among
    all of torchrun's, which numbers those of a machine one after the other."""
    local = number(environment, "LOCAL_WORLD_SIZE", 0)
    rank = number(environment, "RANK", 0)
    first = rank - number(environment, "LOCAL_RANK", rank % local if local else 0)
    away = [rank for rank in group if not first <= rank < first + local]
    if local and local >= world and away:
        raise Invalid(
            f"ranks {', '.join(map(str, away))} of this process_group are on other machines: one "
            "machine is one peer: give process_group= with the ranks of this one"
        )
    if local and local < world:
        raise Invalid(
            f"{world} ranks, and {local} of them on this machine: one machine is one peer: start "
            "torchrun on each machine by itself, or give process_group= with the ranks of this one"
        )


def binary() -> str:
    """The node's program: P2PDILOCO_BINARY, else the one in this package, else that in PATH."""
    given = os.environ.get(BINARY_VARIABLE)
    if given:
        if not os.access(given, os.X_OK) or not os.path.isfile(given):
            raise Invalid(
                f"{BINARY_VARIABLE}={given}: there is no such program, or it may not be executed"
            )
        return given
    packed = pathlib.Path(__file__).resolve().parent.parent / "bin" / "p2pdiloco"
    found = str(packed) if packed.is_file() else shutil.which("p2pdiloco")
    if found is None:
        raise Invalid(
            "the node's program is not there: install a wheel, which has it inside, or build it "
            f"(go build ./cmd/p2pdiloco) and name it in {BINARY_VARIABLE}"
        )
    return found


def environment() -> dict[str, str]:
    """What the node's program is started with."""
    own = (SOCKET_VARIABLE, BINARY_VARIABLE, _STARTER_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in own}


def ask(arguments: Sequence[str]) -> str:
    """What a command of the node's program prints."""
    done = subprocess.run(
        [binary(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=environment(),
    )
    if not done.stdout:
        raise Error(f"p2pdiloco {arguments[0]}: {spelled(done.stderr.strip())}")
    if done.stderr.strip():
        _log.warning("p2pdiloco %s: %s", arguments[0], done.stderr.strip())
    return done.stdout


class Given:
    """A node that is there already, at this socket."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find(self) -> Optional[str]:
        return self._path

    def wait(self, timeout: float) -> None:
        """Waits for nothing: whoever started the node looks after it."""

    def met(self, pid: int) -> None:
        """Does nothing."""

    def give_up(self) -> None:
        """Does nothing."""

    def release(self) -> None:
        """Does nothing."""


class Own:
    """A node with this data directory; if start, one is started where none answers. init: gives the
    file that its run begins with, for a node that is started."""

    def __init__(
        self, data_dir: pathlib.Path, options: Mapping[str, Any], *, start: bool,
        claim: Optional[Claim] = None, init: Optional[Callable[[], Optional[str]]] = None,
    ) -> None:
        self._init = init
        self._dir, self._options, self._starts = data_dir, dict(options), start
        self._claim = claim
        self._log_begin = 0
        self._node: Optional[subprocess.Popen[bytes]] = None
        _owns.add(self)

    def find(self) -> Optional[str]:
        """The path of the socket where it listens; None while there is none."""
        path = self._listens()
        if self._node is not None and self._node.poll() is not None:
            self._ended(self._node.returncode)
        if path is None and self._starts and self._node is None:
            self._start()
        return path

    def _listens(self) -> Optional[str]:
        try:
            path = (self._dir / "attach").read_text(encoding="utf-8").strip()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(path)  # a node that was killed leaves the files behind
            return path
        except OSError:
            return None

    def _ended(self, status: int) -> None:
        """Lets a node that was killed be started again. One that has failed would fail again."""
        self._node = None
        if status == _USAGE:
            text = self._tail().replace("\nSee 'p2pdiloco join --help'.", "")
            raise Invalid(text.removeprefix("p2pdiloco: "))
        if status >= 0:
            raise Error(
                f"the node has ended with status {status} ({self._log_file}):\n{self._tail()}"
            )
        _log.warning("the node was killed by signal %d: it is started again", -status)

    @property
    def _log_file(self) -> pathlib.Path:
        return self._dir / "node.log"

    def _tail(self) -> str:
        try:
            with open(self._log_file, "rb") as f:
                f.seek(self._log_begin)  # before it are the words of an earlier start
                return spelled(f.read()[-2000:].decode(errors="replace").strip())
        except OSError as err:
            return str(err)

    def _start(self) -> None:
        options, secret = dict(self._options), {}
        if options.get("ticket") is not None:  # all users of a machine can read command lines
            secret["P2PDILOCO_TICKET"] = str(options.pop("ticket"))
        try:
            self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as err:
            raise Invalid(f"data_dir={self._dir}: {err}: name a folder that can be made") from err
        if self._init is not None:
            options["init"] = self._init()
        command: Sequence[str] = [
            binary(), "join", "--trainer=attach", f"--data-dir={self._dir}", *flags(options)
        ]
        with open(self._log_file, "ab") as out:
            self._log_begin = out.tell()
            self._node = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=out,
                env={**environment(), **secret, _STARTER_VARIABLE: "stdin"},
                start_new_session=True,  # Ctrl-C is for the trainer, which then leaves the run
            )
        given = {"pid": self._node.pid, "options": self._marks()}
        self._given_file.write_text(json.dumps(given), encoding="utf-8")
        _log.info("started a node, pid %d; it writes to %s", self._node.pid, self._log_file)

    def wait(self, timeout: float) -> None:
        """Waits for the end of a node that was started here and is about to end."""
        if self._node is None:
            return
        try:
            self._node.wait(timeout)
        except subprocess.TimeoutExpired:
            _log.warning(
                "the node has not ended within %.0f s; it goes on by itself (pid %d)", timeout,
                self._node.pid,
            )

    @property
    def _given_file(self) -> pathlib.Path:
        return self._dir / "node.options"

    def _marks(self) -> dict[str, str]:
        """The options that are given, each with a hash of its value: a ticket may be a secret."""
        lines = {name: "\n".join(flags({name: value})) for name, value in self._options.items()}
        return {
            name: hashlib.sha256(line.encode()).hexdigest() for name, line in lines.items() if line
        }

    def met(self, pid: int) -> None:
        """Says, of a node that has met this rank, which options are not for it because it ran
        already."""
        if self._node is not None or not self._starts:
            return
        now = self._marks()
        try:
            given = dict(json.loads(self._given_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            given = {}
        if given.get("pid") == pid:
            then = dict(given["options"])
        else:  # it was started by hand; what is checked when a trainer attaches is not named
            then = {name: now[name] for name in ("run", "inner_steps") if name in now}
        other = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        if other:
            _log.warning(
                "the node of %s ran already (pid %d), and keeps the settings that it was started "
                "with: what is given here for %s is not for it. To change that, end it first: "
                "kill %d", self._dir, pid, ", ".join(other), pid,
            )

    def give_up(self) -> None:
        """Ends a node that was started here and that this rank could not attach to: it would wait
        for a trainer for ever."""
        if self._node is None or self._node.poll() is not None:
            return
        self._node.terminate()
        try:
            self._node.wait(_END)
        except subprocess.TimeoutExpired:
            self._node.kill()
            self._node.wait()

    def release(self) -> None:
        """Lets another trainer have the data directory."""
        if self._claim is not None:
            self._claim.release()

    def in_child(self) -> None:
        """Lets the node see the end of the process that has started it, in a child by fork."""
        if self._node is not None and self._node.stdin is not None:
            self._node.stdin.close()


_owns: weakref.WeakSet[Own] = weakref.WeakSet()


def _after_fork() -> None:
    for own in _owns:
        own.in_child()


os.register_at_fork(after_in_child=_after_fork)
