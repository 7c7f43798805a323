"""Copies from and to a GPU, with a stand-in for it. No GPU has run this code yet."""

import nodestub  # first: it puts the package on the path

import contextlib
import mmap
import os
import threading
import unittest
from unittest import mock

import torch
from p2pdiloco import Part, pagelock
from p2pdiloco.attach import wire
from p2pdiloco.attach.memory import Memory
from p2pdiloco.attach.session import Offer, Session
from p2pdiloco.pagelock import PORTABLE, READ_ONLY
from p2pdiloco.torchmodel import TorchHeld

IN_ORDER = {"to", "sub_", "clamp", "clamp_"}  # what is computed on a GPU, one after the other


class GPU:
    """What CUDA promises, and no more: a copy that nobody waits for happens when the stream is
    waited for, as late as it may. It is the runtime, and its only stream."""

    def __init__(self, test, refuses=()):
        self.refuses = refuses  # flags with which no page can be locked
        self.locked, self.log = {}, []  # sizes by address; what was asked for
        self.queue, self.waits, self.blocking = [], 0, 0
        self.current, self.error = "another device", 0
        OnGPU.gpu = self
        for name, value in (
            ("cudart", lambda: self), ("current_stream", lambda device: self),
            ("device", self.using), ("ones", self.kernel),
        ):
            patch = mock.patch.object(torch if name == "ones" else torch.cuda, name, value)
            patch.start()
            test.addCleanup(patch.stop)
        close = Memory.close
        patch = mock.patch.object(
            Memory, "close", lambda memory: (self.log.append("unmap"), close(memory))
        )
        patch.start()
        test.addCleanup(patch.stop)

    @contextlib.contextmanager
    def using(self, device):
        self.current, before = device, self.current
        yield
        self.current = before

    def kernel(self, size, device):
        """What a program runs next on the GPU: PyTorch raises errors that nobody has asked for."""
        error, self.error = self.error, 0
        if error:
            raise RuntimeError(f"CUDA error {error}")

    def cudaHostRegister(self, at, size, flags):
        assert self.current == torch.device("cpu"), "a context on another device"
        self.log.append(f"lock {flags}")
        assert at % mmap.PAGESIZE == size % mmap.PAGESIZE == 0 < size
        for other, length in self.locked.items():
            assert at + size <= other or other + length <= at, "a page is locked twice"
        if flags in self.refuses:
            self.error = 801
            return 801
        self.locked[at] = size
        return 0

    def cudaHostUnregister(self, at):
        assert self.current == torch.device("cpu"), "a context on another device"
        self.log.append("unlock")
        del self.locked[at]
        return 0

    def synchronize(self):
        self.waits += 1
        self.run()

    def run(self):
        while self.queue:
            self.queue.pop(0)()


class OnGPU(torch.Tensor):
    """A tensor that says that it is on the GPU."""

    is_cuda = property(lambda self: True)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        def do():
            with torch.no_grad():
                return parent(func, types, args, kwargs or {})

        parent = super().__torch_function__
        if func.__name__ == "copy_":
            if (kwargs or {}).get("non_blocking"):
                cls.gpu.queue.append(do)
                return args[0]
            cls.gpu.blocking += 1
        if func.__name__ in IN_ORDER | {"copy_"}:
            cls.gpu.run()
        return do()


def on_gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).as_subclass(OnGPU)


class Attached(unittest.TestCase):
    def attach(self, play, model, refuses=(), gpu=None):
        """A session of a rank whose node is play, and the GPU."""
        gpu = gpu or GPU(self, refuses)
        self.stub = nodestub.Stub(self, play)
        self.held = TorchHeld(model)
        session = Session(self.stub.find, self.held)
        self.addCleanup(session.close)
        return session, gpu


class Rounds(Attached):
    def play(self, seen):
        def play(node):
            node.gather()
            node.ask(wire.FILL)
            seen["filled"] = node.local.tolist()
            node.load([1.001] * 5)
            node.train(steps=1)
            seen["gradient"] = node.local.tolist()
            node.load([2.0] * 5)
            node.start[:] = nodestub.array.array("f", [9.0] * 5)  # what was loaded is loaded
            node.end()

        return play

    def rounds(self, refuses=()):
        seen = {}
        w, half = on_gpu([[4.0, 5.0], [6.0, 7.0]]), on_gpu([8.0], torch.bfloat16)
        session, gpu = self.attach(self.play(seen), {"w": w, "half": half}, refuses)
        self.assertEqual(session.border().kind, wire.TRAIN)
        self.assertEqual(gpu.waits, 2)  # the parameters, the anchor
        with torch.no_grad():
            w[1, 0] -= 0.5
        locked, waits = self.held.page_locked, gpu.waits
        session.border(Offer(1, 1))
        self.stub.join()
        self.assertEqual(gpu.waits - waits, 2)
        self.assertEqual(seen["filled"], [4, 5, 6, 7, 8])
        self.assertEqual([round(x, 6) for x in seen["gradient"]], [0, 0, 0.5, 0, 0])
        self.assertEqual((w.tolist(), half.tolist()), ([[2, 2], [2, 2]], [2]))
        self.assertEqual((gpu.queue, gpu.locked), ([], {}))
        return gpu, locked

    def test_one_wait_for_all_copies_before_the_node_is_told(self):
        """Without the wait the node would read what was there before, and a rank would load what
        the node has written since."""
        gpu, locked = self.rounds()
        self.assertTrue(locked)
        self.assertEqual(gpu.blocking, 0)
        start, local = f"lock {PORTABLE | READ_ONLY}", f"lock {PORTABLE}"
        self.assertEqual(gpu.log, [start, local, "unlock", "unlock", "unmap"])

    def test_pages_that_cannot_be_locked(self):
        """The copies are waited for one by one, with the same bits, and one line says so."""
        for refuses in ([PORTABLE], [PORTABLE | READ_ONLY], [PORTABLE, PORTABLE | READ_ONLY]):
            with self.subTest(refuses), self.assertLogs("p2pdiloco", "WARNING") as logs:
                gpu, locked = self.rounds(refuses)
            self.assertIs(locked, False)
            self.assertGreater(gpu.blocking, 0)
            self.assertEqual(gpu.log.count("unlock"), 2 - len(refuses))
            self.assertEqual(len(logs.output), 1, logs.output)
            self.assertEqual(gpu.error, 0, "the training loop would raise it")
            self.assertIn("cannot be page-locked (CUDA error 801)", logs.output[0])

    def test_ranges(self):
        """Mode streaming: parts of tensors, with one wait, too."""
        seen = {}

        def play(node):
            node.gather()
            node.load([1.0] * 6)
            node.train(steps=1, export=0)
            node.ask(wire.EXPORT, begin=1, end=5, what=wire.GRADIENT)
            seen["gradient"] = node.local.tolist()
            node.start[:] = nodestub.array.array("f", [8.0] * 6)
            node.ask(wire.LOAD, begin=1, end=5)
            node.end()

        w, v = on_gpu([[0.0, 0.0], [0.0, 0.0]]), on_gpu([0.0, 0.0])
        session, gpu = self.attach(play, {"w": w.t(), "v": v})
        session.border()
        with torch.no_grad():
            w.fill_(3.0)
            v.fill_(4.0)
        waits = gpu.waits
        session.border(Offer(1, 1))
        self.stub.join()
        self.assertEqual(seen["gradient"], [0.0, -2.0, -2.0, -2.0, -3.0, 0.0])
        self.assertEqual((w.t().tolist(), v.tolist()), ([[3, 8], [8, 8]], [8, 4]))
        self.assertEqual(gpu.waits - waits, 2)

    def test_what_is_queued_is_waited_for_when_a_call_fails(self):
        """The node may use the memory, or this process unmap it, once the call has failed."""
        w, v = on_gpu([1.0, 2.0]), on_gpu([3.0])
        session, gpu = self.attach(self.three_rounds, {"w": w, "v": v})
        session.border()

        def fails(*_):
            raise RuntimeError("out of memory")

        for call in (lambda: self.held.export(0, 3, True), lambda: self.held.load(0, 3)):
            waits, last = gpu.waits, self.held.live[1]
            with mock.patch.object(last, "export", fails), mock.patch.object(last, "load", fails):
                self.assertRaises(RuntimeError, call)
            self.assertEqual(gpu.waits - waits, 1)
        session.border(Offer(1, 1))
        self.stub.join()

    @staticmethod
    def three_rounds(node):
        node.gather()
        node.ask(wire.FILL)
        node.load([1.0] * 3)
        node.train(steps=1)
        node.end()

    def test_a_running_variance_is_never_negative(self):
        def play(node):
            node.gather()
            node.load([-1.0, 0.5])
            node.end()

        variance = on_gpu([1.0, 1.0])
        session, _ = self.attach(play, {"running_var": variance})
        session.border()
        self.stub.join()
        self.assertEqual(variance.tolist(), [0, 0.5])


class Pages(Attached):
    def test_they_are_locked_once_for_a_memory_and_given_back_before_the_next(self):
        """Pages that stay locked when they are unmapped are lost, and the next memory, which may
        have the same addresses, could not be locked."""

        def play(node):
            node.gather()
            for slot in (1, 2):
                node.load([1.0])
                node.train(slot=slot, steps=1)
            node.hang_up()
            node.gather(epoch=2)
            node.load([2.0])
            node.train(steps=1)
            node.hang_up()

        session, gpu = self.attach(play, {"w": on_gpu([0.0])})
        with self.assertLogs("p2pdiloco", "WARNING"):
            for offer in (None, Offer(1, 1), Offer(1, 1)):
                session.border(offer)
        both = [f"lock {PORTABLE | READ_ONLY}", f"lock {PORTABLE}"]
        self.assertEqual(gpu.log, [*both, "unlock", "unlock", "unmap", *both])
        with mock.patch.object(os, "getpid", return_value=1):
            session._unmap()  # in a child, which has no GPU
        self.assertEqual(gpu.log[-1], "unmap")
        self.assertEqual(len(gpu.locked), 2)

    def test_a_rank_locks_its_own_part(self):
        seen, elements, world = {}, 3 << 20, 3

        def play(node):
            node.gather(world)
            node.load()
            node.end()

        gpu, stub = GPU(self), nodestub.Stub(self, play)

        def register(at, size, flags):
            seen.setdefault(flags, []).append(size)
            return 0

        gpu.cudaHostRegister, gpu.cudaHostUnregister = register, lambda at: 0

        def rank(k):
            live = torch.zeros(elements // world).as_subclass(OnGPU)
            copy = on_gpu([0.0])  # equal in all: one of them writes it
            first = elements // world * k
            held = TorchHeld({"w": Part(live, (elements,), first=first), "copy": copy})
            Session(stub.find, held, rank=k, world=world, set="all").border()

        self.together(stub, rank, world)
        part, page = 4 * elements // world, mmap.PAGESIZE
        # the last rank's part reaches to the copy; for the others that is a registration apart
        self.assertEqual(sorted(seen[PORTABLE | READ_ONLY]), [page, page, part, part, part + page])
        self.assertEqual(sorted(seen[PORTABLE]), [page, part, part, part])

    def test_a_part_in_several_pieces_is_waited_for(self):
        """PyTorch copies such a part to memory of its own, and from there when it believes that to
        be done."""
        seen = {}

        def play(node):
            node.gather(2)
            node.load([1.0, 2.0, 3.0, 4.0])
            node.train(steps=1)
            seen["local"] = node.local.tolist()
            node.end()

        left, right = torch.zeros(2, 1).as_subclass(OnGPU), torch.zeros(2, 1)
        gpu, stub = GPU(self), nodestub.Stub(self, play)
        held = [
            TorchHeld({"w": Part(left, (2, 2), offset=(0, 0))}),
            TorchHeld({"w": Part(right, (2, 2), offset=(0, 1))}),
        ]

        def rank(k):
            session = Session(stub.find, held[k], rank=k, world=2, set="all")
            session.border()
            with torch.no_grad():
                (left, right)[k].sub_(0.5 + k)
            session.border(Offer(1, 1))

        self.together(stub, rank, 2)
        self.assertEqual(seen["local"], [0.5, 1.5, 0.5, 1.5])
        self.assertEqual(gpu.blocking, 3)  # the anchor, what it is subtracted from, the result

    def together(self, stub, rank, world):
        """Runs ranks in threads, until the node has ended."""
        threads = [threading.Thread(target=rank, args=(k,)) for k in range(world)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        stub.join()

    def test_spans(self):
        page, near = mmap.PAGESIZE, pagelock._NEAR
        far = 10 * near
        for parts, want in (
            ([], []),
            ([(page, page + 4)], [(page, 2 * page)]),
            ([(page - 4, page + 4)], [(0, 2 * page)]),
            ([(0, 4), (8, 12)], [(0, page)]),
            ([(0, 4), (near, near + 4)], [(0, near + page)]),
            ([(far, far + 4), (0, 4)], [(0, page), (far, far + page)]),
            ([(0, far), (4, 8)], [(0, far)]),
        ):
            self.assertEqual(pagelock.spans(parts), want)

    def test_all_pages_of_a_vector_or_none(self):
        gpu, far = GPU(self), 1 << 30
        pages = pagelock.PageLock(torch.device("cpu"))
        self.assertTrue(pages.lock([(0, 4)], READ_ONLY))
        register = gpu.cudaHostRegister
        gpu.cudaHostRegister = lambda at, *rest: 2 if at == 3 * far else register(at, *rest)
        with self.assertLogs("p2pdiloco", "WARNING"):
            parts = [(far, far + 4), (2 * far, 2 * far + 4), (3 * far, 3 * far + 4)]
            self.assertFalse(pages.lock(parts, PORTABLE))
        self.assertEqual(list(gpu.locked), [0])
        pages.unlock()
        self.assertEqual(gpu.locked, {})

    def test_a_model_on_the_processor_asks_for_no_gpu(self):
        def play(node):
            node.gather()
            node.load([1.0])
            node.end()

        w = torch.zeros(1)
        session, gpu = self.attach(play, {"w": w})
        session.border()
        self.stub.join()
        self.assertEqual((gpu.log, gpu.waits, w.tolist()), (["unmap"], 0, [1]))


if __name__ == "__main__":
    unittest.main()
