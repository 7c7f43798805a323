#!/usr/bin/env python3
"""Measures runs of 4 peers on this machine against data-parallel training on equal tokens.

    python3 compare.py                      # a GPT of 152 million parameters; the peers share a GPU
    python3 compare.py --small              # a tiny one, also without a GPU
    python3 compare.py --list               # the cells, and which of them are done

Each cell is a run of its own on loopback, of at most 90 seconds, and adds a line to the results
file. Started again, the script goes on with the cells that are not there. See docs/how-to/gpu.md.
"""

import argparse
import fnmatch
import hashlib
import itertools
import json
import os
import pathlib
import signal
import sys
import sysconfig
import tempfile
import time
from typing import NamedTuple

try:
    import torch
except ImportError:
    raise SystemExit("compare.py needs PyTorch: install it, or take the Python that has it")
try:
    import p2pdiloco
except ImportError:  # take that of this repository, here and in what is started
    package = str(pathlib.Path(__file__).resolve().parents[2] / "bridge" / "python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    import p2pdiloco

from compare_run import measure
from p2pdiloco.attach import rendezvous

BIG = dict(layers=12, width=1024, heads=16, context=256, lr=6e-4)  # 151.7 million parameters
SMALL = dict(layers=1, width=32, heads=4, context=32, lr=8e-3)  # 22,000
LEAST = 100_000  # bytes of text

# Of each kind of cell: what trains, its ranks a peer, and rounds by inner steps (H). They are
# chosen to end within the limit on one GPU, where two ranks average on the CPU.
KINDS = {
    "r1": ("pytorch", 1, {30: 4, 100: 2}),
    "r2": ("pytorch", 2, {30: 2, 100: 1}),
    "cuda": ("cuda", 1, {30: 4, 100: 2}),
}


class Cell(NamedTuple):
    """One run. trainer: ddp, pytorch or cuda (train.cu)."""

    name: str
    trainer: str
    ranks: int = 1
    inner_steps: int = 1
    codec: str = "f32"
    rounds: int = 1

    @property
    def steps(self):
        return self.inner_steps * self.rounds

    def __str__(self):
        if self.trainer == "ddp":
            return f"DDP, the loss after {', '.join(map(str, MARKS))} steps"
        return (f"{self.trainer}, {self.ranks} rank{'s' * (self.ranks > 1)} a peer, codec "
                f"{self.codec}, {self.rounds} rounds of {self.inner_steps} steps")


def cells():
    """All cells in their order. Where time is not enough for all, DDP and each kind with int8 and
    H 30 say most."""
    settings = [(kind, 30, "int8") for kind in KINDS]
    settings += itertools.product(("r1", "cuda", "r2"), (30, 100), ("int8", "f32", "int4"))
    yield Cell("ddp", "ddp")
    for kind, h, codec in dict.fromkeys(settings):
        trainer, ranks, rounds = KINDS[kind]
        yield Cell(f"{kind}-h{h}-{codec}", trainer, ranks, h, codec, rounds[h])


CELLS = {cell.name: cell for cell in cells()}
MARKS = sorted({cell.steps for cell in CELLS.values() if cell.trainer != "ddp"})


def arguments(given=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what is run")
    what.add_argument("--only", default="*", help="names of cells, or patterns: 'ddp,*-h30-int8'")
    what.add_argument("--list", action="store_true", help="show the cells and run none")
    what.add_argument("--results", type=pathlib.Path, default="compare.jsonl", metavar="FILE",
                      help="to which each cell adds a line (%(default)s)")
    what.add_argument("--seconds", type=float, default=float("inf"), metavar="N",
                      help="begin no cell whose limit ends after so many")
    what.add_argument("--limit", type=float, default=90, metavar="N",
                      help="seconds after which a cell is cut (%(default)s)")
    what.add_argument("--program", help="p2pdiloco (default: P2PDILOCO_BINARY, PATH, ./p2pdiloco)")
    what.add_argument("--library", type=pathlib.Path, default="libp2pdiloco_cuda.so",
                      metavar="FILE", help="what train.cu was built to (./%(default)s)")
    same = parser.add_argument_group("the same for all cells of a results file")
    same.add_argument("--small", action="store_true", help="a tiny model; without a GPU on the CPU")
    same.add_argument("--peers", type=int, default=4)
    same.add_argument("--batch", type=int, default=8, help="windows that a peer takes in a step")
    same.add_argument("--data", type=pathlib.Path, metavar="PATH",
                      help="a text file, or a folder of them (default: Python's own library)")
    same.add_argument("--seed", type=int, default=1)
    same.add_argument("--ddp", choices=("auto", "processes", "one"), default="auto", help="DDP in "
                      "a process for each peer, or what it computes in one (auto: as many GPUs?)")
    same.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                      help="another setting of p2pdiloco join, like trust=byzantine")
    args = parser.parse_args(given)
    args.device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.ddp == "auto":
        args.ddp = "processes" if torch.cuda.device_count() >= args.peers else "one"
    if not args.list and args.device == "cpu" and not args.small:
        parser.error("PyTorch sees no GPU here: --small trains a tiny model on the CPU")
    if any("=" not in pair for pair in args.set):
        parser.error(f"--set {args.set}: NAME=VALUE is needed")
    patterns = args.only.split(",")
    args.chosen = [name for name in CELLS if any(fnmatch.fnmatch(name, p) for p in patterns)]
    lost = [p for p in patterns if not fnmatch.filter(CELLS, p)]
    if lost:
        parser.error(f"--only {','.join(lost)}: no cell has such a name (--list shows them)")
    return args


def program(given):
    """The path of p2pdiloco."""
    variable = rendezvous.BINARY_VARIABLE
    if not given and not os.environ.get(variable) and pathlib.Path("p2pdiloco").is_file():
        given = "p2pdiloco"
    if given:
        os.environ[variable] = str(pathlib.Path(given).absolute())
    try:
        return rendezvous.binary()
    except p2pdiloco.Error as err:
        raise SystemExit(f"compare.py: {err}, or with --program") from None


def text(path):
    """The text of a file, or of all text files below a folder."""
    if path is None:
        files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    else:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    found = b"\n".join(part for part in (p.read_bytes() for p in files) if 0 not in part)
    if len(found) < LEAST:
        raise SystemExit(f"--data {path}: {len(found)} bytes of text, at least {LEAST} are needed")
    return found


# The results file.


def settings_of(args, data):
    """What is the same for all cells that are compared."""
    names = ("small", "peers", "batch", "seed", "ddp", "set")
    device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    digest = hashlib.sha256(data).hexdigest()
    return dict({name: getattr(args, name) for name in names}, device=device, data=digest)


def read_results(path, settings):
    """The newest row of each cell, by its name."""
    rows = {}
    for number, written in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        try:
            row = json.loads(written)
        except ValueError:
            continue  # the script was killed while it wrote this line
        other = [name for name, value in settings.items() if row["settings"][name] != value]
        if other:
            raise SystemExit(
                f"{path}, line {number}: this cell was measured with another {', '.join(other)}, "
                "and is not to be compared: name another file with --results"
            )
        rows[row["cell"]] = row
    return rows


def add_result(path, row):
    begun = path.exists() and not path.read_text().endswith("\n")  # killed while it wrote a line
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n" * begun + json.dumps(row) + "\n")


# The table.

COLUMNS = (  # title, key of a row, format, unit
    ("loss", "loss", "{:.4f}", 1),
    ("to DDP", "to_ddp", "{:+.4f}", 1),
    ("tokens", "tokens", "{}", 1),
    ("MB/slot", "bytes_a_slot", "{:.3f}", 1e6),
    ("DDP MB", "ddp_bytes", "{:.1f}", 1e6),
    ("idle", "idle", "{:.1%}", 1),
    ("slot s", "slot_seconds", "{:.2f}", 1),
    ("idle s", "idle_seconds", "{:.2f}", 1),
    ("tokens/s", "tokens_a_second", "{:.0f}", 1),
    ("GPU MB", "gpu_mb", "{:.0f}", 1),
    ("pages", "pages", "{}", 1),
    ("GPU idle", "gpu_idle", "{:.0%}", 1),
    ("cell s", "cell_seconds", "{:.0f}", 1),
)


def line(row, ddp=None):
    """A line of the table, in Markdown. A loss is held against that of DDP after as many tokens."""
    shown = dict(row)
    if row.get("loss") is not None and "steps" in row and ddp and "losses" in ddp:
        shown["to_ddp"] = row["loss"] - ddp["losses"][str(row["steps"])]
    texts = [row["cell"]]
    for _, key, form, unit in COLUMNS:
        value = shown.get(key)
        texts.append("" if value is None else form.format(value if unit == 1 else value / unit))
    if "failed" in row:
        texts[1] = "failed"
    elif row.get("cut"):
        texts[1] = f"cut, {row.get('slots', 0)} of {CELLS[row['cell']].rounds} slots"
    return f"| {' | '.join(texts)} |"


def table(rows):
    titles = ["cell", *(title for title, *_ in COLUMNS)]
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return lines + [line(rows[name], rows.get("ddp")) for name in CELLS if name in rows]


def missing(rows, why):
    """The cells that were not run, a line for each reason."""
    reasons = {}
    for name in CELLS:
        if name not in rows:
            reasons.setdefault(why.get(name, "not chosen"), []).append(name)
    return [f"Not run ({reason}): {', '.join(names)}" for reason, names in reasons.items()]


def state(row):
    if row is None:
        return "not run"
    return "failed" if "failed" in row else "cut" if row.get("cut") else "done"


# All of it.


def run(args, job, rows, keep):
    """Runs what is chosen and not done, hands each row to keep, and returns why it did not run the
    others. A cell that has failed is tried again."""
    until, why = time.monotonic() + args.seconds, {}
    for name in args.chosen:
        cell = CELLS[name]
        if state(rows.get(name)) in ("done", "cut"):
            continue
        if time.monotonic() + args.limit > until:
            why[name] = "--seconds leaves no time"
        elif cell.trainer == "cuda" and not args.library.is_file():
            why[name] = f"{args.library} is not there: build train.cu, or name it with --library"
        else:
            rows[name] = measure(cell, job, args.limit)
            keep(rows[name])
    return why


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what it has started
    args = arguments()
    if args.list:
        rows = read_results(args.results, {})
        print("\n".join(f"{c.name:16}{state(rows.get(c.name)):9}{c}" for c in CELLS.values()))
        return 0
    data = text(args.data)
    settings = settings_of(args, data)
    rows = read_results(args.results, settings)

    def keep(row):
        add_result(args.results, dict(row, settings=settings))
        print(line(row, rows.get("ddp")), row.get("failed", ""), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="compare-text-") as folder:
        job = dict(
            SMALL if args.small else BIG, peers=args.peers, batch=args.batch, seed=args.seed,
            device=args.device, set=args.set, ddp=args.ddp, marks=MARKS,
            program=program(args.program), library=str(args.library.absolute()),
            threads=max(1, (os.cpu_count() or 1) // (2 * args.peers)),
        )
        cut = len(data) - len(data) // 16
        for name, part in (("train", data[:cut]), ("held_out", data[cut:])):
            job[name] = str(pathlib.Path(folder, name))
            pathlib.Path(job[name]).write_bytes(part)
        why = run(args, job, rows, keep)
    print("\n".join([*table(rows), "", *missing(rows, why)]))
    return int(any(state(row) == "failed" for row in rows.values()))


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
