"""The script that runs all GPU measurements."""

import support  # first: it puts the package on the path

import importlib.util
import io
import pathlib
import time
import unittest
from contextlib import redirect_stdout
from unittest import mock

SCRIPT = support.PACKAGE.parents[1] / "examples" / "pytorch" / "gpu.py"


class Parts(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
        self.gpu = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.gpu)

    def run_part(self, code, limit):
        with redirect_stdout(io.StringIO()):
            return self.gpu.run("a part", ["sh", "-c", code], SCRIPT / "no figures", limit)

    def test_a_part_that_hangs_and_prints_nothing(self):
        """The limit was looked at when the part had printed a line. What it has started, in a group
        of its own and deaf to SIGTERM, ends with it."""
        code = "timeout 60 sh -c 'trap : TERM; echo $$; while :; do sleep 1; done'"
        began = time.monotonic()
        with mock.patch.object(self.gpu, "GRACE", 0.2):
            found = self.run_part(code, 0.5)
        self.assertEqual(found["result"], "late: over 0 s")
        self.assertLess(time.monotonic() - began, 20)
        until = time.monotonic() + 10
        while self.lives(int(found["text"])) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(self.lives(int(found["text"])))

    @staticmethod
    def lives(pid):
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return stat.split()[2] != "Z"  # that waits for its new parent

    def test_what_a_part_comes_to(self):
        for status, want in ((0, "ok"), (77, "skipped"), (3, "failed: status 3")):
            found = self.run_part(f"echo here; exit {status}", 30)
            self.assertEqual((found["result"], found["text"]), (want, "here\n"))


if __name__ == "__main__":
    unittest.main()
