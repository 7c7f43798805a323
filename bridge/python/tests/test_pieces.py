"""Which part of which tensor a rank holds: against numpy, and stand-ins for DTensor and FSDP2."""

import nodestub  # noqa: F401  (first: it puts the package on the path)

import os
import socket
import types
import unittest
from unittest import mock

import numpy
import torch
from p2pdiloco import Part, box, pieces
from p2pdiloco.attach.statedir import of_run
from p2pdiloco.attach.wire import Box, Flat, TensorSpec
from p2pdiloco.errors import Invalid
from p2pdiloco.pieces import plain_name, runs_of
from p2pdiloco.torchmodel import TorchHeld, named


def covered(runs, begin, end):
    return [at + i for at, _, n in runs.cut(begin, end) for i in range(n)]


class Runs(unittest.TestCase):
    def test_boxes_lie_where_numpy_has_them(self):
        shape, first = (3, 4, 5), 7
        flat = numpy.arange(60).reshape(shape) + first
        spec = TensorSpec("t", shape)
        for offset, extent in (
            ((0, 0, 0), (3, 4, 5)), ((1, 0, 0), (2, 4, 5)), ((0, 1, 0), (3, 2, 5)),
            ((0, 0, 2), (3, 4, 3)), ((1, 1, 1), (1, 2, 3)), ((2, 3, 4), (1, 1, 1)),
            ((3, 0, 0), (0, 4, 5)), ((0, 0, 5), (3, 4, 0)),
        ):
            with self.subTest(offset=offset, extent=extent):
                runs = runs_of(Box(0, offset, extent), [spec], [first])
                cut = tuple(slice(o, o + e) for o, e in zip(offset, extent))
                want = flat[cut].reshape(-1).tolist()
                self.assertEqual(covered(runs, 0, 100), want)
                for begin, end in ((0, 20), (10, 33), (40, 67)):
                    inside = [i for i in want if begin <= i < end]
                    self.assertEqual(covered(runs, begin, end), inside)
                    self.assertEqual(runs.outside(begin, end) and bool(inside), False)
                    self.assertEqual(runs.inside(begin, end), inside == want)

    def test_a_scalar_and_a_flat_range(self):
        self.assertEqual(covered(runs_of(Box(0, (), ()), [TensorSpec("s", ())], [3]), 0, 9), [3])
        spec = TensorSpec("t", (2, 5))
        self.assertEqual(covered(runs_of(Flat(0, 4, 3), [spec], [10]), 0, 99), [14, 15, 16])

    def test_parts_that_are_not_inside(self):
        spec = TensorSpec("t", (2, 5))
        for piece in (Box(0, (1, 0), (2, 5)), Box(0, (0,), (2,)), Flat(0, 8, 3)):
            with self.subTest(piece), self.assertRaisesRegex(Invalid, "t"):
                runs_of(piece, [spec], [0])


class Shard:
    def __init__(self, dim):
        self.dim = dim


class _StridedShard(Shard):
    """Of FSDP2 over tensor parallelism in one dimension: this mesh dimension cuts what the one
    behind it has left."""

    def __init__(self, dim, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor


class Replicate:
    pass


class Partial:
    pass


class Mesh:
    """As torch.distributed.device_mesh.DeviceMesh shows itself."""

    def __init__(self, sizes, place):
        self.mesh = torch.arange(int(numpy.prod(sizes))).view(sizes)
        self._place = place

    def size(self, dim):
        return self.mesh.shape[dim]

    def get_coordinate(self):
        return self._place


class DTensor(torch.Tensor):
    """As torch.distributed.tensor.DTensor shows itself: a global shape, and a local part."""

    @staticmethod
    def __new__(cls, local, shape, mesh, placements):
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=local.dtype)
        made._local, made.device_mesh, made.placements = local, mesh, placements
        return made

    def to_local(self):
        return self._local

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{func} on a tensor that is spread over ranks")


class DTensors(unittest.TestCase):
    def part(self, shape, sizes, place, placements, local=None):
        whole = torch.zeros(shape)
        for dim, p in enumerate(placements):
            if isinstance(p, Shard) and local is None:
                # as torch does: it chunks, mesh dimension after mesh dimension
                chunks = list(whole.chunk(sizes[dim], p.dim))
                empty = whole.narrow(p.dim, 0, 0)
                whole = chunks[place[dim]] if place[dim] < len(chunks) else empty
        tensor = DTensor(whole if local is None else local, shape, Mesh(sizes, place), placements)
        return pieces.of_dtensor(0, "t", tensor)

    def test_rows_with_uneven_last_shards(self):
        got = [self.part((5, 3), (4,), (k,), [Shard(0)]) for k in range(4)]
        self.assertEqual([b.offset[0] for b in got], [0, 2, 4, 5])
        self.assertEqual([b.extent[0] for b in got], [2, 2, 1, 0])

    def test_two_dimensions_of_a_mesh(self):
        for i in range(2):
            for j in range(3):
                got = self.part((4, 9), (2, 3), (i, j), [Shard(0), Shard(1)])
                self.assertEqual(got, Box(0, (2 * i, 3 * j), (2, 3)))
                got = self.part((4, 9), (2, 3), (i, j), [Replicate(), Shard(-1)])
                self.assertEqual(got, Box(0, (0, 3 * j), (4, 3)))
                got = self.part((12, 2), (2, 3), (i, j), [Shard(0), Shard(0)])
                self.assertEqual(got, Box(0, (6 * i + 2 * j, 0), (2, 2)))

    def test_fsdp2_over_tensor_parallelism_in_one_dimension(self):
        """torchtitan's column-parallel weights: cut by tensor parallelism first, and what a rank
        has of that by FSDP2, uneven shards included. Cut in the mesh's order, every rank but the
        first would say that it holds another one's rows."""
        for rows, data, model in ((8, 2, 2), (10, 2, 2), (7, 3, 2), (24, 2, 3)):
            for i in range(data):
                for j in range(model):
                    with self.subTest(rows=rows, place=(i, j)):
                        whole = torch.arange(rows).view(rows, 1)
                        column = whole.chunk(model)[j]
                        parts = column.chunk(data)
                        local = parts[i] if i < len(parts) else column[:0]
                        got = self.part(
                            (rows, 1), (data, model), (i, j), [_StridedShard(0, model), Shard(0)],
                            local=local,
                        )
                        first, n = got.offset[0], got.extent[0]
                        self.assertEqual(whole[first : first + n].tolist(), local.tolist())

    def test_replicas_of_strided_shards(self):
        got = self.part(
            (8, 2), (2, 2, 2), (1, 1, 0), [Replicate(), _StridedShard(0, 2), Shard(0)],
            local=torch.zeros(2, 2),
        )
        self.assertEqual(got, Box(0, (2, 0), (2, 2)))

    def test_strides_that_the_mesh_does_not_explain(self):
        for placements in ([_StridedShard(0, 4), Shard(0)], [_StridedShard(0, 2), Replicate()]):
            with self.assertRaisesRegex(Invalid, "t is cut in strides .* as Part"):
                self.part((8,), (2, 2), (0, 0), placements, local=torch.zeros(2))

    def test_what_has_no_values_of_its_own(self):
        with self.assertRaisesRegex(Invalid, "t is Partial on mesh dimension 0"):
            self.part((4,), (2,), (0,), [Partial()])
        with self.assertRaisesRegex(Invalid, "not part of the tensor's mesh"):
            self.part((4,), (2,), None, [Shard(0)], local=torch.zeros(2))
        with self.assertRaisesRegex(Invalid, r"holds \[3\], and its placements mean \[2\]"):
            self.part((4,), (2,), (0,), [Shard(0)], local=torch.zeros(3))

    def test_a_model_of_them(self):
        mesh, local = Mesh((2,), (1,)), torch.tensor([[5.0, 6.0]])
        held = TorchHeld({"module.w": DTensor(local, (2, 2), mesh, [Shard(0)])})
        self.assertEqual(held.tensors, [TensorSpec("w", (2, 2))])
        self.assertEqual(held.pieces, [Box(0, (1, 0), (1, 2))])
        self.assertIs(held.live[0].value, local)


class FSDPModule:
    """As torch.distributed.fsdp.FSDPModule shows itself: after a forward pass without a backward
    pass the parameters are whole tensors, until reshard."""

    def unshard(self):
        self._shards, self._parameters["w"] = self.w, torch.nn.Parameter(torch.zeros(3, 2))

    def reshard(self):
        if hasattr(self, "_shards"):
            self._parameters["w"] = self._shards


class FSDPLayer(FSDPModule, torch.nn.Module):
    def __init__(self, local):
        super().__init__()
        shard = DTensor(local, (3, 2), Mesh((2,), (1,)), [Shard(0)])
        self._parameters["w"] = shard.requires_grad_()


class FSDP2(unittest.TestCase):
    def attached(self, model):
        held = TorchHeld(model)
        start, local = (numpy.zeros(6, numpy.float32) for _ in range(2))
        held.attach(
            types.SimpleNamespace(elements=6, start=memoryview(start), local=memoryview(local)),
            [True],
        )
        return held, start, local

    def test_an_uneven_shard_that_moves_to_other_memory(self):
        """FSDP2's first forward pass pads a shard that is smaller than the others', by which it
        lies in other memory from then on, under the same DTensor. What lay there before was
        loaded, and exported as a rank that had learned nothing."""
        local = torch.tensor([[1.0, 2.0]])
        shard = DTensor(local, (3, 2), Mesh((2,), (1,)), [Shard(0)])
        held, start, out = self.attached({"w": shard})
        shard._local = torch.zeros(2, 2)[:1]
        start[:] = [0, 0, 0, 0, 5, 6]
        held.load(0, 6)
        self.assertEqual(shard._local.tolist(), [[5, 6]])
        shard._local = shard._local - 1
        held.export(0, 6, gradient=True)
        self.assertEqual(out.tolist()[4:], [1, 1])
        shard._local = torch.tensor([[8.0, 9.0]])
        copy = held.copy()
        self.assertEqual(copy[0].tolist(), [[8, 9]])

    def test_a_shard_of_another_shape_is_refused(self):
        shard = DTensor(torch.zeros(1, 2), (3, 2), Mesh((2,), (1,)), [Shard(0)])
        held, _, _ = self.attached({"w": shard})
        shard._local = torch.zeros(2, 2)
        with self.assertRaisesRegex(Invalid, r"w was \(1, 2\), .* and is \(2, 2\)"):
            held.load(0, 6)

    def test_parameters_that_an_evaluation_has_left_whole(self):
        """They were refused as other tensors, and what is loaded would not reach them."""
        model = FSDPLayer(torch.zeros(1, 2))
        held, start, _ = self.attached(model)
        model.unshard()
        start[:] = 3
        held.load(0, 6)
        self.assertEqual(model.w.to_local().tolist(), [[3, 3]])


class Names(unittest.TestCase):
    def test_buffers_under_activation_checkpointing(self):
        """state_dict leaves the wrapper out of the names, and named_buffers does not, so no buffer
        was averaged."""
        model = torch.nn.Module()
        model.block = torch.nn.Module()
        model.block._checkpoint_wrapped_module = torch.nn.BatchNorm1d(2)
        model.block._register_state_dict_hook(
            lambda module, state, prefix, _: [
                state.__setitem__(name.replace("_checkpoint_wrapped_module.", ""), state.pop(name))
                for name in list(state)
            ] and None
        )
        self.assertEqual(
            [name for name, _ in named(model, buffers=True)],
            [f"block.{name}" for name in ("weight", "bias", "running_mean", "running_var")],
        )
        replicas = DistributedDataParallel(torch.nn.BatchNorm1d(2))
        self.assertEqual([name for name, _ in named(replicas, buffers=True)][2:], [
            "running_mean", "running_var"
        ])

    def test_wrappers(self):
        for name, want in {
            "module.w": "w", "_orig_mod.h.0.w": "h.0.w", "module._orig_mod.w": "w",
            "h.0._fsdp_wrapped_module.w": "h.0.w", "my_module.w": "my_module.w",
            "h._orig_mod.module.b": "h.b", "h.0._checkpoint_wrapped_module.w": "h.0.w",
        }.items():
            self.assertEqual(plain_name(name), want)

    def test_tied_tensors_once(self):
        module = torch.nn.Module()
        module.a = torch.nn.Linear(2, 2, bias=False)
        module.b = torch.nn.Linear(2, 2, bias=False)
        module.b.weight = module.a.weight
        self.assertEqual([n for n, _ in named(module)], ["a.weight"])

    def test_two_of_a_name(self):
        with self.assertRaisesRegex(Invalid, "two tensors are named w"):
            named([("module.w", torch.zeros(1)), ("w", torch.zeros(1))])


class DistributedDataParallel(torch.nn.Module):
    """Its name is what counts."""

    def __init__(self, module):
        super().__init__()
        self.module = module


class FullyShardedDataParallel(DistributedDataParallel):
    pass


TORCHRUN = {
    "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "abc",
    "TORCHELASTIC_RESTART_COUNT": "3", "MASTER_ADDR": "here", "MASTER_PORT": "29500",
}


class Ranks(unittest.TestCase):
    def test_alone(self):
        got = box.ranks(torch.nn.Linear(1, 1), environment={})
        alone = f"pid {os.getpid()} on {socket.gethostname()}"
        self.assertEqual((got.rank, got.world, got.set), (0, 1, alone))

    def test_ranks_of_torchrun(self):
        got = box.ranks(DistributedDataParallel(torch.nn.Linear(1, 1)), environment=TORCHRUN)
        self.assertEqual((got.rank, got.world), (1, 2))
        self.assertEqual(got.set, f"ranks of abc.3.here.29500 on {socket.gethostname()}")
        got = box.ranks({"w": Part(torch.zeros(1), (2,), first=0)}, environment=TORCHRUN)
        self.assertEqual(got.world, 2)

    def test_a_compiled_model(self):
        """torch.compile puts a module around the model; what is in it says how ranks share it."""
        compiled = torch.nn.Module()
        compiled._orig_mod = DistributedDataParallel(torch.nn.Linear(1, 1))
        self.assertEqual(box.ranks(compiled, environment=TORCHRUN).world, 2)
        compiled._orig_mod = FullyShardedDataParallel(torch.nn.Linear(1, 1))
        with self.assertRaisesRegex(Invalid, "use fully_shard"):
            box.ranks(compiled, environment=TORCHRUN)

    def test_a_flat_model_in_a_group_is_refused(self):
        with self.assertRaisesRegex(
            Invalid, "this process is rank 1 of 2, and the model does not show how the ranks share"
        ):
            box.ranks(torch.nn.Linear(1, 1), environment=TORCHRUN)

    def test_ranks_of_several_machines_are_refused(self):
        model = DistributedDataParallel(torch.nn.Linear(1, 1))
        with self.assertRaisesRegex(Invalid, "one machine is one peer: start torchrun on each"):
            box.ranks(model, environment=dict(TORCHRUN, WORLD_SIZE="4"))

    def test_fsdp1_is_refused(self):
        with self.assertRaisesRegex(Invalid, "use fully_shard"):
            box.ranks(FullyShardedDataParallel(torch.nn.Linear(1, 1)), environment=TORCHRUN)

    def test_nothing_in_common(self):
        environment = {k: v for k, v in TORCHRUN.items() if "WORLD" in k or k == "RANK"}
        with self.assertRaisesRegex(Invalid, "set MASTER_ADDR and MASTER_PORT"):
            box.ranks(DistributedDataParallel(torch.nn.Linear(1, 1)), environment=environment)

    def test_a_mesh(self):
        model, eight = torch.nn.Linear(1, 1), dict(TORCHRUN, LOCAL_WORLD_SIZE="8")
        got = box.ranks(model, mesh=Mesh((2, 3), (1, 2)), environment=eight)
        self.assertEqual((got.rank, got.world), (5, 6))
        self.assertIn(" 0,1,2,3,4,5 on ", got.set)
        with self.assertRaisesRegex(Invalid, "no rank of mesh"):
            box.ranks(model, mesh=Mesh((2, 3), None), environment=TORCHRUN)

    def groups(self, *groups, environment):
        """What box.ranks says in rank 0 of each group, where that is one of torch.distributed."""
        with mock.patch.multiple(
            torch.distributed, create=True, get_rank=lambda group: 0, get_world_size=len,
            get_global_rank=lambda group, k: group[k],
        ):
            model = torch.nn.Linear(1, 1)
            return [box.ranks(model, process_group=g, environment=environment) for g in groups]

    def test_two_groups_of_one_start_are_two_peers(self):
        """Both were the ranks of this start, so those of the second group went to the first one's
        node, and were refused as ranks that it has already."""
        a, b = self.groups([0, 1], [2, 3], environment=dict(TORCHRUN, LOCAL_WORLD_SIZE="4"))
        self.assertEqual((a.world, b.world), (2, 2))
        self.assertNotEqual(a.set, b.set)

    def test_a_group_of_one_of_unequal_machines(self):
        """Four ranks are on the first machine, eight on this one: they begin with rank 4."""
        here = dict(TORCHRUN, RANK="7", LOCAL_RANK="3", LOCAL_WORLD_SIZE="8")
        got, = self.groups([4, 5, 6, 7, 8, 9, 10, 11], environment=here)
        self.assertEqual(got.world, 8)
        with self.assertRaisesRegex(Invalid, "ranks 3 of this process_group are on other machines"):
            self.groups([3, 4], environment=here)

    def test_a_group_that_spans_machines_is_refused(self):
        for group, local in (([0, 1, 2], "2"), ([1, 2], "2")):
            with self.assertRaisesRegex(Invalid, "one machine is one peer"):
                self.groups(group, environment=dict(TORCHRUN, LOCAL_WORLD_SIZE=local))

    def test_hosts_with_one_home_folder(self):
        """A plain torchrun has the same text on every machine, so ranks of the second one waited
        at the socket of the first one's node, which another machine cannot reach."""
        model, got = DistributedDataParallel(torch.nn.Linear(1, 1)), []
        for host in ("left", "right/1"):
            with mock.patch.object(socket, "gethostname", lambda: host):
                got.append((box.ranks(model, environment=TORCHRUN).set, of_run("run", "r")))
        self.assertNotEqual(got[0][0], got[1][0])
        self.assertEqual([folder.name for _, folder in got], ["host-left", "host-right%2F1"])

    def test_no_number(self):
        with self.assertRaisesRegex(Invalid, "WORLD_SIZE=two in the environment: a number"):
            box.ranks(torch.nn.Linear(1, 1), environment={"WORLD_SIZE": "two"})


if __name__ == "__main__":
    unittest.main()
