"""The race in float32 and at defaults: who belongs to which, and the tables of it."""

from __future__ import annotations

from lab.tests.peers.test_ours import always, our_facts, record
from tvm_ios.driver.config import TuneConfig
from tvm_ios_lab.peers.unseen import precisions
from tvm_ios_lab.places import LAB

OPENVINO, LOW = "openvino-default, 2 threads", "tvm-ios b sequential, 2 threads"


def raced(network, scale=1.0):
    """A record whose kernels ``b`` were tuned for bfloat16, as its facts alone say."""
    rounds = {
        "onnxruntime, 2 threads": always(5 * scale),
        "openvino, 2 threads": always(4 * scale),
        OPENVINO: always(3 * scale),
        "tvm-ios a sequential, 2 threads": always(5 * scale),
        "tvm-ios a greedy, 2 threads": always(4.4 * scale),
        LOW: always(2 * scale),
    }
    own = {
        "floor_ms": "1",
        **{f"error of {name}": "1.00e-07" for name in rounds},
        **{f"precision of {name}": "float32" for name in rounds},
        **our_facts(a=("sequential", "greedy"), b=("sequential",)),
        **{f"precision of {name}": "bfloat16" for name in (OPENVINO, LOW)},
        f"error of {OPENVINO}": "2.00e-02",
        f"error of {LOW}": "1.00e-02",
    }
    return record(network, rounds, **own)


def rows(table):
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def test_a_standing_is_among_those_of_one_precision():
    from tvm_ios_lab.peers.summary import standing_of

    found = standing_of(raced("dlrm"))
    assert (found.ours, found.best_peer) == ("tvm-ios a greedy, 2 threads", "openvino, 2 threads")
    low = standing_of(raced("dlrm"), precision="bfloat16")
    assert (low.ours, low.best_peer, low.ratio) == (LOW, OPENVINO, 1.5)


def test_only_the_default_of_openvino_and_builds_for_it_may_be_in_bfloat16():
    from tvm_ios_lab.peers.build import Build
    from tvm_ios_lab.peers.peer import Peer, contestants

    builds = [
        Build(kernels=name, schedule="sequential", lanes=2, kept=True, **precision)
        for name, precision in (("a", {}), ("b", {"precision": "bfloat16"}))
    ]
    who = contestants(tuple(Peer), 2, builds=builds, one_thread=False)
    assert [one.name for one in who if one.precision == "bfloat16"] == [OPENVINO, LOW]


def test_a_network_has_both_ratios_and_both_errors_in_its_row():
    (row,) = rows(precisions.precision_table([precisions.Standings.of(raced("dlrm"))]))
    assert row == {
        "network": "dlrm",
        "group": "seen while working",
        "best peer, float32": "4.000",
        "ours": "4.400",
        "best peer / ours": "0.91 (0.91-0.91)",
        "OpenVINO, default": "3.000",
        "ours, bfloat16": "2.000",
        "OpenVINO / ours": "1.50 (1.50-1.50)",
        "ours, float32 / bfloat16": "2.20",
        "OpenVINO's error": "2.00e-02",
        "our error": "1.00e-02",
    }


def test_means_are_of_each_group_and_large_networks_are_apart():
    records = (raced("dlrm"), raced("mixnet_s"), raced("squeezenet", scale=10))
    found = [precisions.Standings.of(each) for each in records]
    table = rows(precisions.means_table(found))
    assert {(row["ratio"], row["group"]): row["networks"] for row in table} == {
        **{
            (ratio, group): networks
            for ratio in ("best peer / ours, float32", "OpenVINO / ours, defaults")
            for group, networks in (
                ("all", "3"),
                ("seen while working", "1"),
                ("kept back", "1"),
                ("tvm_ios.models", "1"),
            )
        },
        ("ours, float32 / bfloat16, below 10 ms", "all"): "2",
        ("ours, float32 / bfloat16, below 10 ms", "seen while working"): "1",
        ("ours, float32 / bfloat16, below 10 ms", "kept back"): "1",
        ("ours, float32 / bfloat16, from 10 ms", "all"): "1",
        ("ours, float32 / bfloat16, from 10 ms", "tvm_ios.models"): "1",
    }
    assert table[0] == {
        "ratio": "best peer / ours, float32",
        "group": "all",
        "geometric mean": "0.909",
        "networks": "3",
        "at or above 1": "0",
        "least": "0.909 (dlrm)",
    }


def test_records_without_bfloat16_have_a_ratio_in_float32_only():
    rounds = {"openvino, 2 threads": always(3), "tvm-ios a ios, 2 threads": always(2)}
    old = record("dlrm", rounds, floor_ms="1", **our_facts(a=("ios",)))
    found = precisions.Standings.of(old)
    assert found.ratios() == {"best peer / ours, float32": 1.5}
    (row,) = rows(precisions.precision_table([found]))
    assert row["OpenVINO / ours"] == row["our error"] == row["ours, float32 / bfloat16"] == "-"


def test_tables_are_written_where_the_markers_are(tmp_path, capsys):
    for name in ("squeezenet", "dlrm"):
        (tmp_path / f"{name}_bs1.json").write_text(raced(name).to_json())
    readme = tmp_path / "README.md"
    markers = (*precisions.SUMMARY_MARKERS, *precisions.MARKERS)
    readme.write_text("\n".join(["above", *markers, "below", ""]))
    words = ["--folder", str(tmp_path), "--readme", str(readme)]
    assert precisions.main(words) == 0
    printed = capsys.readouterr().out
    assert printed.index("| dlrm ") < printed.index("| squeezenet ")
    assert precisions.main([*words, "--write"]) == 0
    written = readme.read_text()
    means, networks = written.index("geometric mean"), written.index("| squeezenet ")
    assert means < networks < written.index("\nbelow")
    readme.write_text("nothing")
    assert precisions.main([*words, "--write"]) == 1
    assert "has no lines" in capsys.readouterr().err


def test_the_readme_has_room_for_the_tables():
    text = (LAB / "README.md").read_text()
    assert all(each in text for each in (*precisions.MARKERS, *precisions.SUMMARY_MARKERS))


def test_options_of_the_race_are_those_of_tune():
    precision = TuneConfig.load(
        LAB / "tvm_ios_lab" / "peers" / "unseen" / "bfloat16.toml"
    ).options.precision
    assert (precision.dtype, precision.max_relative_error) == ("bfloat16", 0.2)
