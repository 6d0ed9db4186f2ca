"""Differences between kept files of one network, in what was decided and in time.

``python -m tvm_ios_lab.scripts.kept_files FILE… --instances 5`` prints a row for each operator that
has other makers, parts or lanes in some files, and races the files. Each is loaded as often as
``--instances`` says: instances of one file differ in nothing but where their memory lies, so they
tell how much of a difference between two files that explains. One file alone will do for that.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from tvm_ios.driver.races.compiled_race import race_files
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.report.table import Table
from tvm_ios.runtime.artifact.artifact import plan_in
from tvm_ios.runtime.artifact.footer import read_footer, read_story
from tvm_ios_lab.scripts.regret import regrets

VIEW = "view"


def main() -> None:
    """Print what differs, then the race."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--instances", type=int, default=1, help="times that each is loaded")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of the race")
    arguments = parser.parse_args()
    files = {path.stem: path for path in arguments.files}
    stories = [read_story(path) for path in files.values()]
    forms = {story.schedule.form for story in stories if story is not None}
    stages = {story.schedule.stages for story in stories if story is not None}
    print(f"{len(files)} files have {len(forms)} forms and {len(stages)} orders of stages")
    if len(forms) == 1:
        rows = differing({name: plan_in(path, read_footer(path)) for name, path in files.items()})
        print(Table(header=("operator", *files), rows=tuple(rows)).as_text())
    loaded = {
        f"{name} #{number}": path
        for name, path in files.items()
        for number in range(arguments.instances)
    }
    if len(loaded) > 1:
        raced = race_files(loaded, CompareOptions(rounds=arguments.rounds))
        print(Table(header=("file", "instances, % over the fastest"), rows=spread(raced)).as_text())
        print(*raced.notes, sep="\n")


def differing(plans: Mapping[str, ExecutionPlan]) -> list[tuple[str, ...]]:
    """Row for each operator that is not computed alike in all plans: its name, then the ways."""
    launches = [{each.operator: each for each in plan.launches} for plan in plans.values()]
    rows = []
    for operator in dict.fromkeys(name for each in launches for name in each):
        ways = tuple(way(each.get(operator)) for each in launches)
        if len(set(ways)) > 1:
            rows.append((operator, *ways))
    return rows


def way(launch: Launch | None) -> str:
    """Maker of an operator, number of parts where a library tells it, and whether lanes help."""
    if launch is None:
        return VIEW
    maker = "tvm"
    if launch.call is not None:
        cut = getattr(launch.call.descriptor, "cut", None)
        maker = f"{launch.call.library.key} {cut.as_text() if cut else ''}".rstrip()
    return maker if launch.split else f"{maker}, one lane"


def spread(raced: Comparison) -> tuple[tuple[str, str], ...]:
    """Row for each file: per cent by which its instances take longer than the fastest of all."""
    found: dict[str, list[float]] = {}
    for name, regret in regrets(raced).items():
        found.setdefault(name.rpartition(" #")[0], []).append(100 * regret)
    return tuple((name, _percents(each)) for name, each in found.items())


def _percents(values: Sequence[float]) -> str:
    return " ".join(f"{value:.1f}" for value in sorted(values))


if __name__ == "__main__":
    main()
