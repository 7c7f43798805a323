"""A PyTorch peer for the tests: a small network that learns a fixed function.

Its argument is a JSON object of settings of DiLoCo, and of its own: hold and go (from that slot on
it waits in its inner steps until the file go is there), events (names of those to be reported),
workers (of a DataLoader: fork or spawn, and how many), force (after that many steps it wants the
weights that all agree on), save (a file for a checkpoint after the seventh step, with which the
process dies), resume (such a file), answers (whether it tells the digest of its weights
to who asks).
"""

import hashlib
import json
import os
import sys
import time

import torch

import p2pdiloco


def tell(kind, **fields):
    print(json.dumps({"is": kind, **fields}), flush=True)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, i):
        x = torch.tensor([(i * k) % 17 for k in range(1, 9)]) / 17 - 0.5
        return x, x.sin().sum().view(1)


def digest(model):
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(weights).hexdigest()


def batches(workers):
    if workers is None:
        x, y = zip(*(Data()[i] for i in range(64)))
        while True:
            yield torch.stack(x), torch.stack(y)
    kind, n = workers
    while True:
        yield from torch.utils.data.DataLoader(
            Data(), batch_size=4, num_workers=n, multiprocessing_context=kind
        )


def main():
    settings = json.loads(sys.argv[1])
    hold, go = settings.pop("hold", None), settings.pop("go", "")
    wanted, workers = settings.pop("events", []), settings.pop("workers", None)
    force = settings.pop("force", None)
    save, resume = settings.pop("save", None), settings.pop("resume", None)
    answers = settings.pop("answers", False)
    torch.manual_seed(os.getpid())
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.5)

    def on_event(event):
        if event["event"] in wanted:
            tell(event["event"], about=event.get("about"), detail=event.get("detail"))

    tell("started")
    d = p2pdiloco.DiLoCo(model, optimizer, on_event=on_event, **settings)

    def answer(prompt):
        if prompt == "raise":
            raise ZeroDivisionError("no words")
        return f"{digest(model)} {model.training} {torch.is_grad_enabled()}"

    if answers:
        d.sampler_fn = answer
    if resume:
        states = torch.load(resume)
        for part, state in zip((model, optimizer, scheduler, d), states):
            part.load_state_dict(state)
    with d:
        at = dict(slot=d.metrics.slot, steps=d.metrics.steps, weights=digest(model))
        tell("joined", peer=d.status()["peer"], every=d.sync_every, **at)
        rounds = steps = 0
        parts = {}
        for x, y in d.batches(batches(workers)):
            while hold is not None and d.metrics.slot >= hold and not os.path.exists(go):
                time.sleep(0.05)
            parts[d.metrics.slot + 1] = d.part
            loss = (model(x) - y).square().mean()
            loss.backward()
            d.report(loss)
            d.tokens(len(x))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            steps += 1
            if steps == force:
                d.force_sync()
                tell("forced", slot=d.metrics.slot, steps=d.metrics.steps, weights=digest(model))
            if save and steps == 7:
                parts = (model, optimizer, scheduler, d)
                torch.save([part.state_dict() for part in parts], save)
                tell("saved", slot=d.metrics.slot, steps=d.metrics.steps, weights=digest(model))
                os._exit(9)
            if d.rounds > rounds:
                rounds = d.rounds
                tell("round", slot=d.metrics.slot, loss=d.metrics.loss, world=d.world)
        tell(
            "done", slot=d.metrics.slot, phase=d.metrics.phase, rounds=d.rounds,
            state_root=d.status()["state_root"], weights=digest(model), parts=parts,
        )


if __name__ == "__main__":
    main()
