"""What people see: the lines of the logger p2pdiloco, and the names that settings have here."""

from __future__ import annotations

import logging
import re
import sys

_log = logging.getLogger("p2pdiloco")
_FLAG = re.compile(
    r"`?p2pdiloco [a-z-]+(?: --[a-z-]+(?: [^\s,;)]+)?)*"  # a command stays as it is
    r"|(?:[A-Z]\w*, )?--([a-z][a-z-]*)(?:([ =])(?=[-\d/.'\"A-Z]|[^\s:]+:))?"
    r"(?: \([A-Z]\w+\.[A-Z]\w+\)|, [A-Z]\w+\.[A-Z]\w+)?"  # Go's names
    r"|\bP2PDILOCO_([A-Z_]+)(?==)"
)


class _Lines(logging.Handler):
    """Writes to stderr, where the program shows this logger nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.getLogger().handlers or _log.handlers != [self]:
            return
        try:
            print("p2pdiloco:", self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


_lines = _Lines()


def show(quiet: bool) -> None:
    """Shows all lines from now on, or warnings alone. A level that the program has set holds."""
    if quiet and _lines in _log.handlers:
        _log.removeHandler(_lines)
        _log.setLevel(logging.NOTSET)
    elif not quiet and _log.level == logging.NOTSET:
        _log.addHandler(_lines)
        _log.setLevel(logging.INFO)


def spelled(text: str) -> str:
    """A node's text with the names that its settings have in Python: --outer-lr 0.7 is
    outer_lr=0.7."""

    def name(found: re.Match[str]) -> str:
        if found[3]:
            return found[3].lower()
        return (found[1] or "").replace("-", "_") + ("=" if found[2] else "") or found[0]

    return _FLAG.sub(name, text).replace("unknown flag", "unknown setting")
