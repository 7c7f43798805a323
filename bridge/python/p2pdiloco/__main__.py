"""python -m p2pdiloco, and the command p2pdiloco of a wheel: the node's program."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .attach import rendezvous
from .errors import Invalid


def main() -> NoReturn:
    """Becomes the node's program."""
    try:
        program = rendezvous.binary()
        os.execv(program, ["p2pdiloco", *sys.argv[1:]])
    except Invalid as err:
        sys.exit(str(err))
    except OSError as err:
        sys.exit(f"the node's program cannot be run ({program}: {err.strerror})")


if __name__ == "__main__":
    main()
