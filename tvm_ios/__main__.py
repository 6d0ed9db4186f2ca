# PYTHON_ARGCOMPLETE_OK
"""``python -m tvm_ios`` is the command line."""

from __future__ import annotations

import sys

from tvm_ios.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
