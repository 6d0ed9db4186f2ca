"""The stream executor under TVM 0.27: its tests, on networks in Relax."""

from tests.runtime.cuda.test_streams import (  # noqa: F401 - tests
    test_a_list_is_in_order_on_its_streams,
    test_every_launch_is_on_its_stream_and_in_order,
    test_lists_of_networks_are_in_order,
    test_networks_are_in_order,
    test_the_checks_see_a_wait_too_few_and_one_too_many,
)
