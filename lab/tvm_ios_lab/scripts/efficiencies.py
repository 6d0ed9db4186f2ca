"""Efficiencies of makers, measured on networks: the table that predicted prices come from.

Run from the root of a checkout:

    python -m tvm_ios_lab.scripts.efficiencies --folder F NETWORK…   # measures, adds to samples
    python -m tvm_ios_lab.scripts.efficiencies                       # the table of the samples

A network is an ONNX file by its name in ``--folder`` (where omitted, the working directory), so
that no path is stored, or in Relay a name, with settings behind a colon: ``bert_base:layers=2``.
The dialect is that of the TVM that is found; ``TVM_IOS_TVM=path`` finds one with Relax. Each is
built in the form that ``tune`` chooses without a race, and each of its operators priced by every
maker, with and without help: the least of several short samples, which others on the machine
disturb least. Samples go to ``lab/results/efficiencies_DIALECT.json``, and the table made of all of
them to ``tvm_ios/cost/efficiencies_DIALECT.json``. What is printed holds predictions against
measured prices by kind; each network's are predicted without its own samples. On another processor
all begins anew.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tvm_ios.cli.measuring import prepare_process
from tvm_ios.core.graph import Convolution, Operator
from tvm_ios.cost.efficiencies import (
    Efficiencies,
    Efficiency,
    ShapeClass,
    Spread,
    kind_of,
    table_of,
)
from tvm_ios.host import processor_name
from tvm_ios.host.lane_speeds import LaneSpeeds, lane_speeds
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import MeasureOptions
from tvm_ios.profile.predicted_prices import PricePredictor
from tvm_ios.report.table import Table
from tvm_ios_lab.measurement import Measurement
from tvm_ios_lab.places import RESULTS

SHORT = MeasureOptions(repeat=1, max_repeat=1, min_repeat_ms=0.3, mode=ModeOptions(patience_s=0.0))
"""Options of a pass over all prices."""
PASSES = 12
"""Passes over all prices of a network, of which the least counts."""
LEAST_SPREAD = 1.05
FEWEST = 4
"""Number of samples below which a row's spread is at least that of a guess."""
FEW_SPREAD = 1.3
ONE_SIDE = 5 / 6
"""Share of the operators that each side of a spread holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Prices of one operator by one maker, with what predictions are made of."""

    network: str
    workload: str
    kind: str
    flops: int
    memory_bytes: int
    layout: str
    """Layout of a convolution, as a merge rule needs it; else empty."""
    maker: str
    alone_ns: int
    helped_ns: int
    lanes: int

    def operator(self) -> Operator:
        """Operator of these facts, for the library to classify."""
        return Operator(
            name=self.kind,
            kind=self.kind,
            predecessors=(),
            workload=self.workload,
            flops=self.flops,
            memory_bytes=self.memory_bytes,
            convolution=_convolution(self.layout) if self.layout else None,
        )

    @property
    def network_name(self) -> str:
        """Name of the network, however it was built."""
        return self.network.partition(",")[0]

    def reached(self, speeds: LaneSpeeds) -> float:
        """Share of the bound on one lane, by the speeds of the machine that measured."""
        return speeds.bound_ns(self.flops, self.memory_bytes) / self.alone_ns

    @property
    def serial(self) -> float:
        """Share of the time on one lane that idle lanes did not take over, from 0 to 1."""
        share = 1 / self.lanes
        return min(1.0, max(0.0, (self.helped_ns / self.alone_ns - share) / (1 - share)))


def main() -> None:
    """Measure the networks, then write and print what all samples say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--folder", type=Path, default=Path(), help="folder of ONNX files")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--without-libraries", action="store_true", help="TVM's kernels only")
    parser.add_argument("--database", help="profile database (default: the usual one)")
    arguments = parser.parse_args()
    for name in arguments.networks:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            parser.error(f"{name!r} would be stored: give --folder and the name in it")
        if Path(name).suffix and not (arguments.folder / name).is_file():
            parser.error(f"there is no file {name!r} in {arguments.folder}; give --folder")
    prepare_process(None, relay=False)
    from tvm_ios.runtime.base.tvm_names import DIALECT  # noqa: PLC0415

    file = RESULTS / f"efficiencies_{DIALECT}.json"
    speeds = lane_speeds()
    if speeds is None:
        parser.error("the speeds of a lane need a C compiler; install one")
    stored: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if stored and stored["machine"]["processor"] == processor_name():
        speeds = LaneSpeeds(**stored["speeds"])
    elif arguments.networks:
        stored = {"samples": []}
    else:
        parser.error(f"{file} has no samples of this processor; name networks to measure")
    samples = [Sample(**each) for each in stored["samples"]]
    for name in arguments.networks:
        short = str(Path(name).with_suffix(""))
        title = f"{short}, TVM only" if arguments.without_libraries else short
        found = list(_measured(name, title, arguments))
        print(f"{title}: {len(found)} prices", flush=True)
        samples = [each for each in samples if each.network != title] + found
        origin = Measurement.here(_command(arguments)).origin()
        stored = origin | {"speeds": asdict(speeds), "samples": [asdict(each) for each in samples]}
        rows = ",\n".join(json.dumps(each) for each in stored["samples"])
        head = json.dumps({name: each for name, each in stored.items() if name != "samples"})
        file.write_text(f'{head[:-1]},\n"samples": [\n{rows}\n]}}\n')
    origin = {name: stored[name] for name in ("command", "commit", "machine", "taken_at")}
    table_of(DIALECT).write_text(Efficiencies(rows_of(samples, speeds)).to_json(origin))
    print(held_against(samples, speeds).as_markdown())


def _command(arguments: argparse.Namespace) -> str:
    """Command that measures the same networks, without places on this machine."""
    words = ["python", "-m", "tvm_ios_lab.scripts.efficiencies", f"--lanes={arguments.lanes}"]
    words += ["--without-libraries"] * arguments.without_libraries
    return shlex.join([*words, *arguments.networks])


def _measured(name: str, title: str, arguments: argparse.Namespace) -> Iterator[Sample]:
    """Prices of a network, each distinct operator once."""
    from tvm_ios.profile.measured_kernels import (  # noqa: PLC0415
        MeasuredKernels,
        measure_operators,
    )
    from tvm_ios.profile.measuring_call import MeasuringCall  # noqa: PLC0415
    from tvm_ios.profile.stage_kernels import StageKernels  # noqa: PLC0415

    call = MeasuringCall.here(lanes=arguments.lanes, database=arguments.database)
    source = str(arguments.folder / name) if Path(name).suffix else name
    built = _built(source, call, () if arguments.without_libraries else None)
    with (
        call.open() as session,
        StageKernels(built, lanes=call.lanes, session=session, database=call.database) as runner,
    ):
        # Prices in a database would be the first pass's for ever.
        passes = [
            measure_operators(MeasuredKernels(runner, options=SHORT)).by_maker
            for _ in range(PASSES)
        ]
        seen = set()
        for maker, each in passes[0].items():
            for index in each:
                operator = built.graph.operators[index]
                if (maker, operator.workload) in seen or runner.needs_no_kernel(index):
                    continue
                seen.add((maker, operator.workload))
                yield Sample(
                    network=title,
                    workload=operator.workload,
                    kind=operator.kind,
                    flops=operator.flops,
                    memory_bytes=operator.memory_bytes,
                    layout=operator.convolution.layout if operator.convolution else "",
                    maker=maker,
                    alone_ns=min(prices[maker][index].alone_ns for prices in passes),
                    helped_ns=min(prices[maker][index].helped_ns for prices in passes),
                    lanes=call.lanes,
                )


def _built(name: str, call: Any, libraries: tuple[str, ...] | None) -> Any:
    """Build of a network in the form that ``tune`` chooses without a race."""
    from tvm_ios.devices.library_choice import LibraryChoice  # noqa: PLC0415
    from tvm_ios.driver.model_source import ModelSource  # noqa: PLC0415
    from tvm_ios.runtime.base.tvm_names import DIALECT  # noqa: PLC0415

    installed = LibraryChoice(target=None, names=libraries).installed()
    if DIALECT == "relax":
        from tvm_ios.driver.dialects.relax_layout import ModelLayouts  # noqa: PLC0415
        from tvm_ios.relax.target import resolve_target  # noqa: PLC0415

        source, target = ModelSource.of(name), resolve_target(None)
        layouts = ModelLayouts(
            mod=source.mod, params=source.params, target=target, libraries=installed
        )
        return layouts.fastest(call).built
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.profile.build_candidates import changes_for  # noqa: PLC0415
    from tvm_ios.profile.fastest_build import build_fastest  # noqa: PLC0415
    from tvm_ios.profile.image_form import form_by_prices  # noqa: PLC0415

    if Path(name).suffix:
        source = ModelSource.of(name)
        mod, params = source.mod, source.params
    else:
        network, _, settings = name.partition(":")
        given = dict(each.split("=") for each in settings.split(",") if each)
        mod, params = by_name(network)(**{key: int(value) for key, value in given.items()})
    changes = changes_for(
        call.device.traits,
        pad_channels=True,
        race_forms=False,
        libraries=installed,
        choose_form=form_by_prices(call, installed),
    )
    return build_fastest(mod, params, None, call, changes=changes, libraries=installed).built


def rows_of(samples: Iterable[Sample], speeds: LaneSpeeds) -> list[Efficiency]:
    """Rows of the table: medians of all samples of a kind, a class and a maker."""
    pools: dict[tuple[str, ShapeClass, str], dict[str, Sample]] = defaultdict(dict)
    for sample in samples:
        operator = sample.operator()
        key = (kind_of(operator), ShapeClass.of(operator), sample.maker)
        pools[key][sample.workload] = sample
    rows = []
    for (kind, shape, maker), pool in sorted(pools.items(), key=lambda each: _order(*each[0])):
        reached = [each.reached(speeds) for each in pool.values()]
        middle = median(reached)
        slower = [middle / each for each in reached]
        least = LEAST_SPREAD if len(pool) >= FEWEST else FEW_SPREAD
        rows.append(
            Efficiency(
                kind=kind,
                balance=shape.balance,
                size=shape.size,
                maker=maker,
                reached=float(f"{middle:.3g}"),
                serial=round(median(each.serial for each in pool.values()), 2),
                spread=Spread(
                    faster=max(least, _far([1 / each for each in slower])),
                    slower=max(least, _far(slower)),
                ),
                count=len(pool),
            )
        )
    return rows


def _far(factors: list[float]) -> float:
    """Factor that the next operator stays below with that chance, whatever the distribution."""
    place = min(len(factors), math.ceil(ONE_SIDE * (len(factors) + 1)))
    return round(sorted(factors)[place - 1], 2)


def held_against(samples: list[Sample], speeds: LaneSpeeds) -> Table:
    """Predicted against measured prices with help, by kind and maker, network by network."""
    ratios: dict[tuple[str, str], list[tuple[float, Spread]]] = defaultdict(list)
    for network in dict.fromkeys(each.network_name for each in samples):
        others = [each for each in samples if each.network_name != network]
        predictor = PricePredictor(
            speeds=speeds,
            lanes=max(each.lanes for each in samples),
            efficiencies=Efficiencies(rows_of(others, speeds)),
        )
        for each in samples:
            if each.network_name == network:
                operator = each.operator()
                price = predictor.price(operator, each.maker)
                ratios[kind_of(operator), each.maker].append(
                    (price.helped_ns / each.helped_ns, price.error)
                )
    rows = []
    for (kind, maker), found in sorted(ratios.items(), key=lambda each: -len(each[1])):
        off = sorted(abs(math.log(ratio)) for ratio, _ in found)
        inside = sum(1 / error.slower <= ratio <= error.faster for ratio, error in found)
        rows.append(
            (
                kind,
                maker,
                str(len(found)),
                f"{math.exp(median(math.log(ratio) for ratio, _ in found)):.2f}",
                f"{math.exp(median(off)):.2f}",
                f"{math.exp(off[math.ceil(0.9 * len(off)) - 1]):.2f}",
                f"{inside / len(found):.0%}",
            )
        )
    header = ("kind", "maker", "prices", "predicted over measured, middle", "half off by at most")
    return Table(header=(*header, "nine tenths", "within their errors"), rows=tuple(rows))


def _order(kind: str, shape: ShapeClass, maker: str) -> tuple[str, ...]:
    return kind, shape.balance.value, shape.size.value, maker


def _convolution(layout: str) -> Convolution:
    """A convolution of which only the layout counts."""
    return Convolution(
        operand="",
        plain_operand=True,
        input_shape=(1, 1, 1),
        out_channels=1,
        kernel=(1, 1),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        epilogue="",
        layout=layout,
    )


if __name__ == "__main__":
    main()
