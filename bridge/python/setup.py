"""Puts the C library into the wheel; the rest is in pyproject.toml.

It takes the file that P2PDILOCO_LIBRARY names; else it builds one, where the repository is around
this folder and Go is installed; else it relies on one that the system has.
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
FILE_NAME = {"darwin": "libp2pdiloco.dylib", "win32": "p2pdiloco.dll"}.get(
    sys.platform, "libp2pdiloco.so"
)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        folder = pathlib.Path(self.build_lib) / "p2pdiloco"
        if self.editable_mode:
            folder = HERE / "p2pdiloco"
        provide((folder / FILE_NAME).resolve())


class PlatformWheel(bdist_wheel):
    """The package has no compiled extension, but a library of one platform: py3-none-PLATFORM."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithBinary(Distribution):
    def has_ext_modules(self):
        return True


def provide(target):
    given = os.environ.get("P2PDILOCO_LIBRARY")
    if given:
        if not os.path.exists(given):
            sys.exit(f"P2PDILOCO_LIBRARY: {given} does not exist")
        shutil.copyfile(given, target)
    elif (REPOSITORY / "bridge" / "libp2pdiloco").is_dir() and shutil.which("go"):
        command = ["go", "build", "-trimpath", "-buildmode=c-shared", "-o", str(target)]
        subprocess.run(
            [*command, "./bridge/libp2pdiloco"], cwd=REPOSITORY, check=True,
            env={**os.environ, "CGO_ENABLED": "1"},
        )
        target.with_suffix(".h").unlink(missing_ok=True)
    else:
        try:
            ctypes.CDLL(FILE_NAME)
        except OSError:
            sys.exit(
                f"p2pdiloco needs its C library, {FILE_NAME}. Install Go 1.26 and a C compiler and "
                "run pip install ./bridge/python in the repository, or set P2PDILOCO_LIBRARY to "
                "the path of a built one"
            )


setup(
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=WithBinary,
)
