"""Processes for the tests: a bootstrap node, peers, and what they print, line by line."""

import atexit
import functools
import http.client
import json
import os
import pathlib
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import uuid

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[3] / "examples" / "pytorch" / "train_gpt.py"
PATIENCE = 60  # seconds for anything that a process is waited for; a busy machine needs some
LISTEN = "/ip4/127.0.0.1/tcp/0"
NIGHT = os.environ.get("P2PDILOCO_TEST") == "nightly"
# For PyTorch: one thread, and no multiply-add in one operation, which numpy and Go do not have.
PLAIN = dict(OMP_NUM_THREADS="1", ATEN_CPU_CAPABILITY="default", PYTHONUNBUFFERED="1")


def not_ignored():
    """Ctrl-C: what a shell starts in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """A program whose standard output is read line by line. It is killed when the test is over."""

    def __init__(self, test, name, command, **environment):
        self.name, self.test = name, test
        self.seen = []
        self._lines = queue.Queue()
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environment}
        self.log = tempfile.TemporaryFile("w+")
        self.process = self._start(command, env)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self._stop)

    def _start(self, command, env):
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env,
            preexec_fn=not_ignored,
        )

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _stop(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.log.close()

    def line(self, wanted):
        """Waits for the first line, of those not read yet, for which wanted(line) is true."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                self.test.fail(f"{self.name} did not print what it should\n{self.told()}")
            if line is None:
                self.test.fail(f"{self.name} ended too early\n{self.told()}")
            self.seen.append(line)
            if wanted(line):
                return line

    def report(self, kind):
        """Waits for a peer's next report of a kind."""
        prefix = f'{{"is": "{kind}"'
        return json.loads(self.line(lambda line: line.startswith(prefix)))

    def end(self, status=0):
        """Waits for the end with this exit status."""
        try:
            got = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.test.fail(f"{self.name} does not end\n{self.told()}")
        self.test.assertEqual(got, status, f"{self.name}\n{self.told()}")

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def crash(self, data_dir):
        """Kills it and the node that it has started, as the end of a machine does."""
        self.kill()
        os.kill(node_pid(data_dir), signal.SIGKILL)

    def told(self):
        self.log.seek(0)
        return "".join(self.seen[-20:]) + self.log.read()[-4000:]


@functools.lru_cache(None)
def torch_server():
    """The socket of a process of torch_server.py, which ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = subprocess.Popen(
        [sys.executable, str(HERE / "torch_server.py")], stdin=its, env=dict(os.environ, **PLAIN),
        preexec_fn=not_ignored,
    )
    its.close()
    atexit.register(server.wait)
    atexit.register(ours.close)  # it comes first
    return ours


class Forked:
    """A script that torch_server.py runs, with what Process needs of a subprocess.Popen."""

    def __init__(self, script, env, log):
        self.args, self.returncode = script, None
        told, tell = os.pipe()
        out, put = os.pipe()
        asked = json.dumps({"script": script, "environment": env}).encode()
        socket.send_fds(torch_server(), [asked], [put, log.fileno(), tell])
        os.close(put)
        os.close(tell)
        self.stdout, self._told = os.fdopen(out), os.fdopen(told, "rb", 0)
        self.pid = self._number()

    def _number(self):
        return struct.unpack("i", self._told.read(4))[0]

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = self._number()
            self._told.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class TorchProcess(Process):
    """A Python script that begins with import torch. That takes 2 s of a core, most of what these
    tests take: by day the script runs in a fork of a process which has done it. At night it is a
    process with an interpreter of its own, as a user's is."""

    def __init__(self, test, name, script, *arguments, **environment):
        command = [sys.executable, str(HERE / script), *arguments]
        super().__init__(test, name, command, **{**PLAIN, **environment})

    def _start(self, command, env):
        return super()._start(command, env) if NIGHT else Forked(command[1:], env, self.log)


def node_pid(data_dir):
    """The process of a node that a trainer has started, which holds its log open."""
    log = str(pathlib.Path(data_dir) / "node.log")
    done = subprocess.run(["fuser", log], capture_output=True, text=True)
    return int(done.stdout.split()[0])


class _Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.host)


def ask(data_dir, prompt):
    """What a node's model answers, over its API: the answer, or why there is none."""
    connection = _Unix(str(pathlib.Path(data_dir) / "api.sock"))
    connection.request("POST", "/ask?" + urllib.parse.urlencode({"prompt": prompt}),
                       headers={"Host": "localhost"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return json.loads(text) if answer.status == 200 else text.strip()


class SwarmCase(unittest.TestCase):
    """A test with a bootstrap node of its own. P2PDILOCO_TEST_PROGRAM names the program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_name = f"test-{uuid.uuid4().hex[:12]}"
        self.program = os.environ["P2PDILOCO_TEST_PROGRAM"]
        node = Process(self, "bootstrap", [self.program, "bootstrap", "--listen", LISTEN])
        self.bootstrap = node.line(lambda line: "/p2p/" in line).strip()

    def peer(self, name, kind="torch_peer.py", **settings):
        """Starts a script of this folder as a peer. settings are those of the node, and the
        script's own."""
        settings = {
            "run": self.run_name, "bootstrap": [self.bootstrap], "listen": [LISTEN], "found": True,
            "preset": "lan", "data_dir": str(self.folder / name), **settings,
        }
        text, binary = json.dumps(settings), dict(P2PDILOCO_BINARY=self.program)
        if kind in ("flat_peer.py", "numpy_peer.py"):  # without PyTorch
            return Process(self, name, [sys.executable, str(HERE / kind), text], **binary)
        return TorchProcess(self, name, kind, text, **binary)
