#!/usr/bin/env python3
"""Writes tiny.safetensors to stdout, from the format's description alone: no code of ours, numpy for the bytes.

Where the safetensors package is installed, it must read the same values out of it.
"""
import json
import sys

import numpy as np

f32 = np.array([[1, -2.5, 3e-38], [0, 1e-45, np.inf]], "<f4")
f16 = np.array([0.5, -65504, 6e-8, 6.1e-5], "<f2")
bf16 = (np.array([1, -3.140625, 1e38], "<f4").view("<u4") >> 16).astype("<u2")
scalar = np.array(7, "<f4")
parts = [("emb.weight", "F32", f32), ("half", "F16", f16), ("brain", "BF16", bf16), ("scale ü", "F32", scalar)]

header, at = {"__metadata__": {"made": "by hand"}}, 0
for name, dtype, a in parts:
    header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
    at += a.nbytes
text = json.dumps(header, ensure_ascii=False).encode()
text += b" " * (-len(text) % 8)
blob = len(text).to_bytes(8, "little") + text + b"".join(a.tobytes() for _, _, a in parts)

try:
    from safetensors import deserialize
except ImportError:
    pass
else:
    read = dict(deserialize(blob))
    assert {n: bytes(read[n]["data"]) for n, _, _ in parts} == {n: a.tobytes() for n, _, a in parts}
sys.stdout.buffer.write(blob)
