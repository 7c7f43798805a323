"""A peer that is killed in the midst of its run, and goes on.

The argument is a JSON object of settings of DiLoCo, and of its own: kill (script, node or both), at
(after this step of its own optimizer; once, which the file once says), optimizer (AdamW, SGDm or
SGD), nan (the step whose batch holds NaN, once). Each of its ranks holds a part of the model, and
trains it alone. It prints JSON lines.
"""

import hashlib
import json
import logging
import os
import signal
import sys

import torch

import p2pdiloco

RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def tell(kind, **fields):
    print(json.dumps({"is": kind, "rank": RANK, **fields}), flush=True)


class Lines(logging.Handler):
    def emit(self, record):
        tell("line", text=record.getMessage())


def node_pid(d):
    return d.node_pid if hasattr(d, "node_pid") else d._session.node_pid


def kill(who, pid):
    if who in ("node", "both") and RANK == 0:  # another rank would kill the one after it
        os.kill(pid, signal.SIGKILL)
    if who in ("script", "both"):
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    options = json.loads(sys.argv[1])
    own = {name: options.pop(name, None) for name in ("kill", "at", "once", "optimizer", "nan")}
    keeps = options.pop("keeps", True)
    log = logging.getLogger("p2pdiloco")
    log.addHandler(Lines())
    log.setLevel(logging.INFO)
    torch.manual_seed(RANK)
    part = torch.nn.Parameter(torch.linspace(-1, 1, 8))
    optimizer = {
        "AdamW": lambda: torch.optim.AdamW([part], lr=0.05),
        "SGDm": lambda: torch.optim.SGD([part], lr=0.05, momentum=0.9),
        "SGD": lambda: torch.optim.SGD([part], lr=0.05),
    }[own["optimizer"] or "AdamW"]()
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + n))
    shard = p2pdiloco.Part(part, (8 * WORLD,), first=8 * RANK)
    keep = [optimizer, schedule] if keeps else []
    tell("started")
    with p2pdiloco.DiLoCo([("w", shard)], optimizer, keep=keep, **options) as d:
        steps, resets, loss = schedule.last_epoch, 0, None
        tell("joined", slot=d.metrics.slot, rate=schedule.last_epoch)
        while not d.finished and steps < 200:
            x = torch.randn(4, 8)
            once = own["once"] and not os.path.exists(own["once"])
            if once and own["nan"] == schedule.last_epoch + 1:
                open(own["once"], "w").close()
                x[0, 0] = float("nan")
            optimizer.zero_grad()
            loss = torch.nn.functional.dropout(x * part - x.sin(), 0.25).square().mean()
            loss.backward()
            try:
                optimizer.step()
            except p2pdiloco.NotFinite:
                resets += 1
                d.reset()
                continue
            schedule.step()
            steps += 1
            if once and own["at"] == steps:
                open(own["once"], "w").close()
                kill(own["kill"], node_pid(d))
        state = optimizer.state.get(part, {})
        tell(
            "done", rounds=d.rounds, rate=optimizer.param_groups[0]["lr"],
            schedule=schedule.last_epoch, steps=int(state.get("step", 0)), loss=float(loss),
            weights=hashlib.sha256(part.detach().numpy().tobytes()).hexdigest(), resets=resets,
        )


if __name__ == "__main__":
    main()
