"""Settings of a node, encoded as the library's JSON.

The names are those of the flags of `p2pdiloco join` with _ for -: run, bootstrap, inner_steps,
data_dir, preset and so on. What is not given here, the library takes from the environment
(P2PDILOCO_INNER_STEPS=500), then from the file that `config` or P2PDILOCO_CONFIG names.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from .errors import Invalid

Tensor = tuple[str, Sequence[int]]
"""Name and shape; () is the shape of a scalar."""


_NAMING = ("run", "ticket", "spec")


def given(run: Optional[str], settings: Mapping[str, Any]) -> bool:
    """Whether a run is named: here, in the environment, or in the config file. Settings without a
    run are a mistake: it would train alone, without a word."""
    config = value(settings, "config")
    if run or any(value(settings, name) for name in _NAMING) or config and _names_run(config):
        return True
    lonely = [name for name, v in settings.items() if v is not None and name != "config"]
    if not lonely and value(settings, "bootstrap"):
        lonely = ["P2PDILOCO_BOOTSTRAP"]
    if lonely:
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


def value(settings: Mapping[str, Any], name: str) -> Any:
    """A setting that is given here or in the environment."""
    return settings.get(name) or os.environ.get("P2PDILOCO_" + name.upper())


def _names_run(path: Any) -> bool:
    """Whether a config file, TOML or JSON, has the key of a run or of its spec. A file that cannot
    be read counts as one that has, because the library then reports what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read(1 << 18)
    except (OSError, ValueError, TypeError):
        return True
    return re.search(r"""(?m)^\s*["']?(run|spec)["']?\s*=|"(run|spec)"\s*:""", text) is not None


def encode(
    run: Optional[str], layout: Optional[Iterable[Tensor]], settings: Mapping[str, Any]
) -> str:
    """The JSON for the library. None means not given."""
    config = {name: _plain(name, value) for name, value in settings.items() if value is not None}
    if run is not None:
        config["run"] = run
    if layout is not None:
        config["layout"] = [
            {"name": name, "shape": [int(n) for n in shape]} for name, shape in layout
        ]
    return json.dumps(config)


def _plain(name: str, value: Any) -> Union[None, bool, int, str, list[Any]]:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)  # fractions are decimal strings: every peer must read the same digits
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return [_plain(name, v) for v in value]
    raise Invalid(f"{name} is {value!r}: text, a number, True, False, a path or a list is allowed")
