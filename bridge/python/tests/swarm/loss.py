"""The loss of a saved model of the example, in nats per byte, as builtin:gpt measures it on a
single file: over 128 windows at even distances in its last sixteenth. The arguments are the model,
the file, and a JSON object of the model's sizes."""

import json
import pathlib
import sys

import torch

from peers import EXAMPLE

sys.path.insert(0, str(EXAMPLE.parent))
import gpt


def main(model, data, sizes):
    text, sizes = pathlib.Path(data).read_bytes(), json.loads(sizes)
    tail, length = text[len(text) - len(text) // 16 :], sizes["context"]
    starts = [i * (len(tail) - length - 1) // 127 for i in range(128)]
    windows = torch.tensor([list(tail[s : s + length + 1]) for s in starts])
    net = gpt.GPT(gpt.Config(*(sizes[k] for k in ("layers", "width", "heads", "context"))))
    net.load_state_dict(torch.load(model))
    with torch.no_grad():
        loss = net.double()(windows[:, :-1], windows[:, 1:]).item()
    print(json.dumps({"is": "loss", "loss": loss}))


if __name__ == "__main__":
    main(*sys.argv[1:])
