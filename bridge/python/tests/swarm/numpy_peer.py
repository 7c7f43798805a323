"""A peer without PyTorch: linear regression with numpy. Its argument is a JSON object of the
node's settings."""

import json
import sys

sys.modules["torch"] = None  # what is imported below must do without it

import numpy

import p2pdiloco


def main():
    settings = json.loads(sys.argv[1])
    draw = numpy.random.default_rng()
    truth = numpy.arange(6, dtype=numpy.float32).reshape(3, 2)
    model = p2pdiloco.Arrays({"w": numpy.zeros((3, 2)), "b": numpy.zeros(2)})
    with p2pdiloco.Flat(model.layout, model.vector, tokens_per_step=32, **settings) as f:
        while not f.finished:
            x = draw.standard_normal((32, 3), dtype=numpy.float32)
            error = x @ model["w"] + model["b"] - x @ truth
            model["w"] -= 0.1 * x.T @ error / len(x)
            model["b"] -= 0.1 * error.mean(0)
            f.step()
        off = float(abs(model["w"] - truth).max())
        root = f.status()["state_root"]
        print(json.dumps({"is": "done", "state_root": root, "off": off}), flush=True)


if __name__ == "__main__":
    main()
