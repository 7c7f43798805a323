"""KeyboardInterrupt at every point of a round: what goes on after it is right."""

import support  # first: it puts the package on the path

import array
import pathlib
import sys
import unittest

import p2pdiloco
import torch


class At:
    """Raises KeyboardInterrupt once, at the nth point of a function, a round if it is not named: a
    line of the package, or a return in it, which stands for a signal that came while the library
    was at work."""

    def __init__(self, nth, name="_round"):
        self.nth, self.name, self.seen, self.depth = nth, name, 0, 0

    def enter(self, frame, event, _):
        code = frame.f_code
        if pathlib.Path(code.co_filename).parent.name != "p2pdiloco" or code.co_name == "_take":
            return None  # in _take a text would be lost, and nothing else
        if code.co_name == self.name:
            self.depth += 1
        return self.point if self.depth else None

    def point(self, frame, event, _):
        if event == "return" or event == "line" and "library" not in frame.f_code.co_filename:
            self.seen += 1
            if self.seen == self.nth:
                raise KeyboardInterrupt
        if event == "return" and frame.f_code.co_name == self.name:
            self.depth -= 1
        return self.point


class EveryPoint(support.FakeCase):
    def whole_run(self, nth, kind):
        """A run of three rounds whose second one is interrupted at the nth point, by steps that add
        1 to all parameters. It returns whether there was such a point."""
        w = torch.nn.Parameter(torch.zeros(3, dtype=kind))
        optimizer = torch.optim.SGD([w], lr=1.0)
        interrupted = False
        with p2pdiloco.DiLoCo([("w", w)], optimizer, "test", rounds=3) as d:
            for steps in range(20):
                if d.finished:
                    break
                w.grad = -torch.ones_like(w)
                try:
                    if steps == 3:
                        sys.settrace(At(nth).enter)
                    optimizer.step()
                except KeyboardInterrupt:
                    interrupted = True
                finally:
                    sys.settrace(None)
            self.assertTrue(d.finished, f"stuck after point {nth}")
            # Each inner step that was offered moved the model by half of itself, and none twice.
            offered = d.status()["fake"]["offered"]
            self.assertEqual(w.tolist(), [offered / 2] * 3, f"point {nth}")
        return interrupted

    def test_a_round_goes_on(self):
        for kind in (torch.float32, torch.bfloat16):
            points = 0
            while self.whole_run(points + 1, kind):
                points += 1
            self.assertGreater(points, 60)

    def test_no_node_is_left_behind_by_a_join(self):
        for nth in range(1, 100):
            before, initial = self.fake.fake_open(), array.array("f", [1])
            try:
                sys.settrace(At(nth, "join").enter)
                node = p2pdiloco.Node("test", layout=[("w", (1,))], initial=initial)
            except KeyboardInterrupt:
                self.assertEqual(self.fake.fake_open(), before, f"point {nth}")
            else:
                node.close()
                break
            finally:
                sys.settrace(None)
        self.assertGreater(nth, 3)

    def test_an_event_handler_that_fails(self):
        for bad in range(1, 5):
            seen = []

            def handler(event):
                seen.append(event)
                if len(seen) == bad:
                    raise ZeroDivisionError

            w = torch.nn.Parameter(torch.zeros(3))
            optimizer = torch.optim.SGD([w], lr=1.0)
            try:
                with p2pdiloco.DiLoCo([("w", w)], optimizer, "test", on_event=handler) as d:
                    for _ in range(8):
                        w.grad = -torch.ones_like(w)
                        try:
                            optimizer.step()
                        except ZeroDivisionError:
                            pass
                    self.assertTrue(d.finished)
                    self.assertEqual(w[0].item() % 1, 0)
            except ZeroDivisionError:
                self.assertTrue(bad in (1, 2) or len(seen) == bad)


if __name__ == "__main__":
    unittest.main()
