"""Node and Arrays over the fake library."""

import support  # first: it puts the package on the path

import array
import ctypes
import gc
import os
import pickle
import signal
import threading
import time
import unittest

import numpy
import p2pdiloco


def new_node(elements=4, **options):
    return p2pdiloco.Node("test", layout=[("w", (elements,))], **options)


class Rounds(support.FakeCase):
    def test_a_whole_run(self):
        initial = numpy.arange(4, dtype=numpy.float32)
        params = numpy.zeros(4, dtype=numpy.float32)
        with new_node(initial=initial, rounds=3) as node:
            self.assertEqual(node.anchor(params), 0)
            numpy.testing.assert_array_equal(params, initial)
            slots = []
            while not node.ended:
                params += 1
                slots.append(node.sync(params, weight=7))
            self.assertEqual(slots, [1, 2, 3])
            numpy.testing.assert_array_equal(params, initial + 1.5)
            self.assertEqual(node.status()["fake"]["weight"], 7)
            with self.assertRaises(p2pdiloco.Ended):
                node.sync(params, weight=7)
        self.assertTrue(node.closed)
        self.assertEqual(node.status()["phase"], "ended")

    def test_initial_parameters_live_until_the_anchor_is_there(self):
        initial = numpy.full(100_000, 3, dtype=numpy.float32)
        initial.flags.writeable = False  # a copy is made, which only the node holds
        node = new_node(100_000, initial=initial, fake_again=2)
        del initial
        gc.collect()
        params = numpy.zeros(100_000, dtype=numpy.float32)
        with self.assertRaises(p2pdiloco.NotYet):
            node.anchor(params, timeout=0)
        node.anchor(params)
        self.assertTrue((params == 3).all())
        node.close()

    def test_in_parts_with_time_limits(self):
        params = array.array("f", [0] * 4)
        with new_node(fake_again=2) as node:
            with self.assertRaises(TimeoutError):
                node.anchor(params, timeout=0.01)
            node.anchor(params)
            params[0] = 2
            node.begin(params, 1)
            self.assertTrue(node.begun)
            with self.assertRaises(p2pdiloco.Busy):
                node.begin(params, 1)
            self.assertFalse(node.poll())
            with self.assertRaises(p2pdiloco.NotYet):
                node.finish(params, timeout=0)
            self.assertEqual(node.finish(params), 1)
            self.assertFalse(node.begun)
            self.assertEqual(list(params), [1, 0, 0, 0])

    def test_which_errors_end_a_round(self):
        params = numpy.zeros(4, dtype=numpy.float32)
        node = new_node()
        node.anchor(params)
        node.begin(params, 1)
        with self.assertRaises(p2pdiloco.Invalid):
            node.finish(numpy.zeros(5, dtype=numpy.float32))
        self.assertTrue(node.begun)
        node._library.call("close", node._handle)  # as if it had failed by itself
        with self.assertRaises(p2pdiloco.Closed):
            node.finish(params)
        self.assertFalse(node.begun)

    def test_a_run_that_others_end_before_the_contribution(self):
        params = numpy.zeros(4, dtype=numpy.float32)
        with new_node(rounds=5, fake_late=1) as node:
            node.anchor(params)
            params += 1
            self.assertEqual(node.sync(params, 1), 5)
            self.assertTrue(node.ended)
            numpy.testing.assert_array_equal(params, numpy.zeros(4))


class Vectors(support.FakeCase):
    def test_what_has_the_buffer_protocol(self):
        shaped = numpy.zeros((2, 2), dtype=numpy.float32)
        plain = array.array("f", [0] * 4)
        for vector in (shaped, plain, (ctypes.c_float * 4)(), memoryview(shaped)):
            with new_node() as node:
                node.anchor(vector)
                node.sync(vector, 1)

    def test_what_is_refused(self):
        good = numpy.zeros(8, dtype=numpy.float32)
        readonly = good.copy()
        readonly.flags.writeable = False
        with new_node(8) as node:
            for vector, why in (
                (numpy.zeros(8), "format 'd'"),
                (good.reshape(2, 4).T, "in pieces"),
                (good[::2], "in pieces"),
                (readonly, "read-only"),
                ([0.0] * 8, "type list"),
            ):
                with self.assertRaisesRegex(p2pdiloco.Invalid, why):
                    node.anchor(vector)
            node.anchor(good)
            node.begin(readonly, 1)  # which is only read
            with self.assertRaisesRegex(ValueError, "another length"):
                node.finish(numpy.zeros(7, dtype=numpy.float32))

    def test_not_finite(self):
        params = numpy.zeros(4, dtype=numpy.float32)
        with new_node() as node:
            node.anchor(params)
            params[2] = numpy.nan
            with self.assertRaisesRegex(p2pdiloco.NotFinite, "diverged"):
                node.sync(params, 1)
            self.assertFalse(node.begun)

    def test_arrays_are_views(self):
        model = p2pdiloco.Arrays({"w": numpy.ones((2, 3)), "b": [1, 2], "s": 5.0})
        self.assertEqual(model.layout, [("w", (2, 3)), ("b", (2,)), ("s", ())])
        model["b"] -= 1
        model["s"] = 7
        self.assertEqual(model.vector.tolist(), [1, 1, 1, 1, 1, 1, 0, 1, 7])
        with p2pdiloco.Node("test", layout=model.layout, initial=model.vector) as node:
            node.anchor(model.vector)
            model["w"][0, 0] = 3
            node.sync(model.vector, 1)
            self.assertEqual(model["w"][0, 0], 2)
            layout = node.status()["fake"]["config"]["layout"]
            self.assertEqual(layout[2], {"name": "s", "shape": []})


class Ends(support.FakeCase):
    def test_wrong_settings(self):
        with self.assertRaisesRegex(p2pdiloco.Invalid, "run: give its name"):
            new_node(fake_refuse=1)
        with self.assertRaisesRegex(p2pdiloco.Invalid, "bootstrap"):
            new_node(bootstrap=[object()])

    def test_settings_arrive_as_they_are_spelt(self):
        node = new_node(outer_lr=0.7, bootstrap=("/a", "/b"), found=True, seed=None)
        config = node.status()["fake"]["config"]
        node.close()
        self.assertEqual(config["outer_lr"], "0.7")
        self.assertEqual(config["bootstrap"], ["/a", "/b"])
        self.assertEqual((config["run"], config["found"]), ("test", True))
        self.assertNotIn("seed", config)

    def test_missed(self):
        with new_node(fake_missed=1) as node, self.assertRaises(p2pdiloco.Missed):
            node.anchor(numpy.zeros(4, dtype=numpy.float32))

    def test_a_branch_that_is_not_the_run(self):
        with new_node(fake_branch=1) as node, self.assertRaises(p2pdiloco.BranchEnded):
            node.anchor(numpy.zeros(4, dtype=numpy.float32))

    def test_what_a_closed_node_says(self):
        node = new_node()
        node.close()
        node.close()
        node.leave()
        with self.assertRaises(p2pdiloco.Closed):
            node.anchor(numpy.zeros(4, dtype=numpy.float32))
        node.progress(1)
        self.assertEqual([e["event"] for e in node.events()], ["run.searching", "fake.closed"])

    def test_an_exception_closes_and_the_rest_leaves(self):
        for kind, last in ((ValueError, "fake.closed"), (SystemExit, "fake.left")):
            events = []
            with self.assertRaises(kind):
                with new_node(on_event=events.append):
                    raise kind
            self.assertEqual(events[-1]["event"], last)

    def test_leaving_takes_its_time_only(self):
        node = new_node(fake_leave=5000)
        with self.assertRaisesRegex(p2pdiloco.Error, "did not agree"):
            node.leave(timeout=0.05)
        self.assertTrue(node.closed)

    def test_a_node_that_is_dropped_is_closed(self):
        node = new_node()
        handle, lib = node._handle, node._library
        self.assertNotEqual(lib.status(handle), "")
        del node
        gc.collect()
        self.assertEqual(lib.status(handle), "")

    def test_two_in_one_process(self):
        a, b = (numpy.zeros(4, dtype=numpy.float32) for _ in range(2))
        with new_node() as first, new_node() as second:
            first.anchor(a)
            second.anchor(b)
            a += 2
            first.sync(a, 1)
            second.sync(b, 1)
        self.assertEqual((a[0], b[0]), (1, 0))

    def test_it_is_not_pickled(self):
        with new_node() as node, self.assertRaisesRegex(TypeError, "process that made it"):
            pickle.dumps(node)


class Events(support.FakeCase):
    def test_they_are_told_in_order_by_the_thread_that_waits(self):
        told = []
        params = numpy.zeros(4, dtype=numpy.float32)
        with new_node(
            rounds=1, on_event=lambda e: told.append((e["event"], threading.current_thread()))
        ) as node:
            node.anchor(params)
            node.sync(params, 1)
        names = ["run.searching", "run.founded", "slot.applied", "fake.left"]
        self.assertEqual(told, [(name, threading.current_thread()) for name in names])

    def test_none_in_time(self):
        with new_node() as node:
            self.assertEqual(node.event()["event"], "run.searching")
            self.assertIsNone(node.event(timeout=0.01))


class Interrupts(support.FakeCase):
    """Ctrl-C while the library waits. The waits would last for minutes."""

    def setUp(self):
        super().setUp()
        # What a shell starts in the background ignores SIGINT, and so would these tests.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def interrupt(self, after=0.2):
        timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        self.addCleanup(timer.join)

    def test_while_waiting_for_the_anchor_and_the_round(self):
        params = numpy.zeros(4, dtype=numpy.float32)
        events = []
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            with new_node(fake_again=6000, on_event=events.append) as node:
                self.interrupt()
                node.anchor(params)
        self.assertEqual(events[-1]["event"], "fake.left")
        self.assertLess(time.monotonic() - began, 60)

    def test_the_round_can_be_ended_after_it(self):
        params = numpy.zeros(4, dtype=numpy.float32)
        with new_node(fake_again=8) as node:
            node.anchor(params)
            params += 1
            self.interrupt()
            with self.assertRaises(KeyboardInterrupt):
                node.sync(params, 1)
            self.assertTrue(node.begun)
            params += 100  # not offered: the contribution was before
            node.sync(params, 1)
            self.assertEqual(params[0], 0.5)

    def test_a_second_one_closes_at_once(self):
        events = []
        with self.assertRaises(KeyboardInterrupt):
            with new_node(fake_leave=600_000, leave_timeout=600, on_event=events.append) as node:
                self.interrupt(0.5)
                raise KeyboardInterrupt
        self.assertTrue(node.closed)
        self.assertIn("fake.closed", [e["event"] for e in events])


if __name__ == "__main__":
    unittest.main()
