"""What the tests share: the package from this tree, over a library without a network."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
HEADERS = PACKAGE.parent / "include"

sys.path.insert(0, str(PACKAGE))
for name in [name for name in os.environ if name.startswith("P2PDILOCO_")]:
    del os.environ[name]  # nothing of the caller's goes into a test

_folder = tempfile.TemporaryDirectory()


def build(name, *flags):
    """Compiles fake/fake.c and returns the library's path."""
    target = os.path.join(_folder.name, name)
    command = ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-shared", "-fPIC"]
    source = str(HERE / "fake" / "fake.c")
    subprocess.run(
        [*command, *flags, "-I", str(HEADERS), "-o", target, source, "-lm", "-lpthread"],
        check=True,
    )
    return target


def use_fake():
    """Builds the fake and has the package load it, if that was not done yet in this process."""
    if "P2PDILOCO_LIBRARY" not in os.environ:
        os.environ["P2PDILOCO_LIBRARY"] = build("libfake.so")
    return os.environ["P2PDILOCO_LIBRARY"]


class FakeCase(unittest.TestCase):
    """A test over the fake library, which checks that all texts were freed."""

    @classmethod
    def setUpClass(cls):
        cls.fake = ctypes.CDLL(use_fake())

    def tearDown(self):
        self.assertEqual(self.fake.fake_texts(), 0, "texts of the library were not freed")


def run_python(code, **environment):
    """Runs Python code in a process of its own, with this tree's package, and returns what it
    printed. It fails where the process does, or takes a minute."""
    env = dict(os.environ, PYTHONPATH=f"{PACKAGE}{os.pathsep}{HERE}", **environment)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
