"""A small byte-level GPT, with the same tensors as the program's builtin:gpt.

Names, shapes and order of the parameters are builtin:gpt's, so that a run may have peers of both
kinds: learned positions, blocks that normalize first, GELU in its tanh form, and an output head
that is the byte embedding.
"""

import dataclasses
import math

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 256  # the model reads and predicts bytes


@dataclasses.dataclass
class Config:
    """Sizes. The defaults are builtin:gpt's: 139,680 parameters."""

    layers: int = 1
    width: int = 96
    heads: int = 4
    context: int = 32


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.heads = c.heads
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.proj = nn.Linear(c.width, c.width)
        mask = torch.full((c.context, c.context), -math.inf).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        # (batch, heads, time, head size) each
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + self.mask[:time, :time]
        mixed = scores.softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.up = nn.Linear(c.width, 4 * c.width)
        self.down = nn.Linear(4 * c.width, c.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(c.width)
        self.attn = Attention(c)
        self.ln2 = nn.LayerNorm(c.width)
        self.mlp = MLP(c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.wte = nn.Parameter(torch.empty(VOCABULARY, c.width))  # and the output head
        self.wpe = nn.Parameter(torch.empty(c.context, c.width))
        self.h = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.lnf = nn.LayerNorm(c.width)
        self._initialize(c)

    def _initialize(self, c: Config) -> None:
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif name.endswith(("attn.proj.weight", "mlp.down.weight")):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * c.layers))
            elif p.dim() == 2:
                nn.init.normal_(p, std=1 / math.sqrt(c.width))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss in nats per byte. Both are (batch, time), integers below 256."""
        x = self.wte[inputs] + self.wpe[: inputs.size(1)]
        for block in self.h:
            x = block(x)
        logits = self.lnf(x) @ self.wte.T
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
