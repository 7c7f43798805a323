"""Named arrays in one vector, for training with numpy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterator, Mapping

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

from .settings import Tensor


class Arrays(Mapping[str, Any]):
    """The tensors of a model as views of one flat float32 vector.

        model = p2pdiloco.Arrays({"w": w, "b": b})       # copies them; the order is the layout's
        with p2pdiloco.Flat(model.layout, model.vector, run="my-run") as f:
            while not f.finished:
                model["w"] -= rate * gradient(model["w"])  # in place
                f.step()

    arrays: arrays, or nested lists, of numbers that become float32. model["w"] is a view with the
    shape that was given, never another array: write to it in place (model["w"][:] = ...).
    """

    vector: NDArray[numpy.float32]
    """All elements, float32, in the order of the layout."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        import numpy

        given = {name: numpy.asarray(a, dtype=numpy.float32) for name, a in arrays.items()}
        self.vector = numpy.empty(sum(a.size for a in given.values()), dtype=numpy.float32)
        self._views: dict[str, NDArray[numpy.float32]] = {}
        at = 0
        for name, a in given.items():
            view = self.vector[at : at + a.size].reshape(a.shape)
            view[...] = a
            self._views[name] = view
            at += a.size

    @property
    def layout(self) -> list[Tensor]:
        """(name, shape) of each, for Flat."""
        return [(name, view.shape) for name, view in self._views.items()]

    def __getitem__(self, name: str) -> NDArray[numpy.float32]:
        return self._views[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Writes into the view: model["w"] = value, and model["w"] -= step."""
        self._views[name][...] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}{list(shape)}" for name, shape in self.layout)
        return f"Arrays({inside}; {math.prod(self.vector.shape)} elements)"
