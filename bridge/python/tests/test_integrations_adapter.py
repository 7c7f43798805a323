"""What the integrations have in common: how ranks share a model, and whose samples are whose."""

import support  # noqa: F401  (puts the package of this tree first)

import os
import pathlib
import types
import unittest
from unittest import mock

import p2pdiloco
import torch
from p2pdiloco import settings
from p2pdiloco.integrations import adapter


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(3))


class Sharing(unittest.TestCase):
    """How the ranks of a box share what a library has prepared."""

    def refused(self, text, model, optimizer=None):
        with self.assertRaisesRegex(p2pdiloco.Invalid, text):
            adapter.add_group({}, model, optimizer)

    def test_what_steps_copies_of_its_own(self):
        engine = type("DeepSpeedEngine", (Model,), {})
        self.refused("DeepSpeedEngine steps copies", engine())
        wrapper = type("DeepSpeedOptimizerWrapper", (), {})
        self.refused("DeepSpeedOptimizerWrapper steps copies", Model(), [wrapper()])

    def test_fsdp_1(self):
        flat = type("FullyShardedDataParallel", (Model,), {})
        self.refused("use FSDP2", torch.nn.Sequential(flat()))

    def test_a_scaler_that_goes_around_the_hook(self):
        inner = types.SimpleNamespace(scaler=object())
        optimizer = types.SimpleNamespace(optimizer=inner)
        if hasattr(torch.optim.Optimizer, "register_step_post_hook"):
            adapter.refuse(Model(), optimizer)
        else:
            self.refused("install PyTorch 2", Model(), optimizer)

    def test_several_ranks(self):
        group = types.SimpleNamespace(WORLD="all ranks")
        with mock.patch.object(adapter, "_world", lambda: 4), mock.patch.object(
            torch.distributed, "group", group
        ):
            with mock.patch.dict(os.environ, LOCAL_WORLD_SIZE="2"):
                self.refused("one machine is one peer", Model())
                for options in ({"process_group": "ours"}, {"mesh": "ours"}):  # as it advises
                    given = dict(options)
                    adapter.add_group(given, Model(), None)
                    self.assertEqual(given, options)
            self.assertEqual(adapter.process_group(Model()), "all ranks")
            sharded = Model()
            sharded.w.placements = ()
            self.assertIsNone(adapter.process_group(sharded))


class Sampling(unittest.TestCase):
    def test_an_epoch_has_the_length_of_the_data(self):
        one = adapter.Adapter()
        samples = one.sampler(range(10), 2)
        self.assertEqual(len(samples), 10)
        with self.assertRaisesRegex(p2pdiloco.Error, "when training has begun"):
            list(samples)
        one.begin(Model(), None)  # no run: it trains alone
        first, second = list(samples), list(samples)
        self.assertEqual(sorted(first), list(range(10)))
        self.assertEqual(sorted(second), list(range(10)))
        self.assertNotEqual(first, second)

    def test_options_without_a_run_are_refused(self):
        self.assertFalse(settings.given(None, {}))
        with self.assertRaisesRegex(p2pdiloco.Invalid, "no run"):
            adapter.Adapter(rounds=3).begin(Model(), None)


class Size(unittest.TestCase):
    def test_each_integration_is_a_page(self):
        """What a library needs of its own is little: the rest belongs in the adapter."""
        for path in pathlib.Path(adapter.__file__).parent.glob("*_*.py"):
            if path.name != "__init__.py":
                self.assertLessEqual(len(path.read_text().splitlines()), 80, path.name)


if __name__ == "__main__":
    unittest.main()
