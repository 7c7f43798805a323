"""Reads what a peer wrote as others do: read.py METRICS SCHEMA FOLDER.

Each line of METRICS (metrics.jsonl) keeps to the JSON schema. The event file in FOLDER (--track
tensorboard:FOLDER) has the same values under the same slots: as TensorBoard's own package reads it
where that is installed, and else as protoc decodes it by the messages of
tensorflow/core/util/event.proto. Nothing here is shared with the writer.
"""

import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import jsonschema

EVENT = """syntax = "proto3";
message Event {
  double wall_time = 1;
  int64 step = 2;
  oneof what { string file_version = 3; Summary summary = 5; }
}
message Summary {
  message Value { string tag = 1; oneof value { float simple_value = 2; } }
  repeated Value value = 1;
}
"""

SAME = {
    "loss/training": "loss", "loss/held_out": "held_out_loss", "tokens/of_the_run": "run_tokens",
    "tokens/per_second": "tokens_per_second", "run/members": "members",
    "run/contributors": "contributors", "time/slot_seconds": "seconds",
    "time/stalled_share": "stalled_share", "time/step_seconds": "step_seconds",
    "bytes/sent": "bytes_sent", "bytes/received": "bytes_received", "gradient/norm": "norm",
    "gradient/own_norm": "own_norm", "gradient/cosine": "cosine",
}


def main():
    metrics, schema, folder = map(pathlib.Path, sys.argv[1:])
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    for line in lines:
        validator.validate(line)
    file, = folder.glob("events.out.tfevents.*")
    try:
        import tensorboard  # noqa: F401
        reader, found = "tensorboard", by_tensorboard(file)
    except ImportError:
        reader, found = "protoc", by_protoc(file)
    wanted = {(line["slot"], tag): line[key]
              for line in lines for tag, key in SAME.items() if key in line}
    assert lines and found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for at, value in wanted.items():
        assert math.isclose(found[at], value, rel_tol=1e-6), (at, found[at], value)
    print(f"{len(lines)} slots keep to the schema, and {reader} reads {len(found)} equal values")


def by_tensorboard(file):
    from tensorboard.backend.event_processing import event_accumulator
    events = event_accumulator.EventAccumulator(str(file), size_guidance={"scalars": 0})
    events.Reload()
    return {(e.step, tag): e.value for tag in events.Tags()["scalars"] for e in events.Scalars(tag)}


def by_protoc(file):
    found = {}
    messages = list(records(file.read_bytes()))
    assert re.fullmatch(r'wall_time: \S+\nfile_version: "brain.Event:2"\n', decode(messages[0]))
    for message in messages[1:]:
        text = decode(message)
        step = int(re.search(r"^step: (\d+)$", text, re.M)[1])
        values = re.findall(r'value {\n    tag: "(\S+)"\n    simple_value: (\S+)\n', text)
        assert len(values) == text.count("value {") and not re.search(r"^ *\d+:", text, re.M), text
        found.update({(step, tag): float(value) for tag, value in values})
    return found


def decode(message):
    with tempfile.TemporaryDirectory() as there:
        (pathlib.Path(there) / "event.proto").write_text(EVENT)
        done = subprocess.run(["protoc", f"-I{there}", "--decode=Event", "event.proto"],
                              input=message, capture_output=True, check=True)
    return done.stdout.decode()


def records(b):
    """Yields the messages of a TFRecord file."""
    while b:
        size, sum_of_size = struct.unpack_from("<QI", b)
        message = b[12:12 + size]
        sum_of_message, = struct.unpack_from("<I", b, 12 + size)
        assert sum_of_size == masked(b[:8]) and sum_of_message == masked(message)
        yield message
        b = b[16 + size:]


def masked(b):
    """The CRC-32C of b as TFRecord has it, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in b:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


if __name__ == "__main__":
    main()
