"""How fast ranks export and import: the time of both against two memcpys of the same bytes.

    /usr/bin/python3 bridge/python/tests/bench_export.py            # 512 MiB, some minutes
    /usr/bin/python3 bridge/python/tests/bench_export.py --mib 64 --pairs 5
    python3 bridge/python/tests/bench_export.py --device cuda       # the ranks' tensors on a GPU
    python3 bridge/python/tests/bench_export.py --device cuda --pageable

This process is the node: it asks 1, 2 and 4 ranks, processes with the PyTorch client, each of which
holds a flat shard of every tensor, for all of the model (EXPORT), and has them load it (LOAD). Both
requests and all answers are in the time. Where the live parameters are exported, that is two
copies; where the pseudo-gradient is, the first is a subtraction, which reads a third stream. What
it is compared with are two copies of as many bytes by one thread of this process. The three take
turns; a line has the median of the turns, and that of the ratios within each turn.

With --device cuda all ranks use the first GPU, and what they are compared with are a copy to the
GPU and one back, from and to plain page-locked memory. --pageable locks no pages of the node's.
No GPU has run this yet.
"""

import nodestub  # first: it puts the package on the path

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy
import torch

from p2pdiloco.attach import wire
from p2pdiloco.attach.session import Session
from p2pdiloco.pagelock import PageLock
from p2pdiloco.torchmodel import Part, TorchHeld

nodestub.PATIENCE = 600  # a busy machine needs some
TENSORS = 32
GOALS = {"copied": 0.8, "subtracted": 0.7}


def be_rank(path, rank, world, elements, device, pageable, threads):
    """Does what the node asks for, until it ends."""
    torch.set_num_threads(threads)
    if pageable:
        PageLock.lock = lambda *_: False
    model = {}
    for i in range(TENSORS):
        low, high = elements * rank // world, elements * (rank + 1) // world
        live = torch.arange(low, high, dtype=torch.float32, device=device)
        model[f"t{i}"] = Part(live, (elements,), first=low)
    Session(lambda: path, TorchHeld(model), rank=rank, world=world, set="bench").border()


def seconds(what):
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def copies(vector, device):
    """Two plain copies of as many bytes."""
    if device == "cpu":
        a, b = vector.copy(), vector.copy()
        return lambda: (numpy.copyto(a, b), numpy.copyto(b, a))
    host = torch.empty(len(vector), pin_memory=True)
    there = torch.empty(len(vector), device=device)

    def both():
        host.copy_(there, non_blocking=True)
        there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()

    return both


class Bench:
    """Stands for the test that a stub is made for, and measures."""

    def __init__(self, world, elements, pairs, device, pageable, threads):
        self._world, self._elements, self._pairs = world, elements, pairs
        self._device = device
        self._more = ["--device", device, "--threads", str(threads)]
        self._more += ["--pageable"] if pageable else []
        self._cleanups = []
        self.times = {"memcpy": [], "copied": [], "subtracted": []}

    def addCleanup(self, what, *args):
        self._cleanups.append((what, args))

    def run(self):
        stub = nodestub.Stub(self, self._play)
        ranks = [
            subprocess.Popen([
                sys.executable, __file__, "--rank", str(rank), "--world", str(self._world),
                "--elements", str(self._elements), "--path", stub.path, *self._more,
            ])
            for rank in range(self._world)
        ]
        stub.join(timeout=None)
        for rank in ranks:
            if rank.wait() != 0:
                raise SystemExit("a rank has failed")
        for what, args in reversed(self._cleanups):
            what(*args)

    def _play(self, node):
        node.gather(self._world)
        start = numpy.frombuffer(node.start, numpy.float32)
        start[:] = numpy.arange(len(start))
        memcpy = copies(start, self._device)

        def exchange(what):
            node.ask(wire.EXPORT, begin=0, end=node.elements, what=what)
            node.load()

        kinds = {
            "memcpy": memcpy,
            "copied": lambda: exchange(wire.PARAMETERS),
            "subtracted": lambda: exchange(wire.GRADIENT),
        }
        for turn in range(-2, self._pairs):  # the first two touch the memory
            for kind, do in kinds.items():
                took = seconds(do)
                if turn >= 0:
                    self.times[kind].append(took)
        node.end()

    def print(self):
        """Prints a line for each kind, and returns their figures."""
        memcpy, rows = self.times["memcpy"], []
        for kind, goal in GOALS.items():
            took = self.times[kind]
            ratios = sorted(m / t for m, t in zip(memcpy, took))
            middle, quarter = statistics.median(ratios), len(ratios) // 4
            print(
                f"| {self._world} | {kind} | {1000 * statistics.median(memcpy):.0f} ms "
                f"| {1000 * statistics.median(took):.0f} ms | {middle:.2f} "
                f"| {ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f} "
                f"| {goal}: {'met' if middle >= goal else 'missed'} |", flush=True,
            )
            rows.append(dict(
                ranks=self._world, export=kind, two_copies=statistics.median(memcpy),
                seconds=statistics.median(took), speed=middle, goal=goal,
            ))
        return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mib", type=int, default=512, help="size of the model")
    parser.add_argument("--pairs", type=int, default=20, help="turns for each number of ranks")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--json", metavar="FILE", help="all figures, written in the end")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--pageable", action="store_true", help="lock no pages, on a GPU")
    for name in ("rank", "world", "elements"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.path:
        return be_rank(
            given.path, given.rank, given.world, given.elements, given.device, given.pageable,
            given.threads,
        )
    print(
        f"{given.mib} MiB in {TENSORS} tensors, {given.pairs} turns, {os.cpu_count()} cores, "
        f"PyTorch {torch.__version__}, threads of a rank: {given.threads}, on {given.device}\n\n"
        "| ranks | export | two copies | export and import | speed | half of the turns | goal |\n"
        "| --- | --- | --- | --- | --- | --- | --- |", flush=True,
    )
    rows = []
    for world in given.ranks:
        elements = (given.mib << 20) // 4 // TENSORS
        bench = Bench(
            world, elements, given.pairs, given.device, given.pageable, given.threads
        )
        bench.run()
        rows += bench.print()
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
