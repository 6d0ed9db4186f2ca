"""Which operator libraries may compute for a target, and which of them are there."""

from __future__ import annotations

import logging

import pytest
import tvm

from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.errors import HostError, OptionError
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.onednn.library import OnednnFacts
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

CUDA, CPU = tvm.target.Target("cuda -arch=sm_90"), tvm.target.Target("llvm")


def test_each_kind_of_target_has_its_libraries() -> None:
    for target in (CPU, None):
        assert LibraryChoice(target=target).of_target == (OnednnLibrary(),)
        assert LibraryChoice(target=target, names=()).of_target == ()
    assert LibraryChoice(target=CUDA).of_target == (CudnnLibrary(tf32=False),)
    assert LibraryChoice(target=CUDA, tf32=True).of_target == (CudnnLibrary(tf32=True),)


def test_a_library_for_another_kind_of_target_is_refused() -> None:
    for target, named in ((CPU, "'llvm"), (None, "left out")):
        with pytest.raises(OptionError, match=f"has 'cudnn', but the target is {named}.*for cuda"):
            LibraryChoice(target=target, names=("cudnn",))
    with pytest.raises(OptionError, match="has 'onednn', but the target is 'cuda.*for llvm"):
        LibraryChoice(target=CUDA, names=("onednn",))


def test_names_are_those_of_libraries() -> None:
    with pytest.raises(OptionError, match="libraries has 'mkl'; there are cudnn and onednn"):
        LibraryChoice(target=CPU, names=("mkl",))
    with pytest.raises(OptionError, match="libraries is 'onednn'; give a tuple of names"):
        LibraryChoice(target=CPU, names="onednn")  # type: ignore[arg-type]


def test_tf32_wants_cudnn() -> None:
    for target, names in ((CPU, None), (CUDA, ())):
        with pytest.raises(OptionError, match="tf32 is True, but only convolutions by cuDNN"):
            LibraryChoice(target=target, names=names, tf32=True)


def test_a_missing_library_is_an_error_only_where_it_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def missing(library: OperatorLibrary) -> OperatorLibrary:
        raise HostError(f"no {library.name.title}; run pip install it")

    for named in (
        LibraryChoice(target=CPU, names=("onednn",)),
        LibraryChoice(target=CUDA, tf32=True),
    ):
        with pytest.raises(HostError, match="run pip install it"):
            named.installed(missing)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert LibraryChoice(target=CPU).installed(missing) == ()
    assert len(caplog.records) == 1
    assert "slower than they could: no oneDNN; run pip install it" in caplog.text
    assert LibraryChoice(target=CPU).installed(lambda library: library) == (OnednnLibrary(),)


def test_another_data_type_is_for_cpus() -> None:
    with pytest.raises(OptionError, match="precision is 'bfloat16', but the target is 'cuda"):
        LibraryChoice(target=CUDA, dtype="bfloat16")


def test_another_data_type_wants_a_library_and_a_processor_that_are_faster_in_it() -> None:
    def missing(library: OperatorLibrary) -> OperatorLibrary:
        raise HostError(f"no {library.name.title}")

    choice = LibraryChoice(target=CPU, dtype="bfloat16")
    with pytest.raises(HostError, match="not installed: run .*onednn.*, or leave out precision"):
        choice.installed(missing)
    with pytest.raises(HostError, match="has no arithmetic for it, so oneDNN would be slower"):
        choice.installed(lambda _: OnednnLibrary(facts=OnednnFacts("3.2.0", "avx512_core")))
    able = OnednnLibrary(facts=OnednnFacts("3.2.0", "avx512_core_bf16"))
    assert choice.installed(lambda _: able) == (able,)
