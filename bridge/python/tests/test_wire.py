"""The attach protocol's bytes, against the golden files that the Go package wrote."""

import pathlib
import struct
import unittest

import nodestub  # noqa: F401  (puts the package of this tree first)
from p2pdiloco.attach import wire
from p2pdiloco.attach.wire import Box, Flat, Message, TensorSpec

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "attach" / "testdata" / "wire"

EXAMPLES = {
    "at": Message(wire.AT, 9, train=8, steps=12),
    "done-evaluated": Message(wire.DONE, 5, loss=2.5),
    "done-failed": Message(wire.DONE, 6, status=2, text="no space left"),
    "done-unsupported": Message(wire.DONE, 6, status=1),
    "done": Message(wire.DONE, 7),
    "error": Message(
        wire.ERROR, 0, code=4,
        text="pid 71 trains this run here: give data_dir= for a second peer",
    ),
    "evaluate": Message(wire.EVALUATE, 5),
    "evaluate-prompt": Message(wire.EVALUATE, 5, prompt="Once upon"),
    "export": Message(wire.EXPORT, 4, begin=96, end=192, what=wire.PARAMETERS),
    "fill": Message(wire.FILL, 1),
    "go-give-up": Message(wire.GO, 9, answer=wire.GIVE_UP),
    "go": Message(wire.GO, 9, look=24),
    "hello-saves": Message(
        wire.HELLO, 1, version=wire.VERSION, world=1, set="pid 71", saves=1, state=4,
    ),
    "hello-rank-0": Message(wire.HELLO, 1, version=wire.VERSION, world=1, set="pid 71"),
    "hello": Message(
        wire.HELLO, 1, version=wire.VERSION, rank=1, world=2, set="set-1", run="my-run",
        client="python 0.1",
    ),
    "info": Message(
        wire.INFO, 0, run_id="abcd", peer="12D3", mode="sync", inner_steps=500, last_slot=100,
        spec='{"name":"my-run"}',
    ),
    "info-ended": Message(
        wire.INFO, 0, run_id="abcd", peer="12D3", mode="sync", inner_steps=500, last_slot=100,
        slot=100, root="4b88",
    ),
    "layout-boxes": Message(
        wire.LAYOUT, 2, tensors=(TensorSpec("wte", (256, 96)), TensorSpec("b", (), wire.BF16)),
        pieces=(Box(0, (128, 0), (128, 96)), Box(1, (), ())),
    ),
    "layout-flat": Message(
        wire.LAYOUT, 2, tensors=(TensorSpec("w", (10,), wire.F16),), pieces=(Flat(0, 7, 3),)
    ),
    "leave": Message(wire.LEAVE, 11, reason="the training loop has ended", run=1),
    "train-save": Message(
        wire.TRAIN, 8, slot=1, steps=1, members=1, save="/data/my-run/trainer/3-0-0-1-5e5e",
    ),
    "load-range": Message(wire.LOAD, 3, begin=96, end=192, generation=4),
    "load": Message(wire.LOAD, 2, end=24577, generation=2),
    "notice": Message(wire.NOTICE, 0, level=1, text="no quorum: paused"),
    "offer": Message(
        wire.OFFER, 8, steps=500, tokens=64000, samples=2000, loss=3.25, grad_norm=0.5,
        seconds=12.75,
    ),
    "ping": Message(wire.PING, 10),
    "pong": Message(wire.PONG, 10),
    "restore": Message(wire.RESTORE, 7, folder="/data/my-run/trainer/3", world=2),
    "share": Message(
        wire.SHARE, 2, elements=24577, offset=65536, size=163844, epoch=3, writes=b"\1\0"
    ),
    "train-step": Message(
        wire.TRAIN, 8, slot=3, steps=500, members=1, step=1000, total_steps=10000,
    ),
    "train-members": Message(
        wire.TRAIN, 8, slot=1, steps=1, members=2, member_ids="12D3a\n12D3b"
    ),
    "train": Message(
        wire.TRAIN, 8, slot=4, steps=500, look=12, export=1, seed=7, member=1, members=3, part=10,
        part_steps=500, part_done=20, delay=5,
    ),
    "welcome": Message(
        wire.WELCOME, 1, version=wire.VERSION, run="my-run", data_dir="/data/my-run", pid=4711
    ),
}


def parse(raw: bytes):
    size, kind, id = wire.unpack_header(raw[:16])
    if size != len(raw) - 16:
        raise AssertionError(f"the header says {size} bytes, and {len(raw) - 16} follow")
    return wire.unpack(kind, id, raw[16:])


def field(tag, value):
    return struct.pack("<HHI", tag, 0, len(value)) + value


class TestWire(unittest.TestCase):
    def test_golden_bytes(self):
        names = {path.stem for path in GOLDEN.glob("*.hex")}
        self.assertEqual(names, set(EXAMPLES), "each golden file needs an example here")
        for name, message in EXAMPLES.items():
            with self.subTest(name):
                raw = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
                self.assertEqual(wire.pack(message).hex(), raw.hex())
                self.assertEqual(parse(raw), message)

    def test_unknown_tags_and_types_are_passed_over(self):
        body = field(99, b"new") + field(2, struct.pack("<Q", 24)) + field(7, b"")
        self.assertEqual(wire.unpack(wire.GO, 3, body), Message(wire.GO, 3, look=24))
        self.assertIsNone(wire.unpack(77, 0, b"anything"))

    def test_what_cannot_be_read_is_refused(self):
        word = struct.pack("<Q", 1)
        for what, kind, body in (
            ("left over", wire.GO, field(1, word) + b"abc"),
            ("are left", wire.GO, struct.pack("<HHI", 1, 0, 9) + word),
            ("instead of 8", wire.GO, field(1, b"1234")),
            ("twice", wire.GO, field(1, word) + field(1, word)),
            ("UTF-8", wire.NOTICE, field(2, b"\xff")),
            ("tensor", wire.LAYOUT, field(1, struct.pack("<II", 1, 1 << 31))),
            ("piece", wire.LAYOUT, field(2, word)),
            ("form 3", wire.LAYOUT, field(2, struct.pack("<3Q", 0, 3, 0))),
        ):
            with self.subTest(what), self.assertRaisesRegex(wire.WireError, what):
                wire.unpack(kind, 0, body)
        with self.assertRaisesRegex(wire.WireError, "67108864 are allowed"):
            wire.unpack_header(struct.pack("<IHHQ", wire.MAX_BODY + 1, 1, 0, 0))


if __name__ == "__main__":
    unittest.main()
