"""The trackers that people have: a round's figures, as d.figures has them, go there by themselves.

    DiLoCo(model, optimizer, "my-run", tracker="wandb")

Nothing is imported before it is asked for. Each name is p2pdiloco/NAME, so that a script's own
figures stand beside it.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any, Callable, Mapping

from .errors import Invalid

_log = logging.getLogger("p2pdiloco")

Values = Mapping[str, float]
Log = Callable[[Values, int], Any]  # by name, and the step of the run's time
Named = Any  # None, a name, an object with log(values, step=…), or a Log
_Opened = tuple[Log, Callable[[], Any]]  # and what ends it


def _nothing() -> None:
    """Ends a tracker that the script has opened itself."""


def _wandb(module: Any, project: str, run: str) -> _Opened:
    own = getattr(module, "run", None) is None  # else the script's own run goes on
    if own:
        module.init(project=project or "p2pdiloco", name=run or None)
    if hasattr(module, "define_metric"):
        module.define_metric("p2pdiloco/*", step_metric="p2pdiloco/step")
    # without step=, which would move the script's own steps on
    return lambda values, step: module.log(dict(values)), module.finish if own else _nothing


def _tensorboard(module: Any, folder: str, run: str) -> _Opened:
    writer = module.SummaryWriter(*[folder] * bool(folder))

    def log(values: Values, step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log, writer.close


def _mlflow(module: Any, experiment: str, run: str) -> _Opened:
    own = module.active_run() is None
    if own:
        if experiment:
            module.set_experiment(experiment)
        module.start_run(run_name=run or None)
    return (
        lambda values, step: module.log_metrics(dict(values), step=step),
        module.end_run if own else _nothing,
    )


def _aim(module: Any, experiment: str, run: str) -> _Opened:
    into = module.Run(experiment=experiment or run or None)

    def log(values: Values, step: int) -> None:
        for name, value in values.items():
            into.track(value, name=name, step=step)

    return log, into.close


_KNOWN: dict[str, tuple[str, Callable[[Any, str, str], _Opened]]] = {
    "wandb": ("wandb", _wandb),
    "trackio": ("trackio", _wandb),  # has wandb's functions
    "tensorboard": ("torch.utils.tensorboard", _tensorboard),
    "mlflow": ("mlflow", _mlflow),
    "aim": ("aim", _aim),
}


class Tracker:
    """Takes the figures of rounds to where somebody looks at them. What fails there costs a
    warning, and no step of the training."""

    def __init__(self, named: Named, run: str) -> None:
        self._failed = False
        self._log, self._close = _open(named, run)

    def log(self, figures: Values, step: int) -> None:
        named = {**figures, "step": float(step)}
        values = {f"p2pdiloco/{name}": value for name, value in named.items()}
        try:
            self._log(values, step)
        except Exception as err:
            if not self._failed:
                _log.warning(
                    "the tracker has not taken a round's figures (%s: %s): training goes on "
                    "without them, and the next round tries again", type(err).__name__, err,
                )
            self._failed = True
        else:
            self._failed = False

    def close(self) -> None:
        try:
            self._close()
        except Exception as err:
            _log.warning("the tracker was not closed (%s: %s)", type(err).__name__, err)


def check(named: Named) -> None:
    """Refuses, before anything starts, a tracker that nobody knows or that is not installed."""
    if isinstance(named, str):
        _module(named)
    elif named is not None and not callable(named) and not callable(getattr(named, "log", None)):
        raise Invalid(
            f"tracker={named!r}: give a name, an object with log(values, step=…), or a function of "
            "values and step"
        )


def _module(named: str) -> tuple[Any, Callable[[Any, str, str], _Opened]]:
    name = named.partition(":")[0]
    if name not in _KNOWN:
        known = ", ".join(_KNOWN)
        raise Invalid(f"tracker={named!r}: {known}, or an object of your own is allowed")
    where, opens = _KNOWN[name]
    try:
        return importlib.import_module(where), opens
    except ImportError as err:
        raise Invalid(f"tracker={named!r} needs a package that is not here ({err}): install {name}")


def _open(named: Named, run: str) -> _Opened:
    if isinstance(named, str):
        module, opens = _module(named)
        return opens(module, named.partition(":")[2], run)
    if callable(getattr(named, "log", None)):
        return lambda values, step: named.log(values, step=step), _nothing
    return named, _nothing
