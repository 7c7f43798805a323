"""The hook on optimizer.step, with all that users put around a step."""

import support  # first: it puts the package on the path

import inspect
import math
import unittest
import warnings
from unittest import mock

import torch
from p2pdiloco.hooks import StepHook


def new_sgd():
    p = torch.nn.Parameter(torch.ones(1))
    p.grad = torch.ones(1)
    return torch.optim.SGD([p], lr=0.5), p


class Scaler(torch.cuda.amp.GradScaler):
    """PyTorch's GradScaler on the CPU, where the kernel that looks for overflows is missing. With
    `attributes` it tells fused optimizers of them as PyTorch 2 does."""

    def __init__(self, attributes):
        with mock.patch("torch.cuda.is_available", lambda: True):
            super().__init__(init_scale=1.0)
        self._lazy_init_scale_growth_tracker(torch.device("cpu"))
        self._attributes = attributes

    def _unscale_grads_(self, optimizer, *_):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        bad = any(not torch.isfinite(g).all() for g in gradients)
        return {"cpu": torch.tensor([float(bad)])}

    def step(self, optimizer, *args, **kwargs):
        if not (self._attributes and optimizer._step_supports_amp_scaling):
            return super().step(optimizer, *args, **kwargs)
        optimizer.found_inf = self._unscale_grads_(optimizer)["cpu"]
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.found_inf


class Wrapping(unittest.TestCase):
    def setUp(self):
        self.calls = 0

    def count(self):
        self.calls += 1

    def test_after_the_step_and_no_more_once_removed(self):
        optimizer, p = new_sgd()
        seen = []
        hook = StepHook(optimizer, lambda: seen.append(p.item()))
        optimizer.step()
        hook.remove()
        optimizer.step()
        self.assertEqual(seen, [0.5])
        self.assertNotIn("step", vars(optimizer))

    def test_closures_and_results_pass(self):
        optimizer, p = new_sgd()
        StepHook(optimizer, self.count)
        self.assertEqual(optimizer.step(lambda: 42), 42)
        self.assertEqual(optimizer.step(closure=lambda: 43), 43)
        lbfgs = torch.optim.LBFGS([p], max_iter=4)
        StepHook(lbfgs, self.count)
        lbfgs.step(lambda: (p * p).sum())
        self.assertEqual(self.calls, 3)

    def test_its_signature_stays(self):
        optimizer, _ = new_sgd()
        before = inspect.signature(optimizer.step)
        StepHook(optimizer, self.count)
        self.assertEqual(inspect.signature(optimizer.step), before)

    def test_schedulers_before_and_after(self):
        for first in (True, False):
            optimizer, _ = new_sgd()
            make = torch.optim.lr_scheduler.StepLR
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scheduler = make(optimizer, 1, 0.5) if first else None
                hook = StepHook(optimizer, self.count)
                scheduler = scheduler or make(optimizer, 1, 0.5)
                optimizer.step()
                scheduler.step()
                hook.remove()
                optimizer.step()
                scheduler.step()
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.125)
            self.assertEqual(optimizer._step_count, 2)
        self.assertEqual(self.calls, 2)

    def test_steps_that_a_grad_scaler_skips_do_not_count(self):
        for fused, attributes in ((False, False), (True, False), (True, True)):
            with self.subTest(fused=fused, attributes=attributes):
                self.calls = 0
                optimizer, p = new_sgd()
                optimizer._step_supports_amp_scaling = fused
                scaler = Scaler(attributes)
                plain = optimizer.step

                def step(closure=None, *, grad_scaler=None):  # fused ones look at the flag
                    found = grad_scaler and grad_scaler._check_inf_per_device(optimizer)
                    found = found["cpu"] if found else getattr(optimizer, "found_inf", None)
                    if not found:
                        plain()

                if fused:
                    optimizer.step = step
                StepHook(optimizer, self.count)
                for gradient, value, calls in (
                    (math.inf, 1.0, 0), (1.0, 0.5, 1), (math.nan, 0.5, 1), (1.0, 0.0, 2),
                ):
                    p.grad = torch.full((1,), gradient)
                    scaler.step(optimizer)
                    scaler._per_optimizer_states.clear()  # as update() does
                    self.assertEqual((p.item(), self.calls), (value, calls))

    def test_a_grad_scaler_that_is_not_enabled(self):
        optimizer, p = new_sgd()
        StepHook(optimizer, self.count)
        scaler = torch.cuda.amp.GradScaler(enabled=False)
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertEqual(self.calls, 1)

    def test_two_hooks_come_off_in_any_order(self):
        optimizer, _ = new_sgd()
        first, second = StepHook(optimizer, self.count), StepHook(optimizer, self.count)
        optimizer.step()
        first.remove()
        optimizer.step()
        second.remove()
        optimizer.step()
        self.assertEqual(self.calls, 3)

    def test_an_exception_of_the_step_is_none_of_ours(self):
        optimizer, _ = new_sgd()
        StepHook(optimizer, self.count)

        def closure():
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            optimizer.step(closure)
        self.assertEqual(self.calls, 0)

    def test_no_optimizer(self):
        with self.assertRaisesRegex(TypeError, "dict is no optimizer"):
            StepHook({}, self.count)

    def test_a_wrapper_that_has_no_hooks_of_its_own(self):
        class Wrapper:  # a subclass of torch.optim.Optimizer that does not call its __init__
            def register_step_post_hook(self, hook):
                return self.no_such_dict

            def step(self):
                pass

        wrapper = Wrapper()
        StepHook(wrapper, self.count)
        wrapper.step()
        self.assertEqual(self.calls, 1)

    def test_post_hooks_are_used_where_there_are_some(self):
        class Handle:
            def remove(self):
                optimizer.hooks.clear()

        class Optimizer:
            hooks = []

            def register_step_post_hook(self, hook):
                self.hooks.append(hook)
                return Handle()

            def step(self):
                for hook in self.hooks:
                    hook(self, (), {})

        optimizer = Optimizer()
        hook = StepHook(optimizer, self.count)
        optimizer.step()
        hook.remove()
        self.assertEqual((self.calls, optimizer.hooks), (1, []))
        self.assertNotIn("step", vars(optimizer))


if __name__ == "__main__":
    unittest.main()
