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
    with p2pdiloco.Node(layout=model.layout, initial=model.vector, **settings) as node:
        node.anchor(model.vector)
        while not node.ended:
            for step in range(settings["inner_steps"]):
                x = draw.standard_normal((32, 3), dtype=numpy.float32)
                error = x @ model["w"] + model["b"] - x @ truth
                model["w"] -= 0.1 * x.T @ error / len(x)
                model["b"] -= 0.1 * error.mean(0)
                node.progress(step + 1)
            node.sync(model.vector, weight=32 * settings["inner_steps"])
        off = float(abs(model["w"] - truth).max())
        root = node.status()["state_root"]
        print(json.dumps({"is": "done", "state_root": root, "off": off}), flush=True)


if __name__ == "__main__":
    main()
