"""Which run is meant, and how the node is started."""

import support  # noqa: F401  (first: it puts the package on the path)

import fcntl
import os
import pathlib
import socket
import signal
import tempfile
import threading
import time
import unittest
from unittest import mock

from p2pdiloco import settings
from p2pdiloco.attach import rendezvous, statedir
from p2pdiloco.errors import Error, Invalid


class Settings(unittest.TestCase):
    def test_a_ticket_is_a_run(self):
        self.assertTrue(settings.given(None, {"ticket": "garbage"}))
        os.environ["P2PDILOCO_TICKET"] = "p2pd1-x"
        try:
            self.assertTrue(settings.given(None, {}))
            self.assertEqual(settings.identity(None, {}), ("ticket", "p2pd1-x"))
        finally:
            del os.environ["P2PDILOCO_TICKET"]

    def test_a_ticket_on_the_standard_input_is_refused(self):
        with self.assertRaisesRegex(Invalid, "ticket is -, .* give the ticket itself, or @FILE"):
            settings.given(None, {"ticket": "-"})

    def test_options_without_a_run_raise(self):
        self.assertFalse(settings.given(None, {"bootstrap": None}))
        with self.assertRaisesRegex(Invalid, "bootstrap, preset: given, and no run: name one with"):
            settings.given(None, {"bootstrap": ["/ip4/127.0.0.1"], "preset": "lan"})

    def test_flags(self):
        got = settings.flags({
            "outer_lr": 0.7, "found": True, "bootstrap": ["/a", "/b"], "listen": None,
            "data": pathlib.Path("x"), "rounds": 3,
        })
        self.assertEqual(got, [
            "--outer-lr=0.7", "--found=true", "--bootstrap=/a", "--bootstrap=/b", "--data=x",
            "--rounds=3",
        ])
        with self.assertRaisesRegex(Invalid, "rounds is {}"):
            settings.flags({"rounds": {}})

    def test_folders_of_runs(self):
        host = mock.patch.object(socket, "gethostname", lambda: "here")
        with host, mock.patch.dict(os.environ, XDG_STATE_HOME="/state"):
            for (name, text), want in {
                ("run", "my-run"): "/state/p2pdiloco/my-run/host-here",
                ("run", ".a b/c"): "/state/p2pdiloco/%2Ea%20b%2Fc/host-here",
            }.items():
                self.assertEqual(str(statedir.of_run(name, text)), want)
            a, b = (str(statedir.of_run("ticket", t)) for t in ("one", "two"))
            self.assertNotEqual(a, b)
            self.assertNotIn("one", a)  # a ticket may be a secret

    def test_the_folder_of_an_earlier_release_is_used(self):
        """It had one for all hosts: the peer in it would be another one elsewhere."""
        with tempfile.TemporaryDirectory() as base:
            with mock.patch.dict(os.environ, XDG_STATE_HOME=base):
                run = pathlib.Path(base, "p2pdiloco", "my-run")
                (run / "attach-1").mkdir(parents=True)
                self.assertEqual(statedir.of_run("run", "my-run"), run)
                self.assertNotEqual(statedir.of_run("run", "other"), run.parent / "other")

    def test_each_trainer_of_a_machine_has_a_directory(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            first, second = (statedir.Claim(folder, f"set {n}", 0) for n in (1, 2))
            self.assertEqual(first.path, folder / "attach-1")
            self.assertEqual(second.path, folder / "attach-2")
            self.assertEqual(statedir.Claim(folder, "set 2", 1).path, second.path)
            first.release()
            self.assertEqual(statedir.Claim(folder, "set 3", 0).path, first.path)
            with mock.patch.object(statedir, "_PATIENCE", 0.2):
                with self.assertRaisesRegex(Error, "rank 0 has taken no data directory"):
                    statedir.Claim(folder, "set 1", 1)
            second.release()

    def test_a_rank_that_looks_for_its_directory_takes_it_from_nobody(self):
        """torchrun gives the same text at every start, so rank 1 may try the lock before rank 0
        has it. Rank 0 would then be another peer, in attach-2."""
        with tempfile.TemporaryDirectory() as name:
            before = statedir.Claim(pathlib.Path(name), "ranks of none", 0)
            before.release()
            with open(before.path / "trainer.lock", "rb") as tried:
                fcntl.flock(tried, fcntl.LOCK_EX)
                ends = threading.Timer(0.2, lambda: fcntl.flock(tried, fcntl.LOCK_UN))
                ends.start()
                now = statedir.Claim(pathlib.Path(name), "ranks of none", 0)
                ends.join()
            self.assertEqual(now.path, before.path)
            now.release()

    def test_a_worker_that_lives_on_keeps_no_directory(self):
        """After a kill -9 the trainer is the same peer again, although a forked worker is left."""
        with tempfile.TemporaryDirectory() as name:
            killed = statedir.Claim(pathlib.Path(name), "set 1", 0)
            runs, says = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(says, b"!")
                time.sleep(60)
                os._exit(0)
            os.read(runs, 1)
            os.close(runs)
            os.close(says)
            try:
                killed.release()
                again = statedir.Claim(pathlib.Path(name), "set 2", 0)
                self.assertEqual(again.path, killed.path)
                again.release()
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def test_a_program_that_is_not_there(self):
        os.environ["P2PDILOCO_BINARY"] = "/nowhere/p2pdiloco"
        try:
            with self.assertRaisesRegex(Invalid, "no such program, or it may not be executed"):
                rendezvous.binary()
        finally:
            del os.environ["P2PDILOCO_BINARY"]

    def test_a_config_file_may_name_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.toml")
            for text, names in (
                ("rounds = 3\n# run = 1", False), ('run = "x"', True), ('a=3\n"spec"=""', True),
                ('{"rounds": 3}', False), ('{"rounds": 3, "run": "x"}', True),
                ('ticket = "p2pd1-x"', True), ('{"ticket": "p2pd1-x"}', True),
            ):
                with open(path, "w") as f:
                    f.write(text)
                self.assertIs(settings.given(None, {"config": path}), names, text)
            os.remove(path)
            self.assertTrue(settings.given(None, {"config": path}))

    def test_the_environment_names_one(self):
        for name in ("RUN", "CONFIG", "SPEC"):
            with mock.patch.dict(os.environ, {f"P2PDILOCO_{name}": "x"}):
                self.assertTrue(settings.given(None, {}))
        for name in ("BOOTSTRAP", "ROUNDS", "INNER_STEPS", "FOUND"):
            with mock.patch.dict(os.environ, {f"P2PDILOCO_{name}": "2"}):
                with self.assertRaisesRegex(Invalid, f"P2PDILOCO_{name}: given, and no run"):
                    settings.given(None, {})
        for name in ("BINARY", "LOG_LEVEL", "DATA_DIR", "TEST_PROGRAM"):
            with mock.patch.dict(os.environ, {f"P2PDILOCO_{name}": "x"}):
                self.assertFalse(settings.given(None, {}))


if __name__ == "__main__":
    unittest.main()
