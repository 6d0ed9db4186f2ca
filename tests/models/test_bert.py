from __future__ import annotations

import pytest

from tests.models.count import count
from tvm_ios.models import bert_base


@pytest.mark.slow
def test_totals_are_the_published_ones():
    module, params = bert_base()
    totals = count(module, params)
    encoder = sum(value.numpy().size for name, value in params.items() if name.startswith("layer"))
    assert encoder == 85_054_464
    # The pooler, positions beyond 128 and the second segment are left out.
    pooler, positions, segment = 768 * 769, (512 - 128) * 768, 768
    assert totals.parameters + pooler + positions + segment == 109_482_240
    products = 12 * (4 * 128 * 768**2 + 2 * 128 * 768 * 3072)
    attention = 12 * 2 * 128 * 128 * 768
    assert totals.macs == products + attention
    assert round(totals.macs / 1e9, 1) == 11.2


@pytest.mark.slow(1)
def test_batch_size_reaches_the_output():
    module, _ = bert_base(batch_size=3, sequence=8, layers=1)
    main = module["main"]
    assert [int(extent) for extent in main.params[0].checked_type.shape] == [3, 8]
    assert [int(extent) for extent in main.ret_type.shape] == [3, 8, 768]
