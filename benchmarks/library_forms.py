"""Forms of networks, by TVM's kernels alone and with oneDNN where that is faster, in one race.

``python -m benchmarks.library_forms NETWORK ...`` builds each network as it is and with padded
channels, prices operators, and races sequential order on all lanes. A form that loses by TVM's
kernels may win where oneDNN takes its blocks. Results go to ``benchmarks/results/library_forms/``.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from tvm_ios.cli.measuring import prepare_process

FOLDER = Path(__file__).parent / "results" / "library_forms"


def main() -> None:
    """Build, price, race, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--database", type=Path, help="of prices; by default, one for this run")
    options = parser.parse_args()
    lanes = prepare_process(None)
    # TVM reads the number of threads when it is loaded.
    from tvm_ios.compile.built_model import build_model  # noqa: PLC0415
    from tvm_ios.cost.database import ProfileDatabase  # noqa: PLC0415
    from tvm_ios.devices.local import LocalCpu  # noqa: PLC0415
    from tvm_ios.host import host_target  # noqa: PLC0415
    from tvm_ios.measure.compare import CompareOptions  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.profile.build_candidates import (  # noqa: PLC0415
        BuildCandidate,
        all_candidates,
        changes_for,
    )
    from tvm_ios.profile.build_choice import in_order  # noqa: PLC0415
    from tvm_ios.profile.race import compiled_for, race  # noqa: PLC0415
    from tvm_ios.relay.inputs import resolve_target  # noqa: PLC0415
    from tvm_ios.runtime.libraries.known import onednn_library  # noqa: PLC0415

    target, device = resolve_target(host_target()), LocalCpu()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database = ProfileDatabase(options.database or Path(folder) / "prices.sqlite")
        for network in options.networks:
            mod, params = by_name(network)()
            as_it_is = BuildCandidate(mod=mod, params=params)
            with device.open() as session:
                models = {}
                for form in all_candidates(as_it_is, changes_for(device.traits), target):
                    built = build_model(form.mod, form.params, target, name=network)
                    for libraries in ((), (onednn_library(),)):
                        able = replace(built, libraries=libraries)
                        order = in_order(able, session, lanes=lanes, database=database)
                        who = "TVM and oneDNN" if libraries else "TVM"
                        models[f"{'; '.join(form.changes) or 'as it is'}, by {who}"] = compiled_for(
                            session, able, order, lanes=lanes, database=database
                        )
                comparison = race(
                    models, options=CompareOptions(rounds=options.rounds), session=session
                )
            base, *others = models
            lines = [
                f"{target}, lanes: {lanes}, {onednn_library().identity()}",
                *(f"{name}: {comparison.median_ns(name) / 1e6:.3f} ms" for name in models),
                *(comparison.speedup(name, over=base).as_text() for name in others),
                *comparison.notes,
                *(
                    " ".join(f"{run_ns / 1e6:.3f}" for run_ns in row.run_ns)
                    + f" ping-pong {row.ping_pong_ns:.0f}{' slow' if row.slow else ''}"
                    for row in comparison.rounds
                ),
            ]
            (FOLDER / f"{network}.txt").write_text("\n".join(lines) + "\n")
            print("\n".join((network, *lines[: 1 + len(models) + len(others)])), flush=True)


if __name__ == "__main__":
    main()
