"""Captured runs under TVM 0.27: their tests, on networks in Relax."""

from tests.runtime.cuda.test_graphs import (  # noqa: F401 - tests
    test_a_kernel_that_fails_is_no_reason_for_streams,
    test_networks_are_captured_in_order,
    test_one_launch_replays_what_was_captured,
    test_streams_take_over_what_cannot_be_captured,
    test_workspace_belongs_to_a_stream_and_is_there_before_the_capture,
)
