"""python -m p2pdiloco, and the command p2pdiloco of a wheel: the node's program."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the node's program: P2PDILOCO_BINARY, else the one in this package."""
    packed = pathlib.Path(__file__).resolve().parent / "bin" / "p2pdiloco"
    program = os.environ.get("P2PDILOCO_BINARY") or str(packed)
    try:
        os.execv(program, ["p2pdiloco", *sys.argv[1:]])
    except OSError as err:
        sys.exit(
            f"the node's program cannot be run ({program}: {err.strerror}): install a wheel, which "
            "has it inside, or build it (go build ./cmd/p2pdiloco) and name it in P2PDILOCO_BINARY"
        )


if __name__ == "__main__":
    main()
