"""The catalogue of unseen networks, the rule that halves it, and the table of their race."""

from __future__ import annotations

import json

from lab.tests.peers.test_ours import always, our_facts, record
from tvm_ios_lab.peers.network import NETWORKS
from tvm_ios_lab.peers.unseen.catalogue import UNSEEN, Exporter, Half, Library, half_of
from tvm_ios_lab.places import LAB

KEPT_BACK = {
    "mixnet_s",
    "convnext_atto",
    "vit_tiny_patch16_224",
    "dpn48b",
    "res2net50_26w_4s",
    "mobilenetv4_conv_small",
    "efficientnet_b0",
    "ghostnet_100",
    "inception_v4",
    "shufflenet_v2_x1_0",
    "mnasnet1_0",
    "swin_tiny_patch4_window7_224",
    "mixer_s32_224",
    "convnext_atto_rms",
    "llama_2_layers",
    "mixture_of_experts",
}


def test_the_rule_splits_the_catalogue_in_two():
    assert {unseen.name for unseen in UNSEEN if unseen.half is Half.KEPT_BACK} == KEPT_BACK
    assert len(UNSEEN) == 32


def test_networks_of_the_catalogue_are_others_than_ours():
    names = [unseen.name for unseen in UNSEEN]
    assert len(set(names)) == len(names)
    assert not set(names) & set(NETWORKS)
    assert {unseen.library for unseen in UNSEEN} == set(Library)
    for half in Half:
        assert {each.exporter for each in UNSEEN if each.half is half} == set(Exporter)
    assert all(unseen.shape[0] == 1 for unseen in UNSEEN)


def raced(network):
    return record(
        network,
        {
            "onnxruntime, 1 thread": always(3),
            "onnxruntime, 2 threads": always(1.5),
            "openvino, 2 threads": always(2),
            "tvm-ios before sequential, 2 threads": always(2),
            "tvm-ios ours sequential, 2 threads": always(1.2),
            "tvm-ios ours ios, 2 threads": always(1),
        },
        floor_ms="0.25",
        **our_facts(before=("sequential",), ours=("sequential", "ios")),
    )


def test_standing_of_one_set_of_kernels_leaves_the_others_out():
    from tvm_ios_lab.peers.summary import standing_of

    before = standing_of(raced("mixnet_s"), kernels="before")
    assert (before.ours, before.best_peer) == (
        "tvm-ios before sequential, 2 threads",
        "onnxruntime, 2 threads",
    )
    assert standing_of(raced("mixnet_s"), kernels="other") is None


def test_table_has_the_seen_half_first():
    from tvm_ios_lab.peers.unseen.table import unseen_table

    table = unseen_table([raced("mixnet_s"), raced("mobilevit_xs")])
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [(row["network"], row["half"]) for row in rows] == [
        ("mobilevit_xs", "seen while working"),
        ("mixnet_s", "kept back"),
    ]
    assert rows[0] == {
        "network": "mobilevit_xs",
        "half": "seen while working",
        "exporter": "torchscript",
        "floor": "0.250",
        "onnxruntime": "1.500 (2)",
        "openvino": "2.000 (2)",
        "ours": "1.000",
        "which": "ios",
        "best peer / ours": "1.50 (1.50-1.50)",
    }


def test_table_is_written_with_a_mean_for_each_half(tmp_path):
    from tvm_ios_lab.peers.unseen.table import MARKERS, main

    for name in ("mixnet_s", "mobilevit_xs", "dlrm"):
        (tmp_path / f"{name}_bs1.json").write_text(raced(name).to_json())
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(["above", *MARKERS, "below", ""]))
    words = ["--folder", str(tmp_path), "--write", "--readme", str(readme)]
    assert main(words) == 0
    assert main(words) == 0  # its own summary is no result
    assert "| mixnet_s" in readme.read_text()
    halves = json.loads((tmp_path / "summary.json").read_text())["halves"]
    assert halves["seen while working"] == {
        "networks": 2,
        "geometric_mean": 1.5,
        "least": 1.5,
    }
    assert halves["kept back"]["networks"] == 1


def test_half_of_a_name_needs_no_catalogue():
    assert half_of("dlrm") is Half.SEEN


def test_the_readme_has_room_for_the_table():
    from tvm_ios_lab.peers.unseen.table import MARKERS

    assert all(marker in (LAB / "README.md").read_text() for marker in MARKERS)
