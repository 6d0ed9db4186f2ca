"""cuDNN beside TVM's kernels under TVM 0.27: its tests, on a network in Relax."""

from tests.runtime.libraries.cudnn.test_stages import (  # noqa: F401 - tests
    test_a_merge_stage_is_priced_with_both_kernels,
    test_tune_keeps_what_is_faster_operator_by_operator,
)
