"""Compares networks of kernels that were chosen on all threads with those chosen on one.

``python -m benchmarks.interplay NETWORK`` tunes a network twice with AutoTVM's ``layout`` tuner,
its candidates measured on one thread and on all, and races the networks that come out, in
sequential order on all lanes. Logs and the result go to ``benchmarks/results/interplay/``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tvm_ios.cli.measuring import prepare_process

FOLDER = Path(__file__).parent / "results" / "interplay"


def main() -> None:
    """Tune, race, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    network = parser.parse_args().network
    lanes = prepare_process(None)
    # TVM reads the number of threads when it is loaded.
    from tvm_ios.compile.built_model import build_model  # noqa: PLC0415
    from tvm_ios.compile.lower import lower_schedule  # noqa: PLC0415
    from tvm_ios.devices.local import LocalCpu  # noqa: PLC0415
    from tvm_ios.host import host_target  # noqa: PLC0415
    from tvm_ios.models import by_name  # noqa: PLC0415
    from tvm_ios.profile.race import race  # noqa: PLC0415
    from tvm_ios.relay.inputs import resolve_target  # noqa: PLC0415
    from tvm_ios.relay.transforms.channel_padding import pad_channels  # noqa: PLC0415
    from tvm_ios.search.baselines import sequential_schedule  # noqa: PLC0415
    from tvm_ios.tuning.autotvm.backend import AutoTvmBackend  # noqa: PLC0415
    from tvm_ios.tuning.options import TuningOptions  # noqa: PLC0415

    target = resolve_target(host_target())
    module, params = by_name(network)()
    module, _ = pad_channels(module, params, target)
    backend = AutoTvmBackend()
    models = {}
    for threads in (1, lanes):
        log = FOLDER / f"{network}.threads{threads}.log"
        print(backend.tune(module, {}, target, log, TuningOptions(threads=threads)).as_text())
        for name, application in backend.variants([log]).items():
            with application():
                built = build_model(module, None, target, name=network)
            schedule = sequential_schedule(built.graph)
            models[f"threads {threads}, {name}"] = lower_schedule(built, schedule, lanes=lanes)
    with LocalCpu().open() as session:
        comparison = race(models, session=session)
    best = {
        threads: min(
            (name for name in models if name.startswith(f"threads {threads},")),
            key=comparison.median_ns,
        )
        for threads in (1, lanes)
    }
    lines = [f"{name}: {comparison.median_ns(name) / 1e6:.3f} ms" for name in models]
    speedup = comparison.speedup(best[lanes], over=best[1])
    lines.append(
        f"{best[lanes]} over {best[1]}: {speedup.ratio:.3f} ({speedup.low:.3f} to "
        f"{speedup.high:.3f})"
    )
    text = "\n".join(lines)
    print(text)
    (FOLDER / f"{network}.txt").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
