"""What the tests share: the package of this tree comes first, and nothing of the caller's
environment goes into a test."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent

NIGHT = os.environ.get("P2PDILOCO_TEST") == "nightly"
SEED = os.environ.get("P2PDILOCO_TEST_SEED", "")  # of what a test draws

sys.path.insert(0, str(PACKAGE))
for name in [name for name in os.environ if name.startswith("P2PDILOCO_")]:
    del os.environ[name]
os.environ["P2PDILOCO_QUIET"] = "true"  # the lines of a peer are for people


def run_python(code, **environment):
    """Runs Python code in a process of its own, with this tree's package, and returns what it
    printed. It fails where the process does, or takes a minute."""
    return run_script("-c", code, **environment)


def run_script(*arguments, **environment):
    """The same of a script."""
    env = dict(os.environ, PYTHONPATH=f"{PACKAGE}{os.pathsep}{HERE}", **environment)
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
