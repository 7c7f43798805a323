"""How the ranks of a box share a model, as PyTorch says it."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

import torch

from .attach.rendezvous import Ranks, number, one_machine, ranks_of
from .errors import Invalid
from .torchmodel import Model, Part

_REPLICAS = "DistributedDataParallel"
_FLAT = "FullyShardedDataParallel"


def ranks(
    model: Model, *, mesh: Any = None, process_group: Any = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Ranks:
    """This process's place among the ranks of this box. mesh: of the ranks that train this
    machine's part; process_group: the same, where there is no mesh. Without either, the model must
    show how the ranks share it."""
    environment = os.environ if environment is None else environment
    if _kind(model) == _FLAT:
        raise Invalid(
            "FullyShardedDataParallel hides where a shard's elements belong: use fully_shard() "
            "(FSDP2), or give this rank's shards as Part(value, shape, first=…)"
        )
    if mesh is not None:
        rank, world = _in_mesh(mesh)
        group = [int(r) for r in mesh.mesh.flatten().tolist()]
        one_machine(environment, world, group)
        return ranks_of(environment, rank, world, group)
    if process_group is not None:
        distributed: Any = torch.distributed
        rank = distributed.get_rank(process_group)
        if rank < 0:
            raise Invalid("this process is no rank of process_group")
        world = distributed.get_world_size(process_group)
        group = [distributed.get_global_rank(process_group, k) for k in range(world)]
        one_machine(environment, world, group)
        return ranks_of(environment, rank, world, group)
    rank, world = _everybody(environment)
    if world > 1:
        one_machine(environment, world)
        _shared(model, rank, world)
    return ranks_of(environment, rank, world)


def _kind(model: Any) -> str:
    """The class of a model, without what torch.compile has put around it."""
    while isinstance(model, torch.nn.Module) and "_orig_mod" in model._modules:
        model = model._modules["_orig_mod"]
    return type(model).__name__


def _everybody(environment: Mapping[str, str]) -> tuple[int, int]:
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return number(environment, "RANK", 0), number(environment, "WORLD_SIZE", 1)


def _in_mesh(mesh: Any) -> tuple[int, int]:
    place, sizes = mesh.get_coordinate(), tuple(mesh.mesh.shape)
    if place is None:
        raise Invalid("this process is no rank of mesh")
    rank, world = 0, 1
    for at, size in zip(place, sizes):
        rank, world = rank * size + at, world * size
    return rank, world


def _shared(model: Model, rank: int, world: int) -> None:
    """Refuses a model that does not show how several ranks share it."""
    if _kind(model) == _REPLICAS:
        return
    values = _values(model)
    if any(isinstance(v, Part) or hasattr(v, "placements") for v in values):
        return
    raise Invalid(
        f"this process is rank {rank} of {world}, and the model does not show how the ranks "
        "share it: each would train a model of its own. Wrap it in DistributedDataParallel, shard "
        "it with fully_shard(), give shards as Part(), or give process_group= (or mesh=) if all "
        "ranks of it keep equal copies"
    )


def _values(model: Model) -> list[Any]:
    if isinstance(model, torch.nn.Module):
        return list(model.parameters())
    if isinstance(model, Mapping):
        return list(model.values())
    return [value for _, value in model]
