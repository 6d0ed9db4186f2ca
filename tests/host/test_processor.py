from __future__ import annotations

import os
from pathlib import Path

import pytest

from tvm_ios.host.processor import default_lanes, processor_name, target_candidates

HASWELL = "fpu sse4_2 avx avx2 fma bmi1 bmi2 f16c movbe"
SKYLAKE = HASWELL + " avx512f avx512bw avx512cd avx512dq avx512vl"


def cpuinfo(tmp_path: Path, **fields: str) -> Path:
    file = tmp_path / "cpuinfo"
    names = {"model": "model name"}
    lines = [f"{names.get(name, name)}\t: {value}" for name, value in fields.items()]
    file.write_text("processor\t: 0\n" + "\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("flags", "llvm", "best"),
    [
        (SKYLAKE + " avx512_vnni", 10, "llvm -mcpu=cascadelake"),
        (SKYLAKE + " avx512_vnni", 7, "llvm -mcpu=skylake-avx512"),
        (SKYLAKE, 10, "llvm -mcpu=skylake-avx512"),
        (HASWELL, 10, "llvm -mcpu=haswell"),
        ("fpu avx f16c", 10, "llvm -mcpu=ivybridge"),
        ("fpu sse4_2", 10, "llvm"),
    ],
)
def test_best_x86_target(tmp_path, flags, llvm, best):
    found = target_candidates(llvm, machine="x86_64", cpuinfo=cpuinfo(tmp_path, flags=flags))
    assert found[0] == best
    assert found[-1] == "llvm"


def test_arm_targets(tmp_path):
    file = cpuinfo(tmp_path, Features="fp asimd asimddp")
    assert target_candidates(10, machine="aarch64", cpuinfo=file) == (
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+v8.2a,+dotprod",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon",
        "llvm",
    )


def test_unknown_machine_and_unreadable_cpuinfo(tmp_path):
    assert target_candidates(10, machine="riscv64") == ("llvm",)
    assert target_candidates(10, machine="x86_64", cpuinfo=tmp_path / "none") == ("llvm",)


def test_processor_name(tmp_path):
    assert processor_name(cpuinfo(tmp_path, model="A Processor: fast")) == "A Processor: fast"
    assert processor_name(tmp_path / "none") == os.uname().machine
    arm = {"CPU implementer": "0x41", "CPU part": "0xd40"}
    assert processor_name(cpuinfo(tmp_path, **arm)) == f"{os.uname().machine} 0x41 0xd40"


def lanes(root: Path, membership: str) -> int:
    file = root / "membership"
    file.write_text(membership)
    return default_lanes(cgroup_root=root, membership=file)


CORES = len(os.sched_getaffinity(0))


def test_without_a_quota_all_cores_of_the_affinity_mask(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert lanes(tmp_path, "0::/\n") == CORES
    assert lanes(tmp_path, "garbage\n") == CORES
    assert default_lanes(cgroup_root=tmp_path, membership=tmp_path / "none") == CORES


def test_quota_of_a_parent_group_counts_and_is_rounded_down(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    assert lanes(tmp_path, "0::/a/b\n") == 1


def test_quota_under_one_core_is_one_lane(tmp_path):
    (tmp_path / "cpu.max").write_text("20000 100000\n")
    assert lanes(tmp_path, "0::/\n") == 1


def test_quota_of_the_first_cgroup_version(tmp_path):
    folder = tmp_path / "cpu,cpuacct" / "job"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("100000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert lanes(tmp_path, "4:cpu,cpuacct:/job\n3:memory:/job\n") == 1
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert lanes(tmp_path, "4:cpu,cpuacct:/job\n") == CORES


def test_affinity_mask_of_one_core(run_python):
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from tvm_ios.host import core_to_core_ns, default_lanes; "
        "print(default_lanes(), core_to_core_ns())"
    )
    assert run_python("-c", program).stdout == "1 None\n"
