"""Hugging Face folders, and files of weights, as a run begins with them and ends in them."""

import support  # first: it puts the package of this tree on the path

import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import torch
from p2pdiloco import Invalid, NotFinite, hf
from p2pdiloco.torchmodel import TorchHeld

KINDS = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16", torch.float16: "F16",
         torch.int64: "I64", torch.bool: "BOOL"}


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        flat = t.contiguous().reshape(-1)
        raw = flat.numpy() if t.dtype != torch.bfloat16 else flat.view(torch.int16).numpy()
        offsets = [len(data), len(data) + len(raw.tobytes())]
        header[name] = dict(dtype=KINDS[t.dtype], shape=list(t.shape), data_offsets=offsets)
        data += raw.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Model(torch.nn.Module):
    """A tied head, and a buffer of each kind; old is in no state dict of today."""

    def __init__(self):
        super().__init__()
        self.wte = torch.nn.Embedding(5, 3)
        self.fc = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.wte.weight
        self.register_buffer("mask", torch.ones(2, 2, dtype=torch.bool))
        self.register_buffer("inv_freq", torch.ones(2))
        self.register_buffer("old", torch.arange(3), persistent=False)


class Folders(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir, self.model = pathlib.Path(scratch.name), Model()
        self.held = TorchHeld(self.model)
        self.layout = {t.name: tuple(t.shape) for t in self.held.tensors}
        self.state = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.parameters = {k: self.state[k] for k in self.layout}

    def folder(self, *files, name="model"):
        """A folder with one file, or several and their index."""
        made = self.dir / name
        made.mkdir()
        (made / "config.json").write_text('{"model_type": "toy"}')
        (made / "tokenizer.json").write_text("{}")
        if len(files) == 1:
            save(made / "model.safetensors", files[0])
            return made
        names = [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
        for file, tensors in zip(names, files):
            save(made / file, tensors)
        where = {name: file for file, tensors in zip(names, files) for name in tensors}
        (made / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
        return made

    def begun(self, init, model=None):
        """What a run begins with, as tensors, and what was said."""
        held = TorchHeld(model) if model is not None else self.held
        layout = {t.name: tuple(t.shape) for t in held.tensors}
        out = self.dir / "out.safetensors"
        with self.assertLogs("p2pdiloco") as log:
            hf._log.warning("begins")
            hf.convert(str(init), layout, held.names(), str(out))
        got = {}
        for name, t in hf.read(str(out)).items():
            raw = bytearray(b"".join(t.raw()))
            got[name] = torch.frombuffer(raw, dtype=torch.float32).reshape(t.shape)
        self.assertEqual(list(got), list(layout))
        return got, log.output[1:]

    def same(self, got, near=0.0):
        for name, t in got.items():
            self.assertTrue(torch.allclose(t, self.parameters[name].float(), atol=near), name)

    def test_a_folder_in_several_files_with_buffers_and_ties(self):
        first, rest = {"old": torch.arange(3)}, {}
        for i, (name, t) in enumerate(self.state.items()):
            (first if i % 2 else rest)[name] = t
        got, said = self.begun(f"hf:{self.folder(first, rest)}")
        self.same(got)
        self.assertEqual(len(said), 1)
        self.assertIn("6 tensors that the run does not train (buffers, frozen", said[0])

    def test_names_with_a_prefix_or_without_one(self):
        more = {f"a.b.{k}": v for k, v in self.state.items()}
        got, said = self.begun(f"hf:{self.folder(more, name='more')}")
        self.same(got)
        self.assertIn("the prefix a.b. in front of the model's: wte.weight is a.b.wte", said[0])
        body = torch.nn.Module()
        body.transformer = self.model
        got, said = self.begun(f"hf:{self.folder(self.state, name='less')}", body)
        self.same({k.partition(".")[2]: v for k, v in got.items()})
        self.assertIn("have not the first part of the model's", said[0])
        twice = {f"{p}.{k}": v for p in "ab" for k, v in self.state.items()}
        with self.assertRaisesRegex(Invalid, "this model 2 times, under the prefixes a., b.:"):
            self.begun(f"hf:{self.folder(twice, name='twice')}")

    def test_kinds_are_widened(self):
        for kind, near in ((torch.bfloat16, 0.01), (torch.float16, 1e-3), (torch.float64, 0)):
            file = self.dir / f"{KINDS[kind]}.safetensors"
            save(file, {k: v.to(kind) for k, v in self.parameters.items()})
            got, _ = self.begun(file)
            self.same(got, near)
            for name, t in got.items():
                self.assertTrue(torch.equal(t, self.parameters[name].to(kind).float()), name)

    def test_what_is_not_this_model(self):
        frozen = Model()
        frozen.fc.bias.requires_grad_(False)
        got, said = self.begun(f"hf:{self.folder(self.state, name='frozen')}", frozen)
        self.assertNotIn("fc.bias", got)
        self.assertIn("fc.bias", said[0])
        for change, what in (
            ({"fc.bias": None}, r"tensor fc.bias \[3\] is missing"),
            ({"fc.bias": torch.ones(4)}, r"tensor fc.bias is \[4\] there, \[3\] in the model"),
            ({"fc.bias": torch.arange(3)}, "tensor fc.bias is of type I64"),
            ({"x": torch.ones(3)}, r"tensor x \[3\] is not in the model"),
            ({"head.weight": torch.ones(5, 3)}, "wte.weight and head.weight differ, and are one"),
        ):
            tensors = {k: v for k, v in {**self.state, **change}.items() if v is not None}
            with self.assertRaisesRegex(Invalid, what):
                self.begun(f"hf:{self.folder(tensors, name=what[:20].replace('/', ''))}")

    def test_nan_and_infinity_are_refused(self):
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            for bad in (math.nan, math.inf, -math.inf):
                values = self.parameters["fc.weight"].to(kind)
                values[1, 2] = bad
                path = self.dir / "bad.safetensors"
                save(path, {**self.parameters, "fc.weight": values})
                what = f"bad.safetensors: tensor fc.weight has {bad} in element 5"
                with self.assertRaisesRegex(NotFinite, what):
                    self.begun(path)
                self.assertFalse((self.dir / "out.safetensors").exists())
        with torch.no_grad():
            self.model.fc.bias[2] = math.inf
        with self.assertRaisesRegex(NotFinite, "fc.bias has inf in element 2"):
            self.held.fill()

    def test_what_is_no_model_file(self):
        for blob, what in (
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"),
            (b"\n<!DOCTYPE html>\n<html></html>", "a web page"),
            (b"PK\x03\x04" + bytes(100), "a PyTorch pickle"),
            (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a PyTorch pickle"),
            (struct.pack("<Q", 10**18) + b"{}", "no .safetensors file, or it ends too early"),
            (b"", "no .safetensors file, or it ends too early"),
            (struct.pack("<Q", 2) + b"[]", "no .safetensors file"),
            (struct.pack("<Q", 8) + b'{"a": 1}', "has a header that is not of"),
        ):
            path = self.dir / "m.safetensors"
            path.write_bytes(blob)
            with self.assertRaisesRegex(Invalid, what):
                hf.folder(str(path))
        save(path, self.state)
        os.truncate(path, path.stat().st_size - 3)
        with self.assertRaisesRegex(Invalid, "ends too early, in tensor"):
            hf.folder(str(path))

    def test_what_is_no_folder(self):
        def spoilt(change):
            name = f"m{len(os.listdir(self.dir))}"
            made = self.folder(self.state, {"x": torch.ones(1)}, name=name)
            change(made)
            return str(made)

        index, second = "model.safetensors.index.json", "model-00002-of-00002.safetensors"
        for change, what in (
            (lambda d: d.rename(d.parent / "away"), "there is no such file or folder"),
            (lambda d: (d / "config.json").unlink(), "there is no config.json"),
            (lambda d: (d / index).unlink(), "holds neither model.safetensors nor"),
            (lambda d: (d / index).write_text("{"), "download it again"),
            (lambda d: (d / index).write_text("{}"), "weight_map"),
            (lambda d: (d / second).unlink(), second),
            (lambda d: save(d / second, {"y": torch.ones(1)}), "says that tensor x is in"),
            (lambda d: save(d / "model.safetensors", {}), "two models"),
            (lambda d: (d / index).rename(d / "pytorch_model.bin"), "is a PyTorch pickle"),
        ):
            with self.assertRaisesRegex(Invalid, what):
                hf.folder(spoilt(change))

    def test_export_is_like_the_folder(self):
        halves = {k: v.bfloat16() if v.is_floating_point() else v for k, v in self.state.items()}
        halves["fc.weight"] = self.state["fc.weight"].half()
        rest = {"inv": torch.arange(3), "wpe.attn.bias": torch.ones(1, 1, 2, 2)}
        like = self.folder(halves, rest)
        new = {k: torch.randn(v.shape) for k, v in self.parameters.items()}
        save(self.dir / "run.safetensors", new)
        out = self.dir / "tuned"
        with self.assertLogs("p2pdiloco") as log:
            hf.export(str(like), str(self.dir / "run.safetensors"), self.held.names(), str(out))
        self.assertIn("that the run did not train", log.output[0])
        self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(like)))
        for name in ("config.json", "tokenizer.json", "model.safetensors.index.json"):
            self.assertEqual((out / name).read_bytes(), (like / name).read_bytes())
        before, after = hf.folder(str(like)), hf.folder(str(out))
        want = {**new, "head.weight": new["wte.weight"]}
        for name, t in after.items():
            self.assertEqual(t[1:], before[name][1:])
            raw = b"".join(t.raw())
            if name not in want:
                self.assertEqual(raw, b"".join(before[name].raw()), name)
                continue
            kind = torch.float16 if name == "fc.weight" else torch.bfloat16
            got = torch.frombuffer(bytearray(raw), dtype=torch.int16)
            rounded = want[name].to(kind).reshape(-1).view(torch.int16)
            self.assertTrue(torch.equal(got, rounded), name)

    def test_rounding_is_to_the_nearest_even(self):
        bits = torch.randint(-2**31, 2**31 - 1, (10000,), dtype=torch.int64).to(torch.int32)
        bits[:4] = torch.tensor([0x3F808000, 0x3F818000, 0x3F807FFF, -0x7FFF8000])
        values = bits.view(torch.float32)
        values = values[values.isfinite()]
        want = values.bfloat16().view(torch.int16)
        got = hf.narrowed("x", values.numpy().tobytes(), "BF16")
        self.assertEqual(got, want.numpy().tobytes())
        with self.assertRaisesRegex(Invalid, "x has a value that float16"):
            hf.narrowed("x", struct.pack("<f", 1e6), "F16")

    def test_the_command_makes_one_file(self):
        rest = {"n": torch.arange(3), "b": torch.ones(1)}
        made = self.folder({"a": torch.ones(2).bfloat16()}, rest)
        out = self.dir / "one.safetensors"
        command = [sys.executable, "-m", "p2pdiloco.hf", f"hf:{made}", str(out)]
        env = dict(os.environ, PYTHONPATH=str(support.PACKAGE))
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        kinds = {n: t.kind for n, t in hf.read(str(out)).items()}
        self.assertEqual(kinds, {"a": "F32", "b": "F32"})
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        self.assertIn("python3 -m p2pdiloco.hf FOLDER FILE", done.stderr)

    def test_running_statistics_that_are_each_peers_own(self):
        self.assertEqual(self.held.own_statistics(), ["norm.running_mean", "norm.running_var"])
        self.assertEqual(TorchHeld(self.model, buffers=True).own_statistics(), [])


if __name__ == "__main__":
    unittest.main()
