"""A peer without PyTorch and numpy that attaches to a node of its own. Its argument is a JSON
object of settings of Flat, and weight, which its samples have."""

import array
import json
import sys

from p2pdiloco import Flat


def main():
    settings = json.loads(sys.argv[1])
    weight = settings.pop("weight")
    params = array.array("f", [0.0] * 10)
    with Flat([("w", (2, 4)), ("b", (2,))], params, **settings) as f:
        while not f.finished:
            for i in range(10):
                params[i] += 0.1 * (weight * i - params[i])
            f.tokens(weight)
            f.step()
        print(json.dumps({"is": "done", "slot": f.metrics.slot, "params": params.tolist()}))


if __name__ == "__main__":
    main()
