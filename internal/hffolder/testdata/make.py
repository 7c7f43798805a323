#!/usr/bin/env python3
"""make.py FOLDER: makes tiny/ as transformers' save_pretrained() lays a folder out, from the formats' descriptions
alone: Python's standard library, and no code of ours.

The model is a small GPT-2 with tied embeddings in bfloat16, whose norms are in float32, in two files with an index.
The folder holds the output layer a second time, as older releases wrote it.
"""
import json
import pathlib
import struct
import sys


def brain(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)  # exact: all values below have few digits


def full(values):
    return struct.pack(f"<{len(values)}f", *values)


def save(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return len(data)


embedding = [(i - 6) / 4 for i in range(12)]
files = {
    "model-00001-of-00002.safetensors": {
        "transformer.wte.weight": ("BF16", [6, 2], brain(embedding)),
        "transformer.ln_f.weight": ("F32", [2], full([1.5, 0.1])),
    },
    "model-00002-of-00002.safetensors": {
        "transformer.h.0.mlp.weight": ("BF16", [2, 2], brain([1, -2, 0.5, 8])),
        "lm_head.weight": ("BF16", [6, 2], brain(embedding)),
    },
}
folder = pathlib.Path(sys.argv[1])
total = sum(save(folder / name, tensors) for name, tensors in files.items())
index = {"metadata": {"total_size": total}, "weight_map": {t: name for name in files for t in files[name]}}
(folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
config = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 2, "n_layer": 1, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "vocab_size": 6,
}
(folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
(folder / "tokenizer.json").write_text('{"version": "1.0"}\n')
