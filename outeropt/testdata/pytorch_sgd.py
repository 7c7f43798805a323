#!/usr/bin/python3
"""Writes pytorch_sgd.txt: what torch.optim.SGD makes of fixed gradients, in float32 bits.

    /usr/bin/python3 outeropt/testdata/pytorch_sgd.py > outeropt/testdata/pytorch_sgd.txt

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
CASES = [("sgd", "0.7", "0"), ("sgd", "1", "0"), ("sgd", "0.7", "0.9"), ("nesterov", "0.7", "0.9"), ("nesterov", "0.7", "0.6")]


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


def run(name, lr, momentum):
    stream = noise()
    p = torch.nn.Parameter(vector(stream))
    opt = torch.optim.SGD([p], lr=float(lr), momentum=float(momentum), nesterov=name == "nesterov")
    print("case", name, lr, momentum)
    for step in range(1, STEPS + 1):
        p.grad = vector(stream)
        opt.step()
        buffer = opt.state[p].get("momentum_buffer")
        state = [] if buffer is None else [buffer]
        print("step", step, crc([p] + state))
    for what, tensor in zip(["params", "momentum"], [p] + state):
        print(what, bits(tensor).hex())


print("# pytorch_sgd.py with PyTorch", torch.__version__, "on", sys.byteorder, "endian;", ELEMENTS, "elements,", STEPS, "steps")
print("# case NAME LR MOMENTUM; step N CRC-32 of params and momentum; their bits after the last step, little-endian")
for case in CASES:
    run(*case)
