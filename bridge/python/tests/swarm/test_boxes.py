"""Boxes of one or several ranks, attached to real nodes over loopback.

    P2PDILOCO_TEST_PROGRAM=./p2pdiloco python3 -m unittest discover -s bridge/python/tests/swarm \\
        -p test_boxes.py
"""

import hashlib
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import typing
import unittest

import numpy
import peers
from p2pdiloco import settings as options
from peers import HERE, LISTEN, Process, SwarmCase, TorchProcess

peers.PATIENCE = 240  # up to eight processes import PyTorch, on a machine that may be busy
SIZES = {"w": (5, 4), "b": (7,), "s": ()}  # as box_peer.py's
ELEMENTS = 28


def free_port():
    """A port that no program gets by chance before rank 0 takes it: it is not of those that the
    system hands out."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Box:
    """The ranks of one start of a trainer, and the log of the node that they start."""

    def __init__(self, test, name, world=1, **settings):
        self.test, self.log = test, test.folder / name / "node.log"
        settings = {
            "run": test.run_name, "found": True, "bootstrap": [test.bootstrap],
            "listen": [LISTEN], "preset": "lan", "data_dir": str(test.folder / name), **settings,
        }
        port = str(free_port())
        self.ranks = [
            TorchProcess(
                test, f"{name} rank {rank}", "box_peer.py", json.dumps(settings),
                P2PDILOCO_BINARY=test.program, RANK=str(rank), WORLD_SIZE=str(world),
                LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
            )
            for rank in range(world)
        ]

    def report(self, kind):
        return [rank.report(kind) for rank in self.ranks]

    def end(self, status=0):
        for rank in self.ranks:
            rank.end(status)

    def root(self):
        """The first digits of the state root with which the node has ended."""
        text = self.log.read_text()
        ended = r"the run has ended at slot \d+, run ID [0-9a-f]+, state root ([0-9a-f]+)"
        found = re.findall(ended, text)
        self.test.assertEqual(len(found), 1, text)
        return found[0]

    def node_pid(self):
        """The node's process."""
        return peers.node_pid(self.log.parent)


class Contributor(typing.NamedTuple):
    """What a peer puts into the slots: how many tokens each of its contributions weighs, and which
    part of the data it trained on, by slot."""

    peer: str
    tokens: int
    parts: dict


def id_bytes(peer):
    """A peer ID's bytes, of base58. Their order is that of the sums (docs/spec/README.md
    and 11)."""
    alphabet, n = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 0
    for letter in peer:
        n = 58 * n + alphabet.index(letter)
    ones = len(peer) - len(peer.lstrip("1"))
    return bytes(ones) + n.to_bytes((n.bit_length() + 7) // 8, "big")


def replay(contributors, steps, rounds, lr=0.7, momentum=0.9, theta=None):
    """What a run ends with whose slots all of them contribute to, with aggregator mean, clip off
    and codec f32: the inner steps of box_peer.py; the weighted mean of the pseudo-gradients, as
    docs/spec/reduction.md has it; then Nesterov, as docs/spec/state.md has it. Each operation is
    rounded to float32, in that order. theta: what the run begins with; None is box_peer.py's own
    model."""
    f = numpy.float32
    if theta is None:
        theta = f(0.5) + numpy.arange(ELEMENTS, dtype=f) / f(64)
    v = numpy.zeros(ELEMENTS, f)
    in_order = sorted(contributors, key=lambda c: id_bytes(c.peer))
    total = sum(float(c.tokens) for c in in_order)
    for slot in range(1, rounds + 1):
        g = numpy.zeros(ELEMENTS, f)
        for c in in_order:
            local, base = theta.copy(), f(0.25 + 0.125 * (c.parts[slot] % 3))
            for _ in range(steps):
                local -= f(0.01) * (f(0.5) * local + base)
            g = g + f(c.tokens / total) * (theta - local)
        v = f(momentum) * v + g
        theta = theta - f(lr) * (g + f(momentum) * v)
    return theta


def tensors(path):
    """The values of a .safetensors file, tensor after tensor as they lie, and their type."""
    blob = path.read_bytes()
    n = struct.unpack_from("<Q", blob)[0]
    header = json.loads(blob[8 : 8 + n])
    header.pop("__metadata__", None)
    parts = []
    for name in SIZES:
        begin, end = header[name]["data_offsets"]
        raw = blob[8 + n + begin : 8 + n + end]
        if header[name]["dtype"] == "BF16":
            raw = (numpy.frombuffer(raw, "<u2").astype(numpy.uint32) << 16).tobytes()
        parts.append(numpy.frombuffer(raw, numpy.float32))
    return numpy.concatenate(parts), {t["dtype"] for t in header.values()}


def brain(values):
    """float32 values as bfloat16, rounded to the nearest even one."""
    bits = numpy.asarray(values, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def save_pretrained(folder, values):
    """A folder as transformers writes it, with the values as box_peer.py's model in bfloat16."""
    header, data, at = {"__metadata__": {"format": "pt"}}, b"", 0
    for name, shape in SIZES.items():
        n = int(numpy.prod(shape))
        raw = brain(values[at : at + n]).tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = dict(dtype="BF16", shape=shape, data_offsets=offsets)
        data, at = data + raw, at + n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text('{"model_type": "toy", "torch_dtype": "bfloat16"}')


class Attached(SwarmCase):
    def test_every_kind_of_box_ends_with_the_same_model(self):
        """Alone in a run, whatever the number of ranks and however they share the model, a peer
        ends with the model of a replay in numpy, bit for bit."""
        for kind, world in (("single", 1), ("ddp", 2), ("flat", 4), ("dim0", 3)):
            with self.subTest(kind):
                box = Box(self, kind, world, run=f"{self.run_name}-{kind}", kind=kind,
                          inner_steps=6, rounds=4, aggregator="mean", clip="off")
                done = box.report("done")
                box.end()
                self.assertEqual({d["slot"] for d in done}, {4})
                out = self.folder / f"{kind}.safetensors"
                subprocess.run(
                    [
                        self.program, "export", "--data-dir", str(self.folder / kind), "--out",
                        str(out),
                    ],
                    check=True, capture_output=True,
                )
                parts = {int(slot): part for slot, part in done[0]["parts"].items()}
                want = replay([Contributor(done[0]["peer"], 6 * world, parts)], steps=6, rounds=4)
                got, _ = tensors(out)
                self.assertEqual(got.tobytes(), want.tobytes(), f"{got}\n{want}")
                if kind in ("single", "ddp"):
                    self.assertEqual(len({d["weights"] for d in done}), 1)

    def toy(self, *flags):
        """A node that starts the trainer in C."""
        program = str(self.folder / "toy")
        subprocess.run(
            ["cc", "-std=c11", "-ffp-contract=off", "-D_DEFAULT_SOURCE",
             "-I", str(HERE.parents[2] / "include"), "-o", program, str(HERE / "toy.c")],
            check=True,
        )
        return Process(self, "toy", [
            self.program, "join", "--run", self.run_name, "--found", "--bootstrap", self.bootstrap,
            "--listen", LISTEN, "--preset", "lan", "--data-dir", str(self.folder / "toy.data"),
            *flags, "--", program,
        ])

    def go_peer(self, **settings):
        """A peer in Go, with its trainer in its own process."""
        program = str(self.folder / "gopeer")
        subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "gopeer", check=True)
        settings.update(
            Run=self.run_name, Bootstrap=self.bootstrap, DataDir=str(self.folder / "go.data")
        )
        return Process(self, "go", [program, json.dumps(settings)])

    def test_boxes_of_1_2_and_4_ranks_one_in_c_and_one_in_go_in_one_run(self):
        """Whatever their ranks and their language, peers agree on the model of a sequential replay
        in numpy, bit for bit."""
        settings = dict(
            inner_steps=6, rounds=5, start_peers=5, min_peers=5, aggregator="mean", clip="off"
        )
        go = self.go_peer(Rounds=5, InnerSteps=6, Peers=5)
        toy = self.toy(*options.flags(settings))
        worlds = {"single": 1, "ddp": 2, "flat": 4}
        boxes = {kind: Box(self, kind, n, kind=kind, **settings) for kind, n in worlds.items()}
        done = {kind: box.report("done") for kind, box in boxes.items()}
        for box in boxes.values():
            box.end()
        self.assertEqual({d["slot"] for ranks in done.values() for d in ranks}, {5})

        def toys(kind):
            return toy.line(lambda line: line.startswith(f"toy {kind} ")).split()[2:]

        peer, parts = toys("peer")[0], dict(map(int, toys("slot")) for _ in range(5))
        last = [float.fromhex(value) for value in toys("last")]
        toy.end()
        gone = json.loads(go.line(lambda line: line.startswith("{")))
        go.end()
        contributors = [
            Contributor(peer, 6, parts),
            Contributor(gone["peer"], 6, {int(k): v for k, v in gone["parts"].items()}),
        ]
        for kind, ranks in done.items():
            parts = {int(k): v for k, v in ranks[0]["parts"].items()}
            contributors.append(Contributor(ranks[0]["peer"], 6 * worlds[kind], parts))
        want = replay(contributors, steps=6, rounds=5)
        for who, got in (("C", last), ("Go", gone["last"])):
            self.assertEqual(numpy.array(got, numpy.float32).tobytes(), want.tobytes(), who)
        weights = {d["weights"] for kind in ("single", "ddp") for d in done[kind]}
        self.assertEqual(weights, {hashlib.sha256(want.tobytes()).hexdigest()})
        self.assertEqual({box.root() for box in boxes.values()}, {gone["root"][:8]})

    def test_a_run_that_begins_with_a_hugging_face_folder(self):
        """The founder's own values count for nothing, and neither do those of a box that joins it:
        all train on from the folder, and what they agree on is written as such a folder again."""
        theta = (numpy.arange(ELEMENTS, dtype=numpy.float32) - 14) / 8  # bfloat16 has them all
        folder, out = self.folder / "model", self.folder / "trained"
        save_pretrained(folder, theta)
        settings = dict(
            inner_steps=6, rounds=4, start_peers=2, min_peers=2, aggregator="mean", clip="off"
        )
        nowhere = Box(self, "nowhere", init="hf:/nowhere", **settings)
        nowhere.end(1)
        self.assertIn("model folder /nowhere", nowhere.ranks[0].told())
        first = Box(self, "first", init=f"hf:{folder}", invites=True, **settings)
        ticket = first.report("ticket")[0]["ticket"]
        second = Box(
            self, "second", 2, kind="ddp", run=None, bootstrap=None, found=None, ticket=ticket,
            exports=[str(out), str(folder)],
        )
        done = {world: box.report("done") for world, box in ((1, first), (2, second))}
        for box in (first, second):
            box.end()
        contributors = [
            Contributor(d[0]["peer"], 6 * world, {int(k): v for k, v in d[0]["parts"].items()})
            for world, d in done.items()
        ]
        want = replay(contributors, steps=6, rounds=4, theta=theta)
        weights = {d["weights"] for ranks in done.values() for d in ranks}
        self.assertEqual(weights, {hashlib.sha256(want.tobytes()).hexdigest()})
        self.assertFalse(list(self.folder.glob("*/init.safetensors")))
        got, kinds = tensors(out / "model.safetensors")
        self.assertEqual(kinds, {"BF16"})
        self.assertEqual(brain(got).tobytes(), brain(want).tobytes())

    def test_overlapped_modes(self):
        for mode, more in (
            ("delayed", {}), ("eager", {}), ("async", {}),
            ("streaming", dict(fragments=2, fragment_delay=2)),
        ):
            with self.subTest(mode):
                settings = dict(
                    run=f"{self.run_name}-{mode}", mode=mode, inner_steps=8, rounds=4,
                    start_peers=2, min_peers=2, **more,
                )
                boxes = [
                    Box(self, f"{mode}-1", 1, kind="single", **settings),
                    Box(self, f"{mode}-3", 3, kind="dim0", **settings),
                ]
                for box in boxes:
                    box.report("done")
                for box in boxes:
                    box.end()
                self.assertEqual(len({box.root() for box in boxes}), 1)

    def test_a_rank_that_is_killed_and_a_box_that_comes_back(self):
        settings = dict(
            inner_steps=10, rounds=24, start_peers=2, min_peers=2, private=True, checkpoint_every=1
        )
        other = Box(self, "other", 1, kind="single", pause=0.02, **settings)
        box = Box(self, "box", 2, kind="ddp", pause=0.02, **settings)
        for _ in range(2):
            box.report("round")  # the first one's checkpoint is written
        box.ranks[1].kill()
        box.ranks[0].end(1)
        self.assertIn("Lost: rank 1 of 2 was lost", box.ranks[0].told())
        again = Box(self, "box", 2, kind="ddp", pause=0.02, **settings)
        for joined in again.report("joined"):
            self.assertGreaterEqual(joined["slot"], 1)
            self.assertEqual(joined["momentum"], 3)  # the optimizer's, of three tensors
        done = [*again.report("done"), *other.report("done")]
        again.end()
        other.end()
        self.assertEqual(len({d["weights"] for d in done}), 1)
        self.assertEqual(again.root(), other.root())

    def test_a_node_that_is_killed(self):
        settings = dict(inner_steps=10, rounds=24, start_peers=2)
        other = Box(self, "other", 1, kind="single", pause=0.02, **settings)
        box = Box(self, "box", 2, kind="ddp", pause=0.02, **settings)
        box.report("round")
        os.kill(box.node_pid(), signal.SIGKILL)
        done = [*box.report("done"), *other.report("done")]
        box.end()
        other.end()
        self.assertIn("the node was killed by signal 9: it is started again", box.ranks[0].told())
        self.assertEqual(len({d["weights"] for d in done}), 1)
        self.assertEqual(box.root(), other.root())

    def test_join_starts_the_trainer(self):
        script = [sys.executable, str(HERE / "box_peer.py"), "{}"]
        node = Process(self, "node", [
            self.program, "join", "--run", self.run_name, "--found", "--bootstrap", self.bootstrap,
            "--listen", LISTEN, "--preset", "lan", "--rounds", "3", "--inner-steps", "5",
            "--data-dir", str(self.folder / "node"), "--", *script,
        ])
        self.assertEqual(node.report("joined")["every"], 5)
        self.assertEqual(node.report("done")["slot"], 3)
        node.end()

    def test_leaving_ends_the_node(self):
        settings = dict(inner_steps=5, rounds=500)
        box = Box(self, "box", 2, kind="ddp", steps=12, **settings)
        self.assertEqual({d["rounds"] for d in box.report("done")}, {2})
        box.end()

    def test_a_ticket_is_a_run(self):
        settings = dict(inner_steps=5, rounds=3, start_peers=2, min_peers=2)
        founder = Box(self, "founder", 1, kind="single", invites=True, **settings)
        ticket = founder.report("ticket")[0]
        self.assertIn("findings", ticket["doctor"])
        guest = Box(self, "guest", 1, kind="single", run=None, bootstrap=None, found=None,
                    ticket=ticket["ticket"])
        done = [*founder.report("done"), *guest.report("done")]
        self.assertEqual(len({d["weights"] for d in done}), 1)
        founder.end()
        guest.end()

    def test_what_the_node_refuses_is_said(self):
        boxes = [
            Box(self, "mode", 1, kind="single", mode="sideways"),
            Box(self, "ticket", 1, kind="single", ticket="garbage", run=None),
        ]
        for box, text in zip(boxes, ("sideways", "this is no ticket: one begins with p2pd")):
            box.end(1)
            self.assertIn("p2pdiloco.errors.Invalid: ", box.ranks[0].told())
            self.assertIn(text, box.ranks[0].told())


if __name__ == "__main__":
    unittest.main()
