"""Children by fork and by spawn, the interpreter's end, and what is not installed."""

import nodestub  # first: it puts the package on the path

import os
import re
import signal
import threading
import time
import unittest
from unittest import mock

import p2pdiloco
import support
import torch
from p2pdiloco.attach import rendezvous
from torch.utils.data import DataLoader, TensorDataset


class Children(unittest.TestCase):
    def join(self, run, **options):
        self.stub = nodestub.Stub(self, run)
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        with mock.patch.dict(os.environ, {rendezvous.SOCKET_VARIABLE: self.stub.path}):
            return p2pdiloco.DiLoCo(self.model, self.optimizer, **options)

    def run_with_workers(self, context, workers):
        data = TensorDataset(torch.ones(16, 2))
        with self.join(nodestub.Run(rounds=100)) as d:
            loader = DataLoader(
                data, batch_size=2, num_workers=workers, multiprocessing_context=context,
                sampler=d.sampler(data, batch_size=2),
            )
            for _ in range(2):
                for (x,) in loader:
                    self.optimizer.zero_grad()
                    self.model(x).sum().backward()
                    self.optimizer.step()
            self.assertEqual(d.rounds, 8)

    def test_data_loader_with_forked_workers(self):
        self.run_with_workers("fork", 2)

    def test_data_loader_with_spawned_workers(self):
        # each one, in each of two epochs, takes 2 s of a core to import PyTorch
        self.run_with_workers("spawn", 2 if support.NIGHT else 1)

    def test_attaching_anew_beside_live_workers(self):
        """Workers have copies of the socket. A node that saw it open would wait for the old set."""
        data = TensorDataset(torch.ones(16, 2))
        with self.join(nodestub.Run(rounds=100), node_timeout=2.0) as d:
            loader = DataLoader(data, num_workers=2, multiprocessing_context="fork")
            batches = iter(loader)
            next(batches)
            d.reset()
            self.assertEqual((d.rounds, d.finished), (0, False))
            del batches

    def test_the_node_sees_the_end_of_a_process_whose_worker_lives_on(self):
        seen = []

        def play(node):
            node.gather()
            node.load()
            try:
                node.train()
            except EOFError:
                seen.append("end")

        d = self.join(play).start()
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            d._session._socket.close()  # as kill -9 does
            self.stub.join(10)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.assertEqual(seen, ["end"])
        d.close()

    def test_in_a_forked_child_it_is_inert(self):
        with self.join(nodestub.Run()) as d:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    for p in self.model.parameters():
                        p.grad = torch.ones_like(p)
                    for _ in range(5):
                        self.optimizer.step()
                    d.metrics, d.status(), d.state_dict()
                    try:
                        d.reset()
                    except p2pdiloco.Forked:
                        status = 0
                    d.close()
                    d.leave()
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(d.rounds, 0)
            for _ in range(2):  # the parent's conversation is whole
                for p in self.model.parameters():
                    p.grad = torch.ones_like(p)
                self.optimizer.step()
            self.assertEqual(d.rounds, 1)


class Hidden(unittest.TestCase):
    def test_without_torch_and_numpy(self):
        done = support.run_python("""
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import p2pdiloco
print(p2pdiloco.Flat.__name__)
for name in ("DiLoCo", "Part"):
    try:
        getattr(p2pdiloco, name)
    except ImportError as err:
        print(err)
""")
        self.assertIn("Flat\np2pdiloco.DiLoCo needs PyTorch", done)
        self.assertIn("p2pdiloco.Part needs PyTorch", done)

    def test_nothing_is_started_without_a_run(self):
        threads = threading.enumerate()
        with mock.patch("subprocess.Popen") as started:
            with p2pdiloco.DiLoCo(torch.nn.Linear(2, 1)) as d:
                self.assertEqual(str(d.metrics), "no run")
                self.assertEqual(threading.enumerate(), threads)
        started.assert_not_called()

    @unittest.skipUnless(support.NIGHT, "it imports PyTorch once more")
    def test_a_process_without_a_run_and_a_program(self):
        done = support.run_python("""
import torch, p2pdiloco
with p2pdiloco.DiLoCo(torch.nn.Linear(2, 1)) as d:
    print(d.metrics)
""", PATH="")
        self.assertEqual(done.strip(), "no run")


class CommandLines(unittest.TestCase):
    def test_what_the_pages_tell_torchrun_is_known_to_this_pytorch(self):
        """PyTorch 2 knows more spellings than 1.13: the pages have those that both know."""
        from torch.distributed.run import get_args_parser

        lines = []
        root = support.PACKAGE.parents[1]
        for folder in ("docs", "examples", "cmd", "bridge/python"):
            for file in sorted(root.glob(f"{folder}/**/*")):
                if file.suffix in (".md", ".py", ".go"):
                    found = re.findall(r"\btorchrun (-.*?\.py)", file.read_text(encoding="utf-8"))
                    lines += [(str(file), line) for line in found]
        self.assertGreater(len(lines), 4)
        for file, line in lines:
            with self.subTest(file=file, line=line):
                parsed = get_args_parser().parse_args(line.split())
                self.assertGreater(int(parsed.nproc_per_node), 1)


if __name__ == "__main__":
    unittest.main()
