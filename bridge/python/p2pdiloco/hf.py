"""Models as .safetensors files, and as the folders in which Hugging Face's transformers keeps them:
config.json, and model.safetensors or several files that model.safetensors.index.json names.

A node reads one .safetensors file. python3 -m p2pdiloco.hf FOLDER FILE makes one of a folder.
"""

from __future__ import annotations

import array
import glob
import json
import logging
import math
import os
import shutil
import struct
import sys
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from .errors import Error, Invalid, NotFinite

_log = logging.getLogger("p2pdiloco")

PREFIX = "hf:"  # begins the name of a folder
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2,
          "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
_FLOATS = ("F64", "F32", "BF16", "F16")
_PIECE = 1 << 22  # bytes of a tensor that are in memory at once
_CARRIED = (".json", ".txt", ".model", ".jinja")
# What old versions of transformers computed, and saved beside the parameters.
_COMPUTED = (".attn.bias", ".attention.bias", ".masked_bias", ".rotary_emb.inv_freq")


class Stored(NamedTuple):
    """A tensor of a file."""

    path: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def raw(self) -> Iterator[bytes]:
        with open(self.path, "rb") as f:
            f.seek(self.begin)
            for at in range(self.begin, self.end, _PIECE):
                yield f.read(min(_PIECE, self.end - at))


class Names(NamedTuple):
    """What a module calls its tensors: all names of each one of the layout, and those of others,
    which are buffers, or frozen."""

    aliases: Mapping[str, Sequence[str]] = {}
    others: frozenset[str] = frozenset()

    def of(self, name: str) -> Sequence[str]:
        return self.aliases.get(name) or (name,)


def read(path: str) -> dict[str, Stored]:
    """The tensors of a .safetensors file."""
    try:
        with open(path, "rb") as f:
            front, size = f.read(64), os.fstat(f.fileno()).st_size
            length = int.from_bytes(front[:8], "little")
            if front[8:9] != b"{" or not 8 <= length + 8 <= size:
                raise Invalid(f"{path} {_foreign(front)}")
            f.seek(8)
            header = json.loads(f.read(length))
        found = {}
        for name, t in header.items():
            if name != "__metadata__":
                begin, end = (8 + length + n for n in t["data_offsets"])
                one = found[name] = Stored(path, t["dtype"], tuple(t["shape"]), begin, end)
                if end > size:
                    raise Invalid(f"{path} ends too early, in tensor {name}: download it again")
                if end - begin != math.prod(one.shape) * _BYTES.get(one.kind, -1) or begin < 8:
                    raise Invalid(f"{path}: tensor {name}, {one.kind} {list(one.shape)}, has "
                                  f"{end - begin} bytes: the file is damaged, or of a newer kind")
    except OSError as err:
        raise Invalid(f"{path}: {err.strerror}") from err
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        if isinstance(err, Invalid):
            raise
        raise Invalid(f"{path} has a header that is not of a .safetensors file ({err})") from err
    return found


def _foreign(front: bytes) -> str:
    text = front.lstrip(b" \r\n\t\xef\xbb\xbf")
    if text.startswith(b"version https://"):
        return "is a Git LFS pointer, which stands for the file: fetch it with git lfs pull"
    if text.startswith(b"<"):
        return "is a web page: download the file itself, not the page that shows it"
    if text.startswith((b"PK\x03\x04", b"\x80")):
        return ("is a PyTorch pickle, which is not read, because it can run code: save the model "
                "as .safetensors, with safetensors.torch or save_pretrained()")
    return "is no .safetensors file, or it ends too early: download it again"


def folder(path: str) -> dict[str, Stored]:
    """The tensors of a folder, or of one file."""
    path = os.path.expanduser(path)
    index, single = os.path.join(path, _INDEX), os.path.join(path, _SINGLE)
    if not os.path.exists(path):
        raise Invalid(f"{path}: there is no such file or folder")
    if os.path.isfile(path):
        return read(path)
    if not os.path.isfile(os.path.join(path, "config.json")):
        raise Invalid(f"model folder {path}: there is no config.json in it: name the folder that "
                      "save_pretrained() wrote")
    if os.path.exists(index) and os.path.exists(single):
        raise Invalid(f"model folder {path} holds {_SINGLE} and {_INDEX}, and they may be two "
                      "models: remove one of them")
    if os.path.exists(single):
        return read(single)
    if not os.path.exists(index):
        bins = glob.glob(os.path.join(glob.escape(path), "*.bin")) or [""]
        raise Invalid(f"model folder {path} holds neither {_SINGLE} nor {_INDEX}" + (
            f", and {bins[0]} {_foreign(b'PK' + bytes((3, 4)))}" if bins[0] else
            ": name the folder that save_pretrained() wrote"))
    try:
        with open(index, encoding="utf-8") as f:
            where = dict(json.load(f)["weight_map"])
        files = {name: read(os.path.join(path, os.path.basename(name)))
                 for name in sorted(set(where.values()))}
    except (OSError, ValueError, KeyError, TypeError) as err:
        if isinstance(err, Invalid):
            raise
        raise Invalid(f"{index}: {err!r}: download it again") from err
    for name, file in where.items():
        if name not in files[file]:
            raise Invalid(f"{index} says that tensor {name} is in {file}, and it is not: download "
                          "the folder again")
    return {name: files[file][name] for name, file in where.items()}


def widened(name: str, tensor: Stored) -> Iterator[bytes]:
    """A tensor in float32, in pieces. NaN and infinity are refused."""
    at = 0
    for raw in tensor.raw():
        if tensor.kind == "BF16":
            wide = bytearray(2 * len(raw))
            wide[2::4], wide[3::4] = raw[::2], raw[1::2]
            values = array.array("f", bytes(wide))
        elif tensor.kind == "F16":
            values = array.array("f", struct.unpack(f"<{len(raw) // 2}e", raw))
        else:
            values = array.array("d" if tensor.kind == "F64" else "f", raw)
            values = array.array("f", values) if tensor.kind == "F64" else values
        if not math.isfinite(sum(values)):
            for i, v in enumerate(values):
                if not math.isfinite(v):
                    raise NotFinite(f"{tensor.path}: tensor {name} has {v} in element {at + i}: no "
                                    "run is founded from such a model")
        at += len(values)
        yield values.tobytes()


def narrowed(name: str, values: bytes, kind: str) -> bytes:
    """float32 values as another kind, rounded to the nearest, ties to even."""
    if kind == "F16":
        try:
            return struct.pack(f"<{len(values) // 4}e", *memoryview(values).cast("f"))
        except OverflowError as err:
            raise Invalid(f"tensor {name} has a value that float16 has no number for") from err
    if kind == "F64":
        return array.array("d", array.array("f", values)).tobytes()
    if kind == "F32":
        return values
    # All elements at once, as one number with 32 bits for each: none carries into the next.
    ones = int.from_bytes(b"\1\0\0\0" * (len(values) // 4), "little")
    bits = int.from_bytes(values, "little")
    up = (bits + 0x7FFF * ones + (bits >> 16 & ones)).to_bytes(len(values) + 4, "little")
    out = bytearray(len(values) // 2)
    out[::2], out[1::2] = up[2 : len(values) : 4], up[3 : len(values) : 4]
    return bytes(out)


class Match(NamedTuple):
    """The name in the layout of each stored tensor; of a tied one, of the one that it equals."""

    there: dict[str, str]
    left_out: list[str]


def match(found: Mapping[str, Stored], layout: Mapping[str, tuple[int, ...]], names: Names,
          where: str) -> Match:
    """Finds a layout's tensors among the stored ones: under their own names, without the first part
    of these (as of a model without its head), or with one prefix more."""
    bodies = {name.partition(".")[0] for name in found if "." in name}

    def stored(name: str, prefix: str) -> Optional[str]:
        body, _, rest = name.partition(".")
        if prefix + name in found:
            return prefix + name
        return rest if rest in found and not prefix and body not in bodies else None

    def all_of(name: str, prefix: str) -> list[str]:
        return [s for s in (stored(a, prefix) for a in names.of(name)) if s is not None]

    def fits(prefix: str) -> bool:
        return all(
            any(found[s].shape == shape for s in all_of(name, prefix)[:1])
            for name, shape in layout.items()
        )

    prefix, first = "", names.of(next(iter(layout)))
    if not fits(""):
        longer = [s[: -len(a)] for a in first for s in found if s.endswith("." + a)]
        fitting = [p for p in dict.fromkeys(longer) if fits(p)]
        if len(fitting) > 1:
            raise Invalid(
                f"{where} holds this model {len(fitting)} times, under the prefixes "
                f"{', '.join(fitting[:9])}: load the one that you mean into the model, and leave "
                "init out"
            )
        prefix = fitting[0] if fitting else ""
    there: dict[str, str] = {}
    faults, left_out, renamed = [], [], ""
    for name, shape in layout.items():
        same = all_of(name, prefix)
        there.update(dict.fromkeys(same, name))
        if not same:
            faults.append(f"tensor {name} {list(shape)} is missing")
            continue
        if same[0] not in names.of(name) and not renamed:
            renamed = f"{name} is {same[0]}"
        one = found[same[0]]
        if one.shape != shape:
            faults.append(f"tensor {name} is {list(one.shape)} there, {list(shape)} in the model")
        elif one.kind not in _FLOATS:
            faults.append(f"tensor {name} is of type {one.kind}: save the model in float32")
        faults += [
            f"tensors {same[0]} and {s} differ, and are one in the model: tie them in both, or in "
            "none" for s in same[1:] if not _equal(one, found[s])
        ]
    if renamed:
        _log.warning("%s: the names there have %s of the model's: %s", where,
                     f"the prefix {prefix} in front" if prefix else "not the first part", renamed)
    others = {stored(name, prefix) for name in names.others}
    for name, t in found.items():
        if name in there:
            continue
        twins = [n for s, n in there.items() if len(t.shape) == 2 and _equal(t, found[s])]
        if name in others or t.kind not in _FLOATS or name.endswith(_COMPUTED):
            left_out.append(name)
        elif twins:
            there[name] = twins[0]
        else:
            faults.append(f"tensor {name} {list(t.shape)} is not in the model")
    if faults:
        more = [f"and {len(faults) - 20} more"] if len(faults) > 20 else []
        raise Invalid("\n".join([f"{where} does not hold this model:", *faults[:20], *more]))
    return Match(there, left_out)


def _equal(a: Stored, b: Stored) -> bool:
    return (a.kind, a.shape) == (b.kind, b.shape) and all(
        x == y for x, y in zip(a.raw(), b.raw())
    )


def convert(init: str, layout: Mapping[str, tuple[int, ...]], names: Names, out: str) -> None:
    """Writes the layout's tensors, of a folder (hf:FOLDER) or of a file, to a file in float32."""
    where = init[len(PREFIX):] if init.startswith(PREFIX) else init
    found = folder(where)
    there, left_out = match(found, layout, names, where)
    if left_out:
        _log.warning(
            "%s: %d tensors that the run does not train (buffers, frozen ones) are left out, and "
            "stay as the script has them: %s%s", where, len(left_out), ", ".join(left_out[:5]),
            ", …" if len(left_out) > 5 else "",
        )
    chosen: dict[str, Stored] = {}
    for name, mine in there.items():
        chosen.setdefault(mine, found[name])
    _write(out, {name: chosen[name] for name in layout})


def _write(out: str, tensors: Mapping[str, Stored]) -> None:
    header, at = {}, 0
    for name, t in tensors.items():
        size = 4 * math.prod(t.shape)
        header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        with open(out, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for name, t in tensors.items():
                f.writelines(widened(name, t))
    except BaseException as err:
        if os.path.exists(out):
            os.unlink(out)
        if isinstance(err, OSError):
            raise Error(f"{out} cannot be made: {err}") from err
        raise


def export(like: str, values: str, names: Names, out: str) -> None:
    """Makes a folder like another one, with the values of a file that a node has written. What the
    run does not train is as it is there."""
    found, have = folder(like), read(values)
    layout = {name: t.shape for name, t in have.items()}
    there, left_out = match(found, layout, names, like)
    os.makedirs(out)
    for name in os.listdir(like):
        if name.endswith(_CARRIED) and os.path.isfile(os.path.join(like, name)):
            shutil.copy(os.path.join(like, name), out)
    for path in sorted({t.path for t in found.values()}):
        held = read(path)
        with open(path, "rb") as old, open(os.path.join(out, os.path.basename(path)), "wb") as new:
            new.write(old.read(min(t.begin for t in held.values())))
            for name, t in sorted(held.items(), key=lambda item: item[1].begin):
                if name not in there:
                    new.writelines(t.raw())
                    continue
                for piece in have[there[name]].raw():
                    new.write(narrowed(name, piece, t.kind))
            new.flush()
            os.fsync(new.fileno())
    if left_out:
        _log.warning(
            "%s: %d tensors that the run did not train (buffers, frozen ones) are as in %s: %s%s",
            out, len(left_out), like, ", ".join(left_out[:5]), ", …" if len(left_out) > 5 else "",
        )


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 2 or os.path.exists(arguments[1]):
        sys.exit("python3 -m p2pdiloco.hf FOLDER FILE: makes FILE, which is not there yet, of a "
                 "Hugging Face folder")
    try:
        where, out = (a[len(PREFIX):] if a.startswith(PREFIX) else a for a in arguments)
        found = folder(where)
        kept = {n: t for n, t in found.items() if t.kind in _FLOATS}
        _write(os.path.expanduser(out), kept)
    except (Error, OSError) as err:
        sys.exit(str(err))


if __name__ == "__main__":
    main(sys.argv[1:])
