#!/usr/bin/env python3
"""All that can be measured on a machine with a GPU, in one command:

    python3 examples/pytorch/gpu.py --out results                     # PyTorch; under an hour
    python3 examples/pytorch/gpu.py --out results --pack dist/gpu     # and the CUDA trainer
    python3 examples/pytorch/gpu.py --out results --small             # a minute, also on a CPU

It runs compare.py (peers that share the GPU against DDP on equal tokens), bench_export.py (export
and import beside two copies) and, with a pack of bridge/trainers/cuda/pack.sh, its check.sh.
OUT/gpu.json has all figures, OUT/gpu.md the tables for docs/gpu.md. A part that fails or hangs is
reported as such, and the others go on. It needs Linux, and what compare.py needs.
"""

import argparse
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import threading
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
BRIDGE = HERE.parents[1] / "bridge"
GRACE = 40  # seconds from SIGTERM to SIGKILL; compare.py takes up to 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path, help="a folder for the results")
    parser.add_argument("--pack", help="what pack.sh has made, for the CUDA trainer")
    parser.add_argument("--small", action="store_true", help="a tiny model, and few turns")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=float, default=3000, help="seconds for each part (3000)")
    return parser.parse_args()


def parts(args):
    """The name, the command and the file of figures of each part."""
    compare, export = args.out / "compare.json", args.out / "export.json"
    less = ["--small", "--peers=2", "--ranks=1", "--inner-steps=4", "--steps=8"]
    less.append("--codecs=f32,int4")
    few = ["--mib=8", "--pairs=3", "--ranks", "1", "2"]
    yield "compare", [
        sys.executable, str(HERE / "compare.py"), f"--device={args.device}", f"--json={compare}",
        *(less if args.small else []),
    ], compare
    yield "export", [
        sys.executable, str(BRIDGE / "python" / "tests" / "bench_export.py"),
        f"--device={args.device}", f"--json={export}", *(few if args.small else []),
    ], export
    if args.pack:
        folder = args.out / "cuda"
        yield "cuda", [str(BRIDGE / "trainers" / "cuda" / "check.sh"), args.pack, str(folder)], \
            folder / "report.json"


def run(name, command, figures, limit):
    """Runs a part. What it prints is shown, and kept. A part that hangs may print nothing."""
    print(f"== {name}\n", flush=True)
    began, text = time.monotonic(), []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    reader = threading.Thread(target=show, args=(process.stdout, text), daemon=True)
    reader.start()
    try:
        status = process.wait(limit)
        result = "ok" if status == 0 else "skipped" if status == 77 else f"failed: status {status}"
    except subprocess.TimeoutExpired:
        result = f"late: over {limit:.0f} s"
    finally:
        if process.poll() is None:
            end(process)
        reader.join(1)  # something that it has left may have its output still open
    found = None
    if figures.exists():
        found = json.loads(figures.read_text())
    print(f"\n== {name}: {result}\n", flush=True)
    return dict(
        part=name, result=result, seconds=time.monotonic() - began, figures=found,
        text="".join(text),
    )


def show(lines, text):
    with lines:
        for line in lines:
            print(line, end="", flush=True)
            text.append(line)


def end(leader):
    """Ends a process and what it has started: compare.py does that at SIGTERM, and check.sh may
    not. Both are gone in the end, with all of their session."""
    tell(leader.pid, signal.SIGTERM)
    try:
        leader.wait(GRACE)
    except subprocess.TimeoutExpired:
        pass
    tell(leader.pid, signal.SIGKILL)
    leader.wait()


def tell(session, number):
    """Sends a signal to all processes of a session; timeout(1) makes a group of its own in it."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                os.kill(int(folder.name), number)
        except ProcessLookupError:
            pass  # it has ended meanwhile


def machine(device):
    """What the figures are of."""
    words = [f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
    words.append(f"PyTorch {torch.__version__}")
    if device == "cuda":
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        words[:0] = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
        words.append(f"CUDA {torch.version.cuda}")
    else:
        words.append("no GPU was used: nothing here says anything about one")
    return ", ".join(words)


def report(args, results):
    """The results as text for docs/gpu.md."""
    lines = [f"### {machine(args.device)}", ""]
    lines += ["| part | result | seconds |", "| --- | --- | --- |"]
    lines += [f"| {r['part']} | {r['result']} | {r['seconds']:.0f} |" for r in results]
    if not args.pack:
        lines.append("| cuda | skipped: no --pack of the CUDA trainer | |")
    for r in results:
        lines += ["", f"#### {r['part']}", "", r["text"].strip()]
    return "\n".join(lines) + "\n"


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what it has started
    args.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name, command, figures in parts(args):
        figures.unlink(missing_ok=True)
        results.append(run(name, command, figures, args.limit))
        all_of_it = dict(machine=machine(args.device), small=args.small, parts=results)
        (args.out / "gpu.json").write_text(json.dumps(all_of_it, indent=1))
        (args.out / "gpu.md").write_text(report(args, results))
    print((args.out / "gpu.md").read_text())
    return any(r["result"] not in ("ok", "skipped") for r in results)


if __name__ == "__main__":
    raise SystemExit(main())
