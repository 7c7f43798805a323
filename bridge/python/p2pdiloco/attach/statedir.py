"""The data directory of a trainer whose user named none: each one on a machine has its own."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import pathlib
import socket
import sys
import time
import urllib.parse
import weakref

from ..errors import Error

_MAX_NAME = 100  # bytes of a run's name in a path
_PATIENCE = 60.0  # seconds for the first rank to take a directory
_PROBES = 1.0  # seconds in which a lock that other ranks only try is free for once
_LOCK = "trainer.lock"


def of_run(name: str, text: str) -> pathlib.Path:
    """The folder for all directories of a run on this host: several hosts may have one home folder.
    name: of what says which run it is, run, ticket, spec or config; text: its value."""
    if name == "run":
        run = urllib.parse.quote(text, safe="$&+=:@")
        run = "%2E" + run[1:] if run.startswith(".") else run
        if len(run) > _MAX_NAME:
            run = f"{run[:_MAX_NAME]}-{hashlib.sha256(text.encode()).hexdigest()}"
    else:
        run = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    before = _base() / run
    here = before / ("host-" + urllib.parse.quote(socket.gethostname(), safe=""))
    if not here.exists() and (before / "attach-1").exists():
        return before  # an earlier release had one folder for all hosts
    return here


def _base() -> pathlib.Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return pathlib.Path(given, "p2pdiloco")
    home = pathlib.Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "p2pdiloco"
    return home / ".local" / "state" / "p2pdiloco"


class Claim:
    """A directory, attach-1, attach-2, … in a run's folder, that no other trainer has. The first
    rank takes the first one that is free, so a trainer that is started again is the same peer; the
    others find the one that their set has."""

    def __init__(self, folder: pathlib.Path, set: str, rank: int) -> None:
        self._lock = -1
        _claims.add(self)
        self.path = self._take(folder, set) if rank == 0 else self._find(folder, set)

    def _take(self, folder: pathlib.Path, set: str) -> pathlib.Path:
        for number in itertools.count(1):
            path = folder / f"attach-{number}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if self._taken(lock, set):
                os.close(lock)
                continue
            os.ftruncate(lock, 0)
            os.write(lock, set.encode())
            self._lock = lock
            return path
        raise AssertionError

    @staticmethod
    def _taken(lock: int, set: str) -> bool:
        """Whether another trainer has a directory. The other ranks of this start look for theirs by
        trying its lock, so where it was this set's before it is tried again for a while."""
        again = os.pread(lock, 1 << 16, 0) == set.encode()
        until = time.monotonic() + _PROBES
        while _locked(lock):
            if not again or time.monotonic() > until:
                return True
            time.sleep(0.01)
        return False

    @staticmethod
    def _find(folder: pathlib.Path, set: str) -> pathlib.Path:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            for file in folder.glob(f"attach-*/{_LOCK}"):
                with open(file, "rb") as lock:
                    if lock.read() == set.encode() and _locked(lock.fileno()):
                        return file.parent
            time.sleep(0.1)
        raise Error(f"rank 0 has taken no data directory in {folder} within {_PATIENCE:.0f} s")

    def release(self) -> None:
        """Gives the directory back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


_claims: weakref.WeakSet[Claim] = weakref.WeakSet()


def _after_fork() -> None:
    """Lets go of the directories in a child made by fork. Else a worker that outlives its trainer
    would keep the next one from being the same peer."""
    for claim in _claims:
        claim.release()


os.register_at_fork(after_in_child=_after_fork)


def _locked(file: int) -> bool:
    """Whether another process has the lock; if not, this one takes it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
