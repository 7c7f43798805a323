#!/usr/bin/env python3
"""Compares runs of several peers on this machine with data-parallel training on equal tokens.

    python3 compare.py --json results.json         # a GPT of 152 million parameters on one GPU
    python3 compare.py --small                     # a tiny one; also what it does without a GPU

For each number of ranks a peer, of inner steps, and each codec, it starts the peers of a run of
their own on loopback, waits for their end, and prints a line. It needs what DiLoCo needs, the
program among it (P2PDILOCO_BINARY or PATH). See docs/gpu.md.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from gpt import GPT, Config
from train_gpt import Windows, adamw, forever, read

import p2pdiloco
from p2pdiloco.attach import rendezvous
from p2pdiloco.settings import flags

BIG = dict(layers=12, width=1024, heads=16, context=256, lr=6e-4)  # 151.7 million parameters
SMALL = dict(layers=1, width=32, heads=4, context=32, lr=8e-3)  # 22,000
LOOPBACK = "/ip4/127.0.0.1/tcp/0"
HELD_OUT = 128  # windows for the loss at the end
GRACE = 20  # seconds from SIGTERM to SIGKILL; torchrun ends its ranks meanwhile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])

    def several(kind):
        return lambda text: [kind(word) for word in text.split(",")]

    matrix = parser.add_argument_group("what is compared: each one with each")
    matrix.add_argument("--ranks", type=several(int), default=[1, 2], help="of a peer (1,2)")
    matrix.add_argument("--inner-steps", type=several(int), default=[30, 100], help="(30,100)")
    matrix.add_argument("--codecs", type=several(str), default=["f32", "int8", "int4"])
    same = parser.add_argument_group("the same for all of them")
    same.add_argument("--small", action="store_true", help="tiny model (default without a GPU)")
    same.add_argument("--peers", type=int, default=4)
    same.add_argument("--steps", type=int, default=300, help="of each peer: rounds x inner steps")
    same.add_argument("--batch", type=int, default=8, help="windows that a peer takes in a step")
    same.add_argument("--data", help="a text file (default: Python's own library)")
    same.add_argument("--seed", type=int, default=1)
    same.add_argument(
        "--ddp", choices=("auto", "processes", "one"), default="auto",
        help="DDP in a process for each peer, or what it computes in one (auto: as many devices?)",
    )
    same.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in BIG.items():
        same.add_argument(f"--{name}", type=type(value), help=f"({value}; small {SMALL[name]})")
    same.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="another setting of p2pdiloco join, like trust=byzantine (here trust=crash, a mean)",
    )
    parser.add_argument("--limit", type=float, default=600, help="seconds for each setting (600)")
    parser.add_argument("--json", metavar="FILE", help="all figures, written after each setting")
    args = parser.parse_args()
    args.small = args.small or args.device == "cpu"
    for name, value in (SMALL if args.small else BIG).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if any(args.steps % n for n in args.inner_steps):
        parser.error(f"--steps {args.steps} is no multiple of all of {args.inner_steps}")
    if any(args.batch % n for n in args.ranks):
        parser.error(f"--batch {args.batch} is no multiple of all of {args.ranks}")
    if any("=" not in pair for pair in args.set):
        parser.error(f"--set {args.set}: NAME=VALUE is needed")
    return args


# What trains: a process of its own, whose argument is a job as JSON.


class Learner:
    """The model, its optimizer and schedule, and the data: the same in every process of a job."""

    def __init__(self, job, place=0):
        if job["small"]:
            torch.set_num_threads(1)
        if job["device"] == "cuda":
            torch.cuda.set_device(place % torch.cuda.device_count())
            torch.backends.cuda.matmul.allow_tf32 = True
        torch.manual_seed(job["seed"])
        sizes = [job[name] for name in ("layers", "width", "heads", "context")]
        self.device, self.model = job["device"], GPT(Config(*sizes)).to(job["device"])
        self.net = self.model
        self.optimizer = adamw(self.model, job["lr"])
        total, warm = job["steps"], max(1, job["steps"] // 10)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: min((s + 1) / warm, max(0.1, 1 - 0.9 * s / total))
        )
        text = read(job["data"], ".py")
        cut = len(text) - len(text) // 16
        self.windows = Windows(text[:cut], job["context"])
        self.held_out = Windows(text[cut:], job["context"])

    def backward(self, batch, share=1):
        inputs, targets = (part.to(self.device) for part in batch)
        loss = self.net(inputs, targets) / share
        loss.backward()
        return loss

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def figures(self, **found):
        """What a job reports, with the loss of its model on text that nobody has trained on."""
        stride = max(1, len(self.held_out) // HELD_OUT)
        some = torch.utils.data.Subset(self.held_out, range(0, len(self.held_out), stride))
        losses = []
        with torch.no_grad():
            for batch in torch.utils.data.DataLoader(some, 8, drop_last=True):
                losses.append(self.model(*(part.to(self.device) for part in batch)).item())
        digest = hashlib.sha256()
        for p in self.model.parameters():
            digest.update(p.detach().cpu().numpy().tobytes())
        memory = torch.cuda.max_memory_allocated() / 1e6 if self.device == "cuda" else None
        return dict(
            found, loss=statistics.fmean(losses), weights=digest.hexdigest(), gpu_mb=memory,
            parameters=sum(p.numel() for p in self.model.parameters()),
        )


def train_together(job):
    """A peer's trainer, or one rank of several. Ranks average over gloo: NCCL refuses two ranks
    on one GPU."""
    rank, ranks = (int(os.environ.get(name, n)) for name, n in (("RANK", 0), ("WORLD_SIZE", 1)))
    learner, every = Learner(job, job["peer"] * ranks + rank), job["inner_steps"]
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        learner.net = torch.nn.parallel.DistributedDataParallel(learner.model)
    own = job["batch"] // ranks
    slots, stalls = [], []
    with p2pdiloco.DiLoCo(
        learner.net, learner.optimizer, sync_every=every, tokens_per_step=own * job["context"],
        node_timeout=30,
    ) as d:
        sampler = d.sampler(learner.windows, job["batch"])
        loader = torch.utils.data.DataLoader(learner.windows, own, sampler=sampler, drop_last=True)
        locked = d.page_locked
        began = last = time.monotonic()
        for step, batch in enumerate(d.batches(loader, repeat=True), 1):
            d.report(learner.backward(batch))
            if step % every == 0:
                learner.synchronize()  # or the steps that are queued would count as standing still
            learner.step()
            if d.rounds > len(slots):
                now = time.monotonic()
                slots.append(now - last)
                stalls.append(d.metrics.last_stall_seconds)
                last = now
    if rank == 0:
        return learner.figures(
            seconds=last - began, slots=slots, stalls=stalls, steps=step, page_locked=locked
        )


def train_alone(job):
    """What DDP over all peers computes, in one process: each step takes the mean of the gradients
    of as many batches as there are peers."""
    learner, generator = Learner(job), torch.Generator().manual_seed(job["seed"])
    loader = forever(torch.utils.data.DataLoader(
        learner.windows, job["batch"], shuffle=True, generator=generator, drop_last=True
    ))
    began = time.monotonic()
    for _ in range(job["steps"]):
        for batch in itertools.islice(loader, job["peers"]):
            learner.backward(batch, share=job["peers"])
        learner.step()
    learner.synchronize()
    return learner.figures(seconds=time.monotonic() - began)


def train_ddp(job):
    """The same as DDP with a process for each peer, on the same batches in the same order."""
    rank, peers = int(os.environ["RANK"]), job["peers"]
    learner, generator = Learner(job, rank), torch.Generator().manual_seed(job["seed"])
    torch.distributed.init_process_group("nccl" if job["device"] == "cuda" else "gloo")
    learner.net = torch.nn.parallel.DistributedDataParallel(learner.model)
    loader = forever(torch.utils.data.DataLoader(
        learner.windows, job["batch"], shuffle=True, generator=generator, drop_last=True
    ))
    began = time.monotonic()
    for batch in itertools.islice(loader, rank, job["steps"] * peers, peers):
        learner.backward(batch)
        learner.step()
    learner.synchronize()
    seconds = time.monotonic() - began
    return learner.figures(seconds=seconds) if rank == 0 else None


def devices(device):
    """How many processes can train beside each other, each with a device of its own."""
    return torch.cuda.device_count() if device == "cuda" else os.cpu_count() or 1


class Idle:
    """Samples the GPUs' utilisation while it is open. share is the part of the time, from the
    first use to the last, in which they did nothing; None where nvidia-smi does not say."""

    def __init__(self, device):
        self.share, self._process = None, None
        if device == "cuda" and shutil.which("nvidia-smi"):
            self._process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits",
                 "-lms", "200"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process is not None:
            self._process.terminate()
            self.share = idle(self._process.communicate()[0])


def idle(text):
    """The idle share of what nvidia-smi has printed, a percentage of use in each line."""
    used = [int(word) for word in text.split() if word.isdigit()]
    there = [i for i, percent in enumerate(used) if percent > 0]
    if not there:
        return None
    used = used[there[0] : there[-1] + 1]
    return 1 - statistics.fmean(used) / 100


# What starts the processes.


class Failed(Exception):
    """A setting has failed; the text has the end of a log."""


class Processes:
    """The processes of one setting, with a folder for them. All end with the with block."""

    def __init__(self, limit):
        self.deadline, self.all = time.monotonic() + limit, {}
        self.temporary = tempfile.TemporaryDirectory(prefix="compare-")
        self.folder = pathlib.Path(self.temporary.name)

    def __enter__(self):
        return self

    def start(self, name, command, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith("P2PDILOCO_")}
        env.update(environment, TMPDIR=str(self.folder))
        files = [open(self.folder / f"{name}.{kind}", "wb") for kind in ("out", "log")]
        self.all[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1], env=env,
            start_new_session=True,  # Ctrl-C is for this script alone
        )
        for file in files:
            file.close()

    def wait(self, done, what):
        """Waits until done() is true, or one of them fails, or the time is over."""
        while not done():
            for name, process in self.all.items():
                if process.poll():
                    raise Failed(f"{name}: exit status {process.returncode}\n{self.tail(name)}")
            if time.monotonic() > self.deadline:
                tails = [f"{name}: {self.tail(name, 800)}" for name in self.all]
                raise Failed("\n".join([f"the time is over, waiting for {what}", *tails]))
            time.sleep(0.05)

    def tail(self, name, length=4000):
        return (self.folder / f"{name}.log").read_text(errors="replace")[-length:].strip()

    def ended(self, names):
        return all(self.all[name].poll() == 0 for name in names)

    def __exit__(self, *error):
        running = [p for p in self.all.values() if p.poll() is None]
        for process in running:
            process.terminate()
        until = time.monotonic() + GRACE
        for process in running:
            try:
                process.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.temporary.cleanup()


def script(job, ranks=1):
    here = [str(pathlib.Path(__file__).resolve()), json.dumps(job)]
    if ranks == 1:
        return [sys.executable, *here]
    return [  # torchrun; Debian's of PyTorch 1.13 does not start without -r and -t
        sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "-r1", "-t1",
        "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", *here,
    ]


def baseline(job, limit, processes):
    with Processes(limit) as started, Idle(job["device"]) as use:
        out = started.folder / "figures.json"
        own = dict(job, out=str(out), ddp=processes > 1)
        started.start("baseline", script(own, processes))
        started.wait(lambda: started.ended(["baseline"]), "the baseline")
        found = json.loads(out.read_text())
    return dict(found, tokens_per_second=job["tokens"] / found["seconds"], idle=use.share)


def measure(job, options, limit):
    """Trains with the peers of one setting, and says what came of it."""
    with Processes(limit) as started, Idle(job["device"]) as use:
        folder, peers = started.folder, range(job["peers"])
        program, outs = rendezvous.binary(), [folder / f"figures-{i}.json" for i in peers]
        started.start("bootstrap", [program, "bootstrap", "--listen", LOOPBACK])
        printed = folder / "bootstrap.out"
        started.wait(lambda: "\n" in printed.read_text(), "the bootstrap node")
        options = dict(options, bootstrap=printed.read_text().split()[0])
        for i in peers:
            data_dir = f"--data-dir={folder / f'node-{i}'}"
            started.start(f"node-{i}", [program, "join", data_dir, "--json", *flags(options)])
        sockets = [folder / f"node-{i}" / "attach" for i in peers]
        started.wait(lambda: all(s.exists() and s.read_text() for s in sockets), "the nodes")
        for i in peers:
            command = script(dict(job, peer=i, out=str(outs[i])), job["ranks"])
            started.start(f"trainer-{i}", command, P2PDILOCO_ATTACH=sockets[i].read_text().strip())
        names = [f"{kind}-{i}" for kind in ("trainer", "node") for i in peers]
        started.wait(lambda: started.ended(names), "the run's end")
        reports = [json.loads((folder / f"node-{i}.out").read_text()) for i in peers]
        found = collect(job, [json.loads(out.read_text()) for out in outs], reports)
    return dict(found, idle=use.share)


def collect(job, trainers, nodes):
    """One line of the table, from what the trainers and the nodes of a run report."""
    roots = {node["state_root"] for node in nodes}
    if len(roots) > 1 or len({t["weights"] for t in trainers}) > 1:
        raise Failed(f"the peers have ended with different models: state roots {sorted(roots)}")
    taken = [len(t["slots"]) for t in trainers]
    steps = [t["steps"] for t in trainers]
    rounds = job["steps"] // job["inner_steps"]
    if set(taken) != {rounds} or set(steps) != {job["steps"]}:
        raise Failed(f"not on equal tokens: of {rounds} rounds and {job['steps']} steps the peers "
                     f"have taken {taken} and {steps}")
    seconds = max(t["seconds"] for t in trainers)
    return dict(
        loss=trainers[0]["loss"], parameters=trainers[0]["parameters"], state_root=roots.pop(),
        bytes_a_slot=statistics.fmean(node["bytes_sent"] for node in nodes) / rounds,
        still=statistics.fmean(sum(t["stalls"]) / t["seconds"] for t in trainers),
        slot_seconds=statistics.median(s for t in trainers for s in t["slots"]),
        still_seconds=statistics.median(s for t in trainers for s in t["stalls"]),
        seconds=seconds, tokens_per_second=job["tokens"] / seconds,
        gpu_mb=max((t["gpu_mb"] or 0 for t in trainers)) or None,
        pages=pages({t["page_locked"] for t in trainers}),
    )


def pages(locked):
    """Whether what the nodes share was page-locked in all trainers; None without a GPU."""
    if None in locked:
        return None
    return "not locked" if False in locked else "locked"


COLUMNS = (
    ("ranks", "ranks", "{}"), ("H", "inner_steps", "{}"), ("codec", "codec", "{}"),
    ("loss", "loss", "{:.4f}"), ("to DDP", "to_ddp", "{:+.4f}"),
    ("MB/slot", "mb_a_slot", "{:.3f}"), ("still", "still", "{:.1%}"),
    ("slot s", "slot_seconds", "{:.2f}"), ("still s", "still_seconds", "{:.2f}"),
    ("tokens/s", "tokens_per_second", "{:.0f}"), ("GPU MB", "gpu_mb", "{:.0f}"),
    ("pages", "pages", "{}"), ("GPU idle", "idle", "{:.0%}"),
)


def line(row):
    """A line of the table, in Markdown."""
    cells = [form.format(row[key]) if row.get(key) is not None else "" for _, key, form in COLUMNS]
    if "failed" in row:
        cells[3] = "failed"
    return f"| {' | '.join(cells)} |"


def attempt(row, work):
    """The row, with what work() finds or why it failed."""
    try:
        return dict(row, **work())
    except (Failed, OSError, ValueError, KeyError, p2pdiloco.Error) as err:
        print(f"{row} has failed: {err}", file=sys.stderr)
        return dict(row, failed=f"{type(err).__name__}: {err}")


def compare(args):
    job = dict(vars(args), tokens=args.peers * args.steps * args.batch * args.context)
    print(f"{'a tiny model, which says nothing about GPUs' if args.small else 'the big model'}, on "
          f"{args.device}: {args.peers} peers, {args.steps} steps each, of {args.batch} windows of "
          f"{args.context} tokens\n", flush=True)
    options = dict(
        run="compare", trainer="attach", found=True, listen=LOOPBACK, preset="lan", trust="crash",
        aggregator="mean", start_peers=args.peers, min_peers=args.peers, seed=args.seed,
    )
    options.update(pair.split("=", 1) for pair in args.set)
    processes = args.peers
    if args.ddp == "one" or args.ddp == "auto" and devices(args.device) < args.peers:
        processes = 1
        print(f"DDP is one process that adds up the gradients of {args.peers} batches a step: a "
              f"device for each of {args.peers} processes is not here\n", flush=True)
    first = attempt(
        dict(codec="DDP", processes=processes), lambda: baseline(job, args.limit, processes)
    )
    rows = []
    for title in ([name for name, _, _ in COLUMNS], ["---"] * len(COLUMNS)):
        print("| " + " | ".join(title) + " |")
    for row in itertools.chain([first], settings(args, job, options)):
        if "loss" in row and "loss" in first and row is not first:
            row["to_ddp"] = row["loss"] - first["loss"]
        if "bytes_a_slot" in row:
            row["mb_a_slot"] = row["bytes_a_slot"] / 1e6
        rows.append(row)
        print(line(row), flush=True)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(dict(arguments=vars(args), rows=rows)))
    return any("failed" in row for row in rows)


def settings(args, job, options):
    for ranks, steps, codec in itertools.product(args.ranks, args.inner_steps, args.codecs):
        row = dict(ranks=ranks, inner_steps=steps, codec=codec)
        own = dict(options, inner_steps=steps, codec=codec, rounds=args.steps // steps)
        yield attempt(row, lambda: measure(dict(job, **row), own, args.limit))


def main():
    if sys.argv[1:] and sys.argv[1].startswith("{"):  # started by this script
        job = json.loads(sys.argv[1])
        train = train_together if "peer" in job else train_ddp if job["ddp"] else train_alone
        found = train(job)
        if found:
            pathlib.Path(job["out"]).write_text(json.dumps(found))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what it has started
    raise SystemExit(compare(arguments()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
