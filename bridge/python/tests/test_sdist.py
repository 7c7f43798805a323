"""The source distribution: it has no program, and says how to bring one."""

import support

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


class SourceDistribution(unittest.TestCase):
    def test_it_installs_and_says_how_to_bring_a_program(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            source, there = folder / "source", folder / "there"
            ignored = shutil.ignore_patterns("tests", "build", "__pycache__", "*.egg-info", "bin")
            shutil.copytree(support.PACKAGE, source, ignore=ignored)
            self.run_in(source, "-c", BUILD, str(folder))
            [made] = glob.glob(str(folder / "p2pdiloco-*.tar.gz"))
            with tarfile.open(made) as tar:
                [readme] = [n for n in tar.getnames() if n.count("/") == 1 and "README" in n]
                text = tar.extractfile(readme).read().decode()
                self.assertTrue(any(n.endswith("p2pdiloco/py.typed") for n in tar.getnames()))
            self.assertRegex(text, r"go build ./cmd/p2pdiloco\), and name it in P2PDILOCO_BINARY")
            self.run_in(
                folder, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                "--no-build-isolation", "--target", str(there), made, PATH="/nowhere",  # without Go
            )
            program = folder / "program"
            program.write_text("#!/bin/sh\necho \"the program: $*\"\n")
            program.chmod(0o755)
            path = {"PYTHONPATH": str(there), "PATH": "/nowhere"}
            without = self.run_in(folder, "-m", "p2pdiloco", "version", status=1, **path)
            self.assertIn("the node's program is not there: install a wheel", without)
            self.assertIn("and name it in P2PDILOCO_BINARY", without)
            path["P2PDILOCO_BINARY"] = str(program)
            self.assertEqual(
                self.run_in(folder, "-m", "p2pdiloco", "version", **path), "the program: version\n"
            )

    def run_in(self, folder, *arguments, status=0, **environment):
        """Runs Python there, and returns what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=dict(os.environ, **environment),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout


if __name__ == "__main__":
    unittest.main()
