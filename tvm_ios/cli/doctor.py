"""``tvm-ios doctor``: prints facts of this machine, and how to mend what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from tvm_ios.host.report import HostReport, describe_host, other_choice

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers
    from tvm_ios.host.tvm_probe import TvmReport

__all__ = ["add_parser", "as_json", "as_text", "run"]

_NOTHING = "none"


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "doctor",
        description="Print what was found and how to mend what is missing. "
        "Exit status 0 if the CPU path works, 1 if something that it needs is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the report; return 1 if something required is missing."""
    report = describe_host()
    print(as_json(report) if arguments.json else as_text(report))
    return 1 if report.problems else 0


def as_json(report: HostReport) -> str:
    """Report as JSON, with the latency mode spelled out."""
    mode = report.latency_mode
    return json.dumps(asdict(report) | {"latency_mode": mode.value if mode else None}, indent=2)


def as_text(report: HostReport) -> str:
    """Report as text: one fact a line, then the remedies."""
    tvm, gpu = report.tvm, report.gpu
    facts = [
        ("python", f"{report.python} ({report.platform})"),
        ("tvm", _place(tvm)),
        ("dialects", ", ".join(tvm.dialects)),
        ("it gives", tvm.gives),
        *_other_facts(report),
        ("targets", ", ".join(tvm.targets)),
        ("llvm", tvm.llvm_version),
        ("host target", tvm.host_target and f"{tvm.host_target} (compiled and ran a kernel)"),
        ("c compiler", report.c_compiler),
        ("processor", report.processor),
        ("cores", f"{report.cores}, of which this process may use {report.lanes}"),
        ("tvm threads", _threads(report)),
        ("core to core", _latency(report)),
        ("run delay", _run_delay(report)),
        ("a lane", report.lane_speeds and report.lane_speeds.as_text()),
        ("gpu", "; ".join(gpu.devices)),
        ("driver", gpu.driver_cuda and f"serves CUDA {gpu.driver_cuda}"),
        ("nvcc", gpu.nvcc),
        ("cudnn", gpu.cudnn),
        ("onednn", report.onednn),
        ("tvm libraries", ", ".join(tvm.libraries)),
    ]
    lines = [f"{name:<14}{value or _NOTHING}" for name, value in facts]
    lines += [f"MISSING: {problem}" for problem in report.problems]
    lines += [f"hint: {hint}" for hint in report.hints]
    lines.append("The CPU path is not ready." if report.problems else "The CPU path is ready.")
    return "\n".join(lines)


def _place(tvm: TvmReport) -> str | None:
    return f"{tvm.version} ({tvm.origin}) at {tvm.location}" if tvm.version else None


def _other_facts(report: HostReport) -> list[tuple[str, str | None]]:
    """The TVM that is not imported, how it would be, and what it gives; nothing without one."""
    other = report.other_tvm
    if other is None:
        return []
    how = f"TVM_IOS_TVM={other_choice(report.tvm)} imports it"
    return [("other tvm", f"{_place(other)}; {how}"), ("that gives", other.gives)]


def _threads(report: HostReport) -> str | None:
    if report.tvm.threads is None:
        return None
    source = report.tvm_num_threads
    said = f"={source}" if source else " not set"
    return f"{report.tvm.threads} (TVM_NUM_THREADS{said})"


def _run_delay(report: HostReport) -> str:
    if report.counts_run_delay:
        return "counted: samples beside other processes are told from slow ones"
    return "not counted (no schedstat): samples beside other processes count like others"


def _latency(report: HostReport) -> str:
    if report.hop_ns is None or report.latency_mode is None:
        return "not measured (needs two cores and a C compiler)"
    return f"{report.hop_ns:.0f} ns, {report.latency_mode.value} mode"
