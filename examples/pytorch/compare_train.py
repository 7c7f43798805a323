"""What compare.py starts: a process that trains, alone or as a rank of a peer, or of DDP.

Its argument is a job, a JSON object; it writes what it found to the job's file out.
"""

import hashlib
import itertools
import json
import os
import pathlib
import statistics
import sys
import time

import torch
from gpt import GPT, Config
from train_gpt import Windows, adamw, forever

import p2pdiloco

HELD_OUT = 128  # windows for the loss
WARM_UP = 20  # steps; then the learning rate stays, so a loss after any number of steps counts


class Learner:
    """The model, its optimizer and schedule, and the data: the same in every process of a job."""

    def __init__(self, job, place=0):
        torch.set_num_threads(job["threads"])
        if job["device"] == "cuda":
            torch.cuda.set_device(place % torch.cuda.device_count())
            torch.backends.cuda.matmul.allow_tf32 = True
        torch.manual_seed(job["seed"])
        sizes = [job[name] for name in ("layers", "width", "heads", "context")]
        self.device, self.model = job["device"], GPT(Config(*sizes)).to(job["device"])
        self.net = self.model
        self.optimizer = adamw(self.model, job["lr"])
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: min((s + 1) / WARM_UP, 1)
        )
        self.windows, self.held_out = (
            Windows(torch.frombuffer(bytearray(pathlib.Path(job[name]).read_bytes()),
                                     dtype=torch.uint8), job["context"])
            for name in ("train", "held_out")
        )

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

    def loss(self):
        """The loss of the model on text that nobody has trained on."""
        stride = max(1, len(self.held_out) // HELD_OUT)
        some = torch.utils.data.Subset(self.held_out, range(0, len(self.held_out), stride))
        losses = []
        with torch.no_grad():
            for batch in torch.utils.data.DataLoader(some, 8, drop_last=True):
                losses.append(self.model(*(part.to(self.device) for part in batch)).item())
        return statistics.fmean(losses)

    def figures(self, **found):
        digest = hashlib.sha256()
        for p in self.model.parameters():
            digest.update(p.detach().cpu().numpy().tobytes())
        memory = torch.cuda.max_memory_allocated() / 1e6 if self.device == "cuda" else None
        return dict(found, loss=self.loss(), weights=digest.hexdigest(), gpu_mb=memory)

    def load(self, file):
        """Loads what p2pdiloco export has written: tensors with the model's names, float32."""
        data = bytearray(pathlib.Path(file).read_bytes())
        begin = 8 + int.from_bytes(data[:8], "little")
        tensors = json.loads(data[8:begin])
        tensors.pop("__metadata__", None)
        self.model.load_state_dict({
            name: torch.frombuffer(
                data, dtype=torch.float32, offset=begin + t["data_offsets"][0],
                count=(t["data_offsets"][1] - t["data_offsets"][0]) // 4,
            ).view(t["shape"])
            for name, t in tensors.items()
        })


def place_of(environment):
    return (int(environment.get(name, n)) for name, n in (("RANK", 0), ("WORLD_SIZE", 1)))


def train_together(job):
    """A peer's trainer, or one rank of several. Ranks average over gloo: NCCL refuses two ranks
    on one GPU."""
    rank, ranks = place_of(os.environ)
    learner, every = Learner(job, job["peer"] * ranks + rank), job["inner_steps"]
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        learner.net = torch.nn.parallel.DistributedDataParallel(learner.model)
    own = job["batch"] // ranks
    with p2pdiloco.DiLoCo(
        learner.net, learner.optimizer, sync_every=every, tokens_per_step=own * job["context"],
        node_timeout=30,
    ) as d:
        sampler = d.sampler(learner.windows, job["batch"])
        loader = torch.utils.data.DataLoader(learner.windows, own, sampler=sampler, drop_last=True)
        locked = d.page_locked
        for step, batch in enumerate(d.batches(loader, repeat=True), 1):
            d.report(learner.backward(batch))
            if step % every == 0:
                learner.synchronize()  # or the steps that are queued would count as waiting
            learner.step()
    return learner.figures(page_locked=locked) if rank == 0 else None


def train_ddp(job):
    """Data-parallel training with as many processes as there are peers, or what that computes in
    one: each step takes the mean of the gradients of as many batches as there are peers. The loss
    is measured after each number of steps that the job names."""
    rank, processes = place_of(os.environ)
    learner, generator = Learner(job, rank), torch.Generator().manual_seed(job["seed"])
    if processes > 1:
        torch.distributed.init_process_group("nccl" if job["device"] == "cuda" else "gloo")
        learner.net = torch.nn.parallel.DistributedDataParallel(learner.model)
    loader = forever(torch.utils.data.DataLoader(
        learner.windows, job["batch"], shuffle=True, generator=generator, drop_last=True
    ))
    own, losses, seconds = job["peers"] // processes, {}, 0.0
    batches = itertools.islice(loader, rank, None, processes)
    began = time.monotonic()
    for step in range(1, max(job["marks"]) + 1):
        for batch in itertools.islice(batches, own):
            learner.backward(batch, share=own)
        learner.step()
        if step in job["marks"]:
            learner.synchronize()
            seconds += time.monotonic() - began
            losses[step] = learner.loss()
            began = time.monotonic()
    found = learner.figures(
        losses=losses, seconds=seconds, steps=step,
        parameters=sum(p.numel() for p in learner.model.parameters()),
    )
    return found if rank == 0 else None


def main():
    job = json.loads(sys.argv[1])
    found = train_together(job) if "peer" in job else train_ddp(job)
    if found:
        pathlib.Path(job["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
