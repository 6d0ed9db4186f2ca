"""Efforts: what each level sets, that every option goes over it, and that the page says so."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import pytest

from tvm_ios import BuildOptions, Effort, SearchOptions, TuneOptions, TuningOptions
from tvm_ios.driver.config import TuneConfig
from tvm_ios.driver.effort import LEVELS
from tvm_ios.driver.options import DEFAULTS, options_of_call
from tvm_ios.errors import OptionError
from tvm_ios.pytorch.options import BackendOptions


def values(noun, prefix=""):
    """Options of a noun and of the nouns in it, by name with dots."""
    for each in fields(noun):
        value = getattr(noun, each.name)
        if is_dataclass(value):
            yield from values(value, f"{prefix}{each.name}.")
        else:
            yield prefix + each.name, value


def test_the_page_prints_every_option_that_a_level_sets(project_root):
    levels = [dict(values(TuneOptions.of(each))) for each in Effort]
    usual = dict(values(DEFAULTS))
    rows = [
        f"| `{name}` | {' | '.join(f'{level[name]!r}' for level in levels)} |".replace("'", "")
        for name in usual
        if any(level[name] != usual[name] for level in levels)
    ]
    page = (project_root / "docs" / "tuning.md").read_text()
    head, rule, *table = page[page.index("| option | `quick`") :].partition("\n\n")[0].splitlines()
    assert (head.count("|"), rule.count("|")) == (5, 5)
    assert table == rows


def test_balanced_is_what_nobody_asks_for():
    assert LEVELS[Effort.BALANCED] == {}
    assert TuneOptions.of() == TuneOptions.of(Effort.BALANCED) == DEFAULTS
    assert TuneConfig.of_tables({"effort": "balanced"}) == TuneConfig()


def test_changes_keep_what_else_the_level_sets():
    quick = TuneOptions.of("quick", build={"libraries": ()}, measure={"repeat": 4})
    assert quick.build == BuildOptions(libraries=(), race_forms=False)
    assert (quick.measure.repeat, quick.measure.max_repeat) == (4, 4)
    assert quick.search.list_only
    whole = TuneOptions.of("quick", build=BuildOptions(libraries=()))
    assert whole.build.race_forms


def test_prices_of_quick_are_too_few_samples_for_other_levels():
    most = TuneOptions.of("quick").measure.max_repeat
    assert most < min(TuneOptions.of(each).measure.repeat for each in ("balanced", "thorough"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bild": {}}, r"TuneOptions has no key 'bild', did you mean 'build'\? There are search"),
        ({"build": {"librarys": ()}}, r"BuildOptions has no key 'librarys', did you .*'libraries'"),
        ({"build": 3}, r"build is 3; give BuildOptions\(…\)"),
        ({"search": {"list_only": False, "strategies": "merged"}}, "strategies has 'merged'"),
        (
            {"search": {"max_group_size": 2}},
            r"max_group_size given, but list_only is True .* list_only=False \(--no-list-only\)",
        ),
    ],
)
def test_changes_that_make_no_sense_are_named(changes, message):
    with pytest.raises(OptionError, match=message):
        TuneOptions.of("quick", **changes)


def test_a_search_is_asked_for_by_name_over_a_list():
    search = TuneOptions.of("quick", search={"list_only": False, "max_group_size": 2}).search
    assert search == SearchOptions(max_group_size=2)


def test_a_call_has_an_effort_or_options():
    assert options_of_call("thorough", DEFAULTS) == TuneOptions.of("thorough")
    own = TuneOptions.of("quick", build={"exact": True})
    assert options_of_call(None, own) is own
    with pytest.raises(OptionError, match=r"effort is 'quick', and options .*TuneOptions\.of\('qu"):
        options_of_call("quick", own)
    with pytest.raises(OptionError, match="effort is 'fast'; choose from 'quick', 'balanced', 't"):
        options_of_call("fast", DEFAULTS)
    with pytest.raises(OptionError, match=r"options is 3; give TuneOptions\(…\)"):
        options_of_call("quick", 3)


def test_the_tuner_of_a_call_goes_over_that_of_its_effort():
    kernels = TuneOptions.of("thorough").kernels
    assert kernels.backend_for(None) == "autotvm"
    assert kernels.backend_for("none") is None
    ansor = options_of_call("thorough", DEFAULTS, "auto_scheduler").kernels
    assert ansor == replace(kernels, backend="auto_scheduler")
    assert options_of_call("thorough", DEFAULTS, "none").kernels == TuningOptions()


def test_a_backend_of_torch_has_an_effort():
    assert BackendOptions.of({"effort": "quick"}).effort == "quick"
    with pytest.raises(OptionError, match="effort is 'quick', and options are given"):
        BackendOptions.of({"effort": "quick", "options": TuneOptions.of("thorough")})
    with pytest.raises(OptionError, match="effort is 'q'; choose from"):
        BackendOptions.of({"effort": "q"})
