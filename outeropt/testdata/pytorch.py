#!/usr/bin/python3
"""Writes pytorch.txt: what torch.optim.SGD and torch.optim.Adam make of fixed gradients, in float32 bits.

    /usr/bin/python3 outeropt/testdata/pytorch.py > outeropt/testdata/pytorch.txt

Needs Debian's python3-torch and python3-numpy. The AVX2 kernels of that build fuse multiply-add, which rounds
differently, so the plain ones are asked for.
"""
import os

os.environ["ATEN_CPU_CAPABILITY"] = "default"

import sys
import zlib

import numpy
import torch

ELEMENTS, STEPS = 2048, 20
CASES = [
    ("sgd", "0.7", "0", "0"),
    ("sgd", "1", "0", "0"),
    ("sgd", "0.7", "0.9", "0"),
    ("nesterov", "0.7", "0.9", "0"),
    ("nesterov", "0.7", "0.6", "0"),
    ("adam", "0.01", "0.9", "0.99"),
    ("adam", "0.3", "0", "0.95"),
]


def noise():
    """An endless stream of float32 bits with magnitudes from 2^-15 to 2, from a 32-bit xorshift."""
    x = 1
    while True:
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        yield x & 0x807FFFFF | 112 + (x >> 23 & 15) << 23


def vector(stream):
    bits = numpy.array([next(stream) for _ in range(ELEMENTS)], dtype=numpy.uint32)
    return torch.from_numpy(bits.view(numpy.float32))


def bits(tensor):
    return tensor.detach().numpy().astype("<f4").tobytes()


def crc(tensors):
    return "%08x" % zlib.crc32(b"".join(bits(t) for t in tensors))


def optimizer(p, name, lr, momentum, beta2):
    """Ours has its numbers in float32, so PyTorch gets the same: 1 - beta then has the same bits, too."""
    lr, momentum, beta2 = (float(numpy.float32(x)) for x in (lr, momentum, beta2))
    if name == "adam":
        return torch.optim.Adam([p], lr=lr, betas=(momentum, beta2), eps=1e-8)
    return torch.optim.SGD([p], lr=lr, momentum=momentum, nesterov=name == "nesterov")


def run(*case):
    stream = noise()
    p = torch.nn.Parameter(vector(stream))
    opt = optimizer(p, *case)
    print("case", *case)
    for step in range(1, STEPS + 1):
        p.grad = vector(stream)
        opt.step()
        kept = [opt.state[p].get(k) for k in ("momentum_buffer", "exp_avg", "exp_avg_sq")]
        state = [v for v in kept if v is not None]
        print("step", step, crc([p] + state))
    for what, tensor in zip(["params", "state0", "state1"], [p] + state):
        print(what, bits(tensor).hex())


print("# pytorch.py with PyTorch", torch.__version__, "on", sys.byteorder, "endian;", ELEMENTS, "elements,", STEPS, "steps")
print("# case NAME LR MOMENTUM BETA2; step N CRC-32 of params and state; their bits after the last step, little-endian")
for case in CASES:
    run(*case)
