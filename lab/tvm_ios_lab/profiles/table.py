"""Print stored profiles as a Markdown table, or write it into the README of the benchmarks.

::

    python -m tvm_ios_lab.profiles.table [--write]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tvm_ios.errors import TvmIosError
from tvm_ios.report.table import Table
from tvm_ios_lab.bench.benchmark import write_between
from tvm_ios_lab.profiles.measure import FOLDER
from tvm_ios_lab.profiles.profile import Kind, Profile, read_profiles

__all__ = ["MARKERS", "main", "profile_table"]

MARKERS = ("<!-- profiles: begin -->", "<!-- profiles: end -->")
"""Lines of a Markdown file between which the table is written."""


def profile_table(profiles: Sequence[Profile]) -> Table:
    """Table of milliseconds, a row a network and contestant: a run, and operators by kind."""
    ordered = sorted(
        profiles, key=lambda each: (each.network, each.batch_size, each.threads, each.who)
    )
    rows = [
        (
            each.network if each.batch_size == 1 else f"{each.network}, {each.batch_size} images",
            str(each.threads),
            each.who,
            _ms(each.run_us),
            *(_ms(each.kind_us(kind)) for kind in Kind),
            _ms(each.reorder_us),
        )
        for each in ordered
    ]
    kinds = (kind.value for kind in Kind)
    header = ("network", "threads", "who", "run", *kinds, "reorders in calls")
    return Table(header=header, rows=tuple(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it; 0 when there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.profiles.table",
        description="Print a Markdown table of what measure wrote: milliseconds by kind.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=FOLDER, help="what measure wrote")
    add("--write", action="store_true", help="write the table into --readme")
    add("--readme", type=Path, default=Path("lab/README.md"), help="gets the table")
    options = parser.parse_args(arguments)
    try:
        table = profile_table(read_profiles(options.folder))
        if options.write:
            write_between(options.readme, table, MARKERS)
        else:
            print(table.as_markdown())
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _ms(time_us: float) -> str:
    return f"{time_us / 1e3:.3f}" if time_us else "-"


if __name__ == "__main__":
    sys.exit(main())
