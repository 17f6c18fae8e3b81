"""Scenarios from files and options: which values they accept, and which fields have an effect."""

from __future__ import annotations

import pytest

from quorate.sim.scenario import EXAMPLES, FIELDS, Scenario, ScenarioError, measured_of, scenario_of

LEAST = {"policy": "fifo", "cluster": "v100=1", "trace": "jobs.csv"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("measure", 5, "measure: is 5, which is not text; write it like measure: 60:100"),
        ("columns", {"gpus": "n"}, "columns: is a mapping, which is not text; write it like"),
        ("trace", ["a", "b"], "trace: is a list, which is not text; write it like trace: jobs.csv"),
        ("seed", "x", 'seed: is "x", which is not a whole number; write it like seed: 7'),
        ("round_s", None, "round_s: is null, which is not a number; write it like round_s: 360.0"),
        ("strict", "no!", 'strict: is "no!", which is not true or false; write it like strict'),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_an_example(
    field: str, value: object, said: str
) -> None:
    with pytest.raises(ScenarioError) as told:
        scenario_of({**LEAST, field: value}, {})
    assert str(told.value).startswith(said)


def test_each_field_has_an_example_that_it_accepts() -> None:
    assert set(EXAMPLES) == set(FIELDS)
    for field, example in EXAMPLES.items():
        fields = {**LEAST, "throughputs": "rates.json", field: example}
        if field == "generate":
            del fields["trace"]
        assert getattr(scenario_of(fields, {}), field) == example


def test_only_an_option_that_has_no_effect_is_refused() -> None:
    tree = {**LEAST, "throughputs": "rates.json", "record": "sim.db"}
    assert scenario_of({**tree, "discipline": "bind"}, {}).policy is None
    assert scenario_of(tree, {"strict": True}).record is None
    kept = scenario_of(tree, {})
    assert (kept.policy, kept.record) == ("fifo", "sim.db")
    for field, given in (
        ("policy", {"discipline": "bind", "policy": "fifo"}),
        ("record", {"strict": True, "record": "sim.db"}),
    ):
        with pytest.raises(ScenarioError, match=f"{field}: has no effect: .*; leave it out"):
            scenario_of(tree, given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5:2", "'5:2', and FROM must be below TO; TO is the position after the last measured job"),
        ("5:5", "'5:5', and FROM must be below TO"),
        ("5-9", "'5-9', which is not FROM:TO; write it like 4000:5000"),
        ("0:" + "9" * 5_000, "which is not FROM:TO"),
        ("0:1000001", "ends at 1000001; end it at 1000000 or earlier"),
    ],
)
def test_measured_jobs_are_a_range(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as told:
        measured_of(Scenario(measure=text))
    assert said in str(told.value)
