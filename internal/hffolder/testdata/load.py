#!/usr/bin/env python3
"""load.py FOLDER: prints the tensors of a model folder as JSON, found and checked as transformers' loading code does
it, with Python's standard library and no code of ours.

It opens config.json, takes model.safetensors or the files that model.safetensors.index.json names, wants "format" in
their metadata, reads each tensor at a place that its dtype is aligned to, and wants total_size to be the bytes of all.
Where the safetensors package is installed, it must read the same bytes.
"""
import json
import pathlib
import struct
import sys

WIDTH = {"F32": 4, "BF16": 2, "F16": 2}


def values(dtype, raw):
    if dtype == "BF16":
        raw = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
    return [v for v, in struct.iter_unpack("<e" if dtype == "F16" else "<f", raw)]


def load(path):
    blob = path.read_bytes()
    n = int.from_bytes(blob[:8], "little")
    assert n % 8 == 0, "the data is not aligned"
    header, data, at = json.loads(blob[8 : 8 + n]), blob[8 + n :], 0
    assert header.pop("__metadata__")["format"] == "pt"
    found = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        assert begin == at and begin % WIDTH[t["dtype"]] == 0, f"{name} begins at {begin}"
        at, found[name] = end, (t["dtype"], t["shape"], data[begin:end])
    assert at == len(data)
    try:
        from safetensors import deserialize
    except ImportError:
        pass
    else:
        assert {k: bytes(t["data"]) for k, t in deserialize(blob)} == {k: raw for k, (_, _, raw) in found.items()}
    return found


folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
index, tensors, files = folder / "model.safetensors.index.json", {}, 1
if (folder / "model.safetensors").exists():
    assert not index.exists()
    tensors = load(folder / "model.safetensors")
else:
    of = json.loads(index.read_text())
    names = sorted(set(of["weight_map"].values()))
    for name in names:
        here = load(folder / name)
        assert set(here) == {t for t, f in of["weight_map"].items() if f == name}, name
        tensors.update(here)
    assert of["metadata"]["total_size"] == sum(len(raw) for _, _, raw in tensors.values())
    files = len(names)
shown = {k: {"dtype": d, "shape": s, "values": values(d, raw)} for k, (d, s, raw) in sorted(tensors.items())}
print(json.dumps({"config": config, "files": files, "tensors": shown}))
