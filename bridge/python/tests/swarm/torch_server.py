"""A process that has imported PyTorch, and becomes the peers of a test by fork. peers.py starts it.

Its standard input is a socket. Each message on it is a JSON object of a script's command line and
environment, with three descriptors: the standard output and standard error of the new process, and
a pipe that its process ID and, at its end, its exit status are written to.
"""

import gc
import json
import os
import runpy
import socket
import struct
import sys

import torch  # noqa: F401


def become(asked, out, err, told):
    """In the process that was forked: ties its descriptors, and lets the server's go."""
    asked.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in (out, err, told):
        os.close(descriptor)


def watch(out, err, told):
    """In the new process's parent, a child of the server: tells how it ends. In the new process it
    returns."""
    started = os.fork()
    if started == 0:
        return
    os.close(out)
    os.close(err)
    os.write(told, struct.pack("i", started))
    _, status = os.waitpid(started, 0)
    os.write(told, struct.pack("i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


def serve(asked):
    """Returns in each new process what it shall run."""
    gc.freeze()  # else a collection in each process would write to all that they share
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("a process with threads cannot be forked")
    children = 0
    while True:
        text, descriptors, _, _ = socket.recv_fds(asked, 1 << 20, 3)
        if not text:
            break
        children += 1
        if os.fork() == 0:
            watch(*descriptors)
            become(asked, *descriptors)
            return json.loads(text)
        for descriptor in descriptors:
            os.close(descriptor)
    for _ in range(children):  # what they have used of the processor is this process's as well
        os.wait()
    sys.exit()


def main():
    asked = serve(socket.socket(fileno=0))
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = asked["script"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
