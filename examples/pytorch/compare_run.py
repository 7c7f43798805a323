"""One cell of compare.py: its processes, and the figures that come of them."""

import datetime
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import p2pdiloco
from compare_train import WARM_UP, Learner
from p2pdiloco.attach import rendezvous
from p2pdiloco.settings import flags

HERE = pathlib.Path(__file__).resolve().parent
LOOPBACK = "/ip4/127.0.0.1/tcp/0"
GRACE = 10  # seconds of a cell's limit, from SIGTERM to SIGKILL


class Failed(Exception):
    """A cell has failed; the text has the end of a log."""


class TooLate(Failed):
    """A cell's time is over."""


class Processes:
    """The processes of one cell, with a folder for them. All end with the with block."""

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

    def train(self, name, job, ranks=1, **environment):
        """Starts a process for each rank."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, str(HERE / "compare_train.py"), json.dumps(job)]
        place = dict(environment, WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                     MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        names = [f"{name}.{rank}" for rank in range(ranks)]
        for rank, one in enumerate(names):
            self.start(one, command, RANK=str(rank), LOCAL_RANK=str(rank), **place)
        return names

    def wait(self, done, what):
        """Waits until done() is true, or one of them fails, or the time is over."""
        while not done():
            for name, process in self.all.items():
                if process.poll():
                    raise Failed(f"{name}: exit status {process.returncode}\n{self.tail(name)}")
            if time.monotonic() > self.deadline:
                tails = [f"{name}: {self.tail(name, 800)}" for name in self.all]
                raise TooLate("\n".join([f"the time is over, waiting for {what}", *tails]))
            time.sleep(0.05)

    def tail(self, name, length=4000):
        return (self.folder / f"{name}.log").read_text(errors="replace")[-length:].strip()

    def ended(self, names):
        return all(self.all[name].poll() == 0 for name in names)

    def end(self):
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

    def __exit__(self, *error):
        self.end()
        self.temporary.cleanup()


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


# One cell.


def run_ddp(job, started):
    processes = job["peers"] if job["ddp"] == "processes" else 1
    out = started.folder / "figures.json"
    names = started.train("ddp", dict(job, out=str(out)), processes)
    started.wait(lambda: started.ended(names), "the end of DDP")
    found = json.loads(out.read_text())
    tokens = found["steps"] * job["peers"] * job["batch"] * job["context"]
    return dict(found, tokens=tokens, tokens_a_second=tokens / found["seconds"])


def cuda_config(job):
    """What train.cu is told: the model, the batches and the optimizer of compare_train.py."""
    values = {name: job[name] for name in ("layers", "width", "heads", "context", "batch")}
    values.update(
        learning_rate=job["lr"], warm_up=WARM_UP, held_out=8, data=job["train"],
        dtype="tf32" if job["device"] == "cuda" else "f32",
    )
    return "".join(f"{name} {value}\n" for name, value in values.items())


def run_peers(cell, job, started):
    """Trains with the peers of a cell, and says what came of it."""
    folder, peers = started.folder, range(job["peers"])
    options = dict(
        run="compare", trainer="attach", found=True, listen=LOOPBACK, preset="lan", trust="crash",
        aggregator="mean", start_peers=job["peers"], min_peers=job["peers"], seed=job["seed"],
        inner_steps=cell.inner_steps, rounds=cell.rounds, codec=cell.codec,
    )
    if cell.trainer == "cuda":
        config = folder / "train.txt"
        config.write_text(cuda_config(job))
        options.update(trainer=job["library"], trainer_config=str(config))
    options.update(pair.split("=", 1) for pair in job["set"])
    cut = None
    try:
        names = start_peers(cell, job, started, options)
        started.wait(lambda: started.ended(names), "the run's end")
    except TooLate as late:
        cut = str(late)
        started.end()
    trainers = [read_json(folder / f"trainer-{i}.json") for i in peers]
    nodes = [read_json(folder / f"node-{i}.out") for i in peers]
    found = collect(cell, job, nodes, [rounds(folder / f"events-{i}") for i in peers], cut)
    if cell.trainer == "pytorch":
        found.update(of_trainers(trainers, cut))
    elif not cut:
        found["loss"] = exported_loss(job, folder)
    return found


def start_peers(cell, job, started, options):
    """Returns the names of the processes whose ends are the run's."""
    folder, names = started.folder, [f"node-{i}" for i in range(job["peers"])]
    started.start("bootstrap", [job["program"], "bootstrap", "--listen", LOOPBACK])
    printed = folder / "bootstrap.out"
    started.wait(lambda: "\n" in printed.read_text(), "the bootstrap node")
    options = dict(options, bootstrap=printed.read_text().split()[0])
    for i, name in enumerate(names):
        own = dict(options, data_dir=folder / name, events=folder / f"events-{i}")
        started.start(name, [job["program"], "join", "--json", *flags(own)])
    if cell.trainer == "cuda":
        return names
    sockets = [folder / name / "attach" for name in names]
    started.wait(lambda: all(s.exists() and s.read_text() for s in sockets), "the nodes")
    for i, path in enumerate([file.read_text().strip() for file in sockets]):
        one = dict(job, peer=i, inner_steps=cell.inner_steps, out=str(folder / f"trainer-{i}.json"))
        names += started.train(f"trainer-{i}", one, cell.ranks, P2PDILOCO_ATTACH=path)
    return names


def read_json(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):  # it was ended before it wrote that
        return {}


def rounds(file):
    """What a node tells of its rounds, each as (when the anchor after it was loaded, seconds of
    its inner steps). Round 0 is the beginning."""
    found = []
    for written in file.read_text().splitlines() if file.exists() else []:
        event = json.loads(written)
        if event["event"] == "trainer.stats":
            whole, part = event["time"][:19] + "+00:00", "0" + event["time"][19:-1]
            loaded = datetime.datetime.fromisoformat(whole).timestamp() + float(part)
            found.append((loaded, event["seconds"]))
    return found


def collect(cell, job, nodes, stats, cut=None):
    """The figures of a run, from the reports of its nodes, and from each one's rounds. Of a run
    that was cut there are those of the slots that all have done."""
    done = max(0, min(len(of_peer) - 1 for of_peer in stats))
    each = cell.inner_steps * job["batch"] * job["context"]  # tokens of a peer in a round
    found = dict(slots=done, steps=done * cell.inner_steps, tokens=done * each * len(nodes))
    if not cut:
        roots = {node["state_root"] for node in nodes}
        if len(roots) > 1:
            raise Failed(f"the peers have ended with different models: state roots {sorted(roots)}")
        tokens = [node["tokens"] for node in nodes]
        if done != cell.rounds or set(tokens) != {each * cell.rounds}:
            raise Failed(f"not on equal tokens: {done} of {cell.rounds} rounds, and the peers have "
                         f"trained on {tokens} tokens in place of {each * cell.rounds}")
    elif done < 1:
        return dict(found, cut=cut)
    # one machine's clock: how long each slot of each peer took, and the inner steps in it
    slots = [(b[0] - a[0], b[1]) for of_peer in stats for a, b in zip(of_peer, of_peer[1:])]
    seconds = max(of_peer[done][0] for of_peer in stats) - min(of_peer[0][0] for of_peer in stats)
    if not cut:
        n, parameters = len(nodes), nodes[0]["parameters"]
        found.update(
            parameters=parameters, ddp_bytes=8 * (n - 1) / n * parameters * cell.inner_steps,
            bytes_a_slot=statistics.fmean(node["bytes_sent"] for node in nodes) / done,
        )
    return dict(
        found, cut=cut, seconds=seconds, tokens_a_second=found["tokens"] / seconds,
        idle=1 - sum(inner for _, inner in slots) / sum(took for took, _ in slots),
        slot_seconds=statistics.median(took for took, _ in slots),
        idle_seconds=statistics.median(took - inner for took, inner in slots),
    )


def of_trainers(trainers, cut=None):
    """What the peers' trainers report: the loss, the most that PyTorch had allocated in a process,
    and whether what they share with the nodes was page-locked in all of them (None: no GPU)."""
    if cut:
        return {}
    if len({t["weights"] for t in trainers}) > 1:
        raise Failed("the trainers of the peers hold different models after the last slot")
    locked = {t["page_locked"] for t in trainers}
    pages = None if None in locked else "not locked" if False in locked else "locked"
    memory = max(t["gpu_mb"] or 0 for t in trainers) or None
    return dict(loss=trainers[0]["loss"], gpu_mb=memory, pages=pages)


def exported_loss(job, folder):
    """The loss of the model that the first peer's node holds."""
    out = folder / "model.safetensors"
    rendezvous.ask(["export", f"--data-dir={folder / 'node-0'}", f"--out={out}"])
    learner = Learner(job)
    learner.load(out)
    return learner.loss()


def measure(cell, job, limit):
    """The line of a cell."""
    began, found = time.monotonic(), {}
    try:
        with Processes(limit - GRACE) as started, Idle(job["device"]) as use:
            if cell.trainer == "ddp":
                found = run_ddp(job, started)
            else:
                found = run_peers(cell, job, started)
        found["gpu_idle"] = use.share
    except TooLate as late:
        found["cut"] = str(late)
    except (Failed, OSError, ValueError, KeyError, RuntimeError, p2pdiloco.Error) as err:
        found["failed"] = f"{type(err).__name__}: {err}"
    return dict(cell=cell.name, **found, cell_seconds=time.monotonic() - began)
