"""Children by fork and by spawn, the interpreter's end, and what is not installed."""

import support  # first: it puts the package on the path

import os
import unittest

import p2pdiloco
import torch
from torch.utils.data import DataLoader, TensorDataset

LOOP = """
import os, support
support.use_fake()
import torch, p2pdiloco
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


class Children(support.FakeCase):
    def run_with_workers(self, context):
        data = TensorDataset(torch.ones(16, 2))
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with p2pdiloco.DiLoCo(model, optimizer, "test", rounds=100) as d:
            loader = DataLoader(
                data, batch_size=2, num_workers=2, multiprocessing_context=context,
                sampler=d.sampler(data, batch_size=2),
            )
            for _ in range(2):
                for (x,) in loader:
                    optimizer.zero_grad()
                    model(x).sum().backward()
                    optimizer.step()
            self.assertEqual(d.metrics.rounds, 8)

    def test_data_loader_with_forked_workers(self):
        self.run_with_workers("fork")

    def test_data_loader_with_spawned_workers(self):
        self.run_with_workers("spawn")

    def test_in_a_forked_child_it_is_inert(self):
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with p2pdiloco.DiLoCo(model, optimizer, "test") as d:
            child = os.fork()
            if child == 0:  # the fake aborts where it is called from here
                status = 1
                try:
                    for p in model.parameters():
                        p.grad = torch.ones_like(p)
                    for _ in range(5):
                        optimizer.step()
                    d.metrics, d.status(), d.state_dict()
                    d.close()
                    d.leave()
                    try:
                        p2pdiloco.Node("test")
                    except p2pdiloco.Forked:
                        status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(d.metrics.rounds, 0)

    def test_a_forked_child_ends_like_any_other(self):
        done = support.run_python(LOOP + """
d = p2pdiloco.DiLoCo(model, optimizer, "test").start()
child = os.fork()
if child == 0:
    raise SystemExit(0)  # with everything that happens at an interpreter's end
print(os.waitpid(child, 0)[1], d.metrics.phase)
""")
        self.assertEqual(done.split(), ["0", "running"])


class Ends(unittest.TestCase):
    def test_the_interpreters_end_closes(self):
        done = support.run_python("""
import atexit
atexit.register(lambda: print(d._node.closed))  # the first to come is the last to go
""" + LOOP + """
d = p2pdiloco.DiLoCo(model, optimizer, "test").start()
""")
        self.assertEqual(done.split(), ["True"])

    def test_nothing_is_loaded_without_a_run(self):
        done = support.run_python(
            LOOP.replace("support.use_fake()", "") + """
with p2pdiloco.DiLoCo(model, optimizer) as d:
    print(d.metrics)
""", P2PDILOCO_LIBRARY="/nowhere")
        self.assertEqual(done.strip(), "no run")


class Hidden(unittest.TestCase):
    def test_without_torch(self):
        done = support.run_python("""
import sys
sys.modules["torch"] = None
import support
support.use_fake()
import numpy, p2pdiloco
model = p2pdiloco.Arrays({"w": numpy.zeros(3)})
with p2pdiloco.Node("test", layout=model.layout, rounds=1) as node:
    node.anchor(model.vector)
    model["w"] += 2
    node.sync(model.vector, 1)
    print(model["w"][0])
try:
    p2pdiloco.DiLoCo
except ImportError as err:
    print(err)
""")
        self.assertIn("1.0\np2pdiloco.DiLoCo needs PyTorch", done)

    def test_without_torch_and_numpy(self):
        done = support.run_python("""
import array, sys
sys.modules["torch"] = sys.modules["numpy"] = None
import support
support.use_fake()
import p2pdiloco
params = array.array("f", [0] * 3)
with p2pdiloco.Node("test", layout=[("w", (3,))], rounds=1) as node:
    node.anchor(params)
    node.sync(params, 1)
    print(node.ended)
""")
        self.assertEqual(done.strip(), "True")


if __name__ == "__main__":
    unittest.main()
