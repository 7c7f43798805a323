"""A peer that waits after its first round until a file, gate, is there, and says how its training
ends. Its argument is a JSON object of the node's settings and of gate."""

import json
import os
import sys
import time

import numpy

import p2pdiloco


def tell(kind, **fields):
    print(json.dumps({"is": kind, **fields}), flush=True)


def main():
    settings = json.loads(sys.argv[1])
    gate = settings.pop("gate")
    model = p2pdiloco.Arrays({"w": numpy.zeros(8, numpy.float32)})
    with p2pdiloco.Flat(model.layout, model.vector, **settings) as f:
        try:
            while not f.finished:
                if f.rounds == 1 and not os.path.exists(gate):
                    tell("waits")
                    while not os.path.exists(gate):
                        time.sleep(0.05)
                model["w"] += 1
                f.step()
        except p2pdiloco.BranchEnded as err:
            tell("branch", text=str(err), finished=f.finished)
            raise
    tell("done")


if __name__ == "__main__":
    main()
