"""Messages of the attach protocol and their bytes (docs/reference/attach.md, sections 2 and 3)."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any, Sequence, Union

from ..errors import Error, Invalid

VERSION = 1 << 16
"""major << 16 | minor. Minors only add."""

MAX_BODY = 64 << 20
MAX_TEXT = 1 << 20
MAX_NAME, MAX_DIMENSIONS = 256, 8  # of a tensor
MAX_SAMPLE = 16 << 10  # of a text that answers a prompt

(HELLO, WELCOME, LAYOUT, SHARE, INFO) = range(1, 6)
(FILL, LOAD, EXPORT, EVALUATE) = range(16, 20)
(RESTORE, TRAIN, DONE, OFFER, AT, GO) = range(21, 27)
(NOTICE, PING, PONG, LEAVE, ERROR) = range(32, 37)

GRADIENT, PARAMETERS = 1, 2  # what EXPORT and TRAIN ask for
STATUS_OK, STATUS_UNSUPPORTED, STATUS_FAILED = 0, 1, 2  # of DONE
GIVE_UP = 1  # of GO
STATE_STAYS = 2**64 - 1  # of HELLO

HEADER = struct.Struct("<IHHQ")
_FIELD = struct.Struct("<HHI")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct("<d")
_TENSOR = struct.Struct("<II")

F32, BF16, F16 = 1, 2, 3


class WireError(Error):
    """The other side sent bytes that are no message of this protocol."""


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor of the run's layout: its global shape, whatever part of it a rank holds."""

    name: str
    shape: tuple[int, ...]
    dtype: int = F32

    def __post_init__(self) -> None:
        size = len(self.name.encode())
        if size > MAX_NAME:
            raise Invalid(
                f"the name of tensor {self.name[:40]}… has {size} bytes: {MAX_NAME} are allowed, "
                "so give its module a shorter one"
            )
        if len(self.shape) > MAX_DIMENSIONS:
            raise Invalid(
                f"tensor {self.name} has {len(self.shape)} dimensions: {MAX_DIMENSIONS} are "
                "allowed, so keep it with some of them joined (flatten), and view() it where it "
                "is used"
            )

    @property
    def elements(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of a tensor (by its number): extent[i] elements from offset[i] on in dimension i."""

    tensor: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Flat:
    """A range of a tensor's elements in row-major order."""

    tensor: int
    first: int
    count: int


Piece = Union[Box, Flat]

# The fields of each type: tag, name, kind. u: u64, f: f64, t: text, b: bytes; T and P: lists.
_FIELDS: dict[int, tuple[tuple[int, str, str], ...]] = {
    HELLO: (
        (1, "version", "u"), (2, "rank", "u"), (3, "world", "u"), (4, "set", "t"), (5, "run", "t"),
        (6, "client", "t"), (10, "saves", "u"), (11, "state", "u"),
    ),
    WELCOME: ((1, "version", "u"), (2, "run", "t"), (3, "data_dir", "t"), (4, "pid", "u")),
    LAYOUT: ((1, "tensors", "T"), (2, "pieces", "P")),
    SHARE: (
        (1, "elements", "u"), (2, "offset", "u"), (3, "size", "u"), (4, "epoch", "u"),
        (5, "writes", "b"),
    ),
    INFO: (
        (1, "run_id", "t"), (2, "peer", "t"), (3, "mode", "t"), (4, "inner_steps", "u"),
        (5, "last_slot", "u"), (6, "spec", "t"), (7, "slot", "u"), (8, "root", "t"),
    ),
    FILL: (),
    LOAD: ((1, "begin", "u"), (2, "end", "u"), (3, "generation", "u")),
    EXPORT: ((1, "begin", "u"), (2, "end", "u"), (3, "what", "u")),
    EVALUATE: ((1, "prompt", "t"),),
    RESTORE: ((1, "folder", "t"), (2, "world", "u")),
    TRAIN: (
        (1, "slot", "u"), (2, "steps", "u"), (3, "look", "u"), (4, "export", "u"), (5, "seed", "u"),
        (6, "member", "u"), (7, "members", "u"), (8, "part", "u"), (9, "part_steps", "u"),
        (10, "part_done", "u"), (11, "delay", "u"), (12, "member_ids", "t"), (13, "save", "t"),
        (14, "step", "u"), (15, "total_steps", "u"),
    ),
    DONE: ((1, "status", "u"), (2, "text", "t"), (3, "loss", "f")),
    OFFER: (
        (1, "steps", "u"), (2, "tokens", "u"), (3, "samples", "u"), (4, "loss", "f"),
        (5, "grad_norm", "f"), (6, "seconds", "f"),
    ),
    AT: ((1, "train", "u"), (2, "steps", "u")),
    GO: ((1, "answer", "u"), (2, "look", "u")),
    NOTICE: ((1, "level", "u"), (2, "text", "t")),
    PING: (),
    PONG: (),
    LEAVE: ((1, "reason", "t"), (2, "run", "u")),
    ERROR: ((1, "code", "u"), (2, "text", "t")),
}
_BLANK: dict[str, Any] = {"u": 0, "f": 0.0, "t": "", "b": b"", "T": (), "P": ()}


class Message:
    """A message: its type, its id and its fields, which are attributes. Fields that are not given
    are 0 or empty."""

    def __init__(self, kind: int, id: int = 0, **fields: Any) -> None:
        self.kind, self.id = kind, id
        self._fields = {name: _BLANK[k] for _, name, k in _FIELDS[kind]}
        unknown = fields.keys() - self._fields.keys()
        if unknown:
            raise TypeError(f"type {kind} has no field {sorted(unknown)}")
        self._fields.update(fields)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        mine, theirs = (self.kind, self.id, self._fields), (other.kind, other.id, other._fields)
        return mine == theirs

    def __repr__(self) -> str:
        return f"Message({self.kind}, {self.id}, {self._fields})"


def pack(message: Message) -> bytes:
    """The bytes of a message, header included."""
    body = bytearray()
    for tag, name, kind in _FIELDS[message.kind]:
        value = getattr(message, name)
        for raw in _values(kind, value):
            body += _FIELD.pack(tag, 0, len(raw)) + raw
    if len(body) > MAX_BODY:
        raise WireError(f"a message of {len(body)} bytes: {MAX_BODY} are allowed")
    return HEADER.pack(len(body), message.kind, 0, message.id) + bytes(body)


def _values(kind: str, value: Any) -> list[bytes]:
    if kind == "T":
        return [_pack_tensor(t) for t in value]
    if kind == "P":
        return [_pack_piece(p) for p in value]
    if not value:
        return []
    if kind == "u":
        return [_U64.pack(value)]
    if kind == "f":
        return [_F64.pack(value)]
    raw = value.encode() if kind == "t" else bytes(value)
    if kind == "t" and len(raw) > MAX_TEXT:
        raise WireError(f"a text of {len(raw)} bytes: {MAX_TEXT} are allowed")
    return [raw]


def _words(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def _pack_tensor(t: TensorSpec) -> bytes:
    return _TENSOR.pack(t.dtype, len(t.shape)) + _words(t.shape) + t.name.encode()


def _pack_piece(p: Piece) -> bytes:
    if isinstance(p, Flat):
        return _words((p.tensor, 1, p.first, p.count))
    return _words((p.tensor, 0, *p.offset, *p.extent))


def unpack_header(raw: bytes) -> tuple[int, int, int]:
    """Bytes of the body, type and id."""
    size, kind, _, id = HEADER.unpack(raw)
    if size > MAX_BODY:
        raise WireError(f"a message of {size} bytes: {MAX_BODY} are allowed")
    return size, kind, id


def unpack(kind: int, id: int, body: bytes) -> Union[Message, None]:
    """The message with this body; None for a type that is not known, which is to be passed over.
    Unknown fields are passed over, too."""
    if kind not in _FIELDS:
        return None
    message, known = Message(kind, id), {tag: (name, k) for tag, name, k in _FIELDS[kind]}
    fields, at, seen = message._fields, 0, set()
    lists: dict[str, list[Any]] = {}
    while at < len(body):
        if len(body) - at < _FIELD.size:
            raise WireError(f"type {kind}: {len(body) - at} bytes are left over")
        tag, _, size = _FIELD.unpack_from(body, at)
        at += _FIELD.size
        if size > len(body) - at:
            left = len(body) - at
            raise WireError(f"type {kind}: field {tag} has {size} bytes, and {left} are left")
        raw, at = body[at : at + size], at + size
        if tag not in known:
            continue
        name, k = known[tag]
        if k in "TP":
            lists.setdefault(name, []).append(
                _unpack_tensor(raw) if k == "T" else _unpack_piece(raw)
            )
            continue
        if tag in seen:
            raise WireError(f"type {kind}: field {tag} is there twice")
        seen.add(tag)
        fields[name] = _unpack_value(kind, tag, k, raw)
    fields.update({name: tuple(values) for name, values in lists.items()})
    return message


def _unpack_value(kind: int, tag: int, k: str, raw: bytes) -> Any:
    if k in "uf" and len(raw) != 8:
        raise WireError(f"type {kind}: field {tag} has {len(raw)} bytes instead of 8")
    if k == "u":
        return _U64.unpack(raw)[0]
    if k == "f":
        return _F64.unpack(raw)[0]
    if k == "b":
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise WireError(f"type {kind}: field {tag} is no text in UTF-8") from None


def _unpack_tensor(raw: bytes) -> TensorSpec:
    try:
        dtype, dims = _TENSOR.unpack_from(raw)
        shape = struct.unpack_from(f"<{dims}Q", raw, _TENSOR.size)
        return TensorSpec(raw[_TENSOR.size + 8 * dims :].decode(), shape, dtype)
    except (struct.error, UnicodeDecodeError, OverflowError, Invalid):
        raise WireError("a tensor that cannot be read") from None


def _unpack_piece(raw: bytes) -> Piece:
    if len(raw) % 8 or len(raw) < 16:
        raise WireError("a piece that cannot be read")
    tensor, form, *rest = struct.unpack(f"<{len(raw) // 8}Q", raw)
    if form == 1 and len(rest) == 2:
        return Flat(tensor, *rest)
    if form == 0 and len(rest) % 2 == 0:
        half = len(rest) // 2
        return Box(tensor, tuple(rest[:half]), tuple(rest[half:]))
    raise WireError(f"a piece of form {form} with {len(rest)} numbers")
