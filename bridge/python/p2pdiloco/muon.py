"""Muon, an inner optimizer for the matrices of a model."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Union

import torch

from .errors import Invalid

_NS5 = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """Muon (Jordan et al. 2024), as MuLoCo has it for inner steps (arXiv 2505.23725), and AdamW for
    what is no matrix. For a matrix w with gradient g:

        m = momentum m + g
        u = NS5(g + momentum m) · 0.2 sqrt(max(rows, columns))
        w -= lr (u + weight_decay w)

    NS5 turns a matrix into about the nearest one whose singular values are 1; 0.2 sqrt(...) gives u
    the size of an AdamW update (arXiv 2502.16982), so that one lr does for both.

    params: as of any optimizer, or a model, which is divided by split. Tensors of one dimension,
    and groups with adamw=True, go by AdamW with betas and eps. Tensors of more than two are
    matrices of their first dimension and all others. lr and weight_decay are of all.

    A matrix is whole on each rank: DDP shares it so, FSDP's shards are refused.
    """

    def __init__(
        self,
        params: Union[torch.nn.Module, Iterable[Any]],
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        if isinstance(params, torch.nn.Module):
            params = split(params)
        if not (lr >= 0 and weight_decay >= 0 and all(0 <= b < 1 for b in (momentum, *betas))):
            raise Invalid(
                f"lr={lr}, weight_decay={weight_decay}, momentum={momentum}, betas={betas}: "
                "lr and weight_decay are at least 0, momentum and betas from 0 to below 1"
            )
        super().__init__(params, dict(
            lr=lr, momentum=momentum, weight_decay=weight_decay, betas=betas, eps=eps, adamw=False,
        ))
        for group in self.param_groups:
            if any(hasattr(p, "placements") for p in group["params"]):
                raise Invalid(
                    "Muon needs whole matrices, and these are shards (DTensor): use DDP, or AdamW "
                    "with FSDP"
                )

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise Invalid("Muon does not take sparse gradients: sparse=False")
                update = _adamw if group["adamw"] or p.ndim < 2 else _muon
                u = update(group, p.grad, self.state[p])
                p.mul_(1 - group["lr"] * group["weight_decay"] * (p.ndim > 1))
                p.add_(u.view_as(p), alpha=-group["lr"])
        return loss


def split(model: torch.nn.Module) -> list[dict[str, Any]]:
    """A model's parameters in two groups for Muon: matrices, and with adamw=True embeddings, what
    is tied to them, an output layer of as many rows as an embedding has, and all of one
    dimension. Those without a gradient are left out."""
    embeddings = [m.weight for m in model.modules() if isinstance(m, torch.nn.Embedding)]
    apart = {id(weight) for weight in embeddings}
    rows = {weight.shape[0] for weight in embeddings}
    heads = [m for m in model.modules() if isinstance(m, torch.nn.Linear)][-1:]
    apart |= {id(m.weight) for m in heads if m.out_features in rows}
    trained = [p for p in model.parameters() if p.requires_grad]
    of_muon = [p for p in trained if p.ndim > 1 and id(p) not in apart]
    rest = [p for p in trained if p.ndim <= 1 or id(p) in apart]
    groups = [{"params": of_muon, "adamw": False}, {"params": rest, "adamw": True}]
    return [group for group in groups if group["params"]]


def _muon(group: dict[str, Any], grad: Any, state: dict[str, Any]) -> Any:
    if not state:
        state["momentum"] = torch.zeros_like(grad)
    m = state["momentum"].mul_(group["momentum"]).add_(grad)
    u = orthogonalized(grad.add(m, alpha=group["momentum"]).flatten(1))
    return u.mul_(0.2 * max(u.shape) ** 0.5)


def orthogonalized(matrix: Any) -> Any:
    """Five steps of the Newton-Schulz iteration, whose singular values end between about .7 and
    1.2. It computes in float32 on the CPU, and in bfloat16 elsewhere, which is enough for it."""
    a, b, c = _NS5
    x = matrix.float() if matrix.device.type == "cpu" else matrix.bfloat16()
    x = x / (x.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    for _ in range(5):
        square = x @ x.t()
        x = a * x + (b * square + c * (square @ square)) @ x
    return (x.t() if tall else x).to(matrix.dtype)


def _adamw(group: dict[str, Any], grad: Any, state: dict[str, Any]) -> Any:
    if not state:
        state.update(step=0, first=torch.zeros_like(grad), second=torch.zeros_like(grad))
    state["step"] += 1
    (b1, b2), n = group["betas"], state["step"]
    m = state["first"].mul_(b1).add_(grad, alpha=1 - b1)
    v = state["second"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
    return (m / (1 - b1**n)) / ((v / (1 - b2**n)).sqrt() + group["eps"])
