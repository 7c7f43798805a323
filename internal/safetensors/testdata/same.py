#!/usr/bin/env python3
"""same.py MODEL.safetensors STATE: the tensors of an exported model, as numpy reads them, are the anchor of a checkpoint file.

A checkpoint's anchor begins behind a header of 64 bytes. Where torch and the safetensors package are installed, they read the same.
"""
import json
import sys

import numpy as np

blob = open(sys.argv[1], "rb").read()
n = int.from_bytes(blob[:8], "little")
header = json.loads(blob[8 : 8 + n])
meta = header.pop("__metadata__")
tensors = {}
for name, t in sorted(header.items(), key=lambda e: e[1]["data_offsets"]):
    begin, end = t["data_offsets"]
    assert t["dtype"] == "F32", t
    tensors[name] = np.frombuffer(blob[8 + n + begin : 8 + n + end], "<f4").reshape(t["shape"])
flat = np.concatenate([t.ravel() for t in tensors.values()])
anchor = np.frombuffer(open(sys.argv[2], "rb").read()[64 : 64 + flat.nbytes], "<f4")
assert flat.size > 0 and np.array_equal(flat.view("<u4"), anchor.view("<u4")), "the values differ"
try:
    from safetensors.torch import load_file
except ImportError:
    pass
else:
    read = load_file(sys.argv[1])
    assert read.keys() == tensors.keys() and all(np.array_equal(read[k].numpy(), v) for k, v in tensors.items())
print(f"{len(tensors)} tensors, {flat.size} values, as in the checkpoint: slot {meta['slot']}, state root {meta['state_root']}")
