"""Options of a model's kernels that do not go together."""

from __future__ import annotations

import pytest

from tvm_ios import BuildOptions, SearchOptions
from tvm_ios.core.schedule import Strategy
from tvm_ios.errors import OptionError


@pytest.mark.parametrize("library", ["onednn", "cudnn"])
def test_no_library_computes_exactly_as_tvm_does(library: str) -> None:
    with pytest.raises(OptionError, match=rf"True, but libraries=\('{library}',\) lets a library"):
        BuildOptions(exact=True, libraries=(library,))


def test_exact_is_a_flag() -> None:
    with pytest.raises(OptionError, match="exact is 1; give True or False"):
        BuildOptions(exact=1)  # type: ignore[arg-type]


def test_merges_are_no_part_of_an_exact_search() -> None:
    assert SearchOptions().without_merges().strategies == {Strategy.CONCURRENT}
    with pytest.raises(OptionError, match="exact is True, but the only strategy is merging"):
        SearchOptions.of(strategies="merge").without_merges()
