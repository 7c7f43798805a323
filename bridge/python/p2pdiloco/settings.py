"""Settings of a node: which run is meant, and the node's command line.

The names are those of the flags of `p2pdiloco join` with _ for -: run, bootstrap, inner_steps,
data_dir, preset and so on. The node takes a setting that is not given here from the
environment (P2PDILOCO_INNER_STEPS=500), then from the file that `config` or P2PDILOCO_CONFIG names.
"""

from __future__ import annotations

import os
import re
from typing import Any, Mapping, Optional, Sequence

from .errors import Invalid

Tensor = tuple[str, Sequence[int]]
"""Name and shape; () is the shape of a scalar."""


_NAMING = ("run", "ticket", "spec")
_PREFIX = "P2PDILOCO_"
_NOT_OF_A_RUN = re.compile("(ATTACH|BINARY|KERNELS|CONFIG|DATA_DIR|API|JSON|QUIET|LOG_.*|TEST.*)$")
"""Variables that a machine may have for all that runs on it. They do not say that a run is
meant."""


def given(run: Optional[str], settings: Mapping[str, Any]) -> bool:
    """Whether a run is named: here, in the environment, or in the config file. Settings without a
    run are a mistake: it would train alone, without a word."""
    config = value(settings, "config")
    if value(settings, "ticket") == "-":
        raise Invalid(
            "ticket is -, which reads a ticket from the standard input, and a node that a trainer "
            "starts has none: give the ticket itself, or @FILE for a file that holds it"
        )
    if run or any(value(settings, name) for name in _NAMING) or config and _names_run(config):
        return True
    lonely = [name for name, v in settings.items() if v is not None and name != "config"]
    if lonely := lonely or _variables():
        raise Invalid(
            f"{', '.join(lonely)}: given, and no run: name one with run= or ticket= (or "
            "P2PDILOCO_RUN), or leave them out to train alone"
        )
    return False


def identity(run: Optional[str], settings: Mapping[str, Any]) -> tuple[str, str]:
    """What says which run it is, and its value, for a run that is given."""
    if run:
        return "run", run
    for name in (*_NAMING, "config"):
        text = value(settings, name)
        if text:
            return name, str(text)
    raise Invalid("no run is named: give run= or ticket=")


def _variables() -> list[str]:
    """The variables that are settings of a run."""
    return sorted(
        name for name, text in os.environ.items()
        if text and name.startswith(_PREFIX) and not _NOT_OF_A_RUN.match(name[len(_PREFIX):])
    )


def value(settings: Mapping[str, Any], name: str) -> Any:
    """A setting that is given here or in the environment."""
    return settings.get(name) or os.environ.get(_PREFIX + name.upper())


def _names_run(path: Any) -> bool:
    """Whether a config file, TOML or JSON, has the key of a run, of its spec or of a ticket. A
    file that cannot be read counts as one that has, because the node then reports what is wrong
    with it."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as f:
            text = f.read(1 << 18)
    except (OSError, ValueError, TypeError):
        return True
    key = "|".join(_NAMING)
    return re.search(rf"""(?m)^\s*["']?({key})["']?\s*=|"({key})"\s*:""", text) is not None


def flags(options: Mapping[str, Any]) -> list[str]:
    """Options of `p2pdiloco join`, with _ for -, as its command line. None means not given."""
    line = []
    for name, value in options.items():
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if v is None:
                continue
            if isinstance(v, bool):
                v = str(v).lower()
            elif isinstance(v, float):
                v = repr(v)  # every peer must read the same digits
            elif isinstance(v, os.PathLike):
                v = os.fspath(v)
            if isinstance(v, str) and v.startswith("~"):  # no shell reads it
                v = os.path.expanduser(v)
            if not isinstance(v, (int, str)):
                raise Invalid(
                    f"{name} is {v!r}: text, a number, True, False, a path or a list is allowed"
                )
            line.append(f"--{name.replace('_', '-')}={v}")
    return line
