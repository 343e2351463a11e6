"""The verdict on evaluations made by hand, where every number can be counted on fingers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_evaluations_helpers import made_up, stage_records

from maxmahal.errors import ArgumentError
from maxmahal.evaluate import compare, give_verdict, seed_spreads
from maxmahal.records import Evaluation, Finding
from maxmahal.records.verdict import first_broken, right_shares, stands

CLEAN = stage_records("clean", [1, 1, 1, 1, 0])


def test_the_worst_case_is_taken_sample_by_sample_over_all_counting_stages() -> None:
    one, two = stage_records("one", [0, 1, 1, 1, 1]), stage_records("two", [1, 0, 1, 1, 1])
    verdict = give_verdict(made_up(CLEAN, one, two))
    assert verdict.clean.count == 4
    assert (verdict.robust.count, verdict.robust.total) == (2, 5)
    assert verdict.success is not None
    assert (verdict.success.count, verdict.success.total) == (2, 4), "clean errors are no success of an attack"


def test_what_python_prints_of_an_evaluation_and_its_verdict_is_one_line() -> None:
    evaluation = made_up(CLEAN, stage_records("one", [0, 1, 1, 1, 1]))
    verdict = evaluation.verdict
    assert repr(evaluation) == "Evaluation(model, small at Linf 8/255, 5 samples, finished)"
    assert repr(verdict) == f"Verdict({verdict.sentence})"
    assert repr(evaluation.stages[0].columns) == "Columns(5 samples, 1 broken)"


def test_a_clean_error_counts_as_wrong_even_where_an_attack_pushed_it_back() -> None:
    back = stage_records("back", [1, 1, 1, 1, 1])
    assert give_verdict(made_up(CLEAN, back)).robust.count == 4
    assert not stands(made_up(CLEAN, back))[4]


def test_a_stage_that_does_not_count_changes_nothing_but_its_own_column() -> None:
    one, wide = stage_records("one", [0, 1, 1, 1, 0]), stage_records("wide", [0, 0, 0, 0, 0], counts=False)
    without, beside = give_verdict(made_up(CLEAN, one)), give_verdict(made_up(CLEAN, wide, one))
    assert (beside.robust, beside.success, beside.sentence) == (without.robust, without.success, without.sentence)
    column = beside.stages[1]
    assert column.accuracy is not None
    assert (column.accuracy.count, column.broke, column.cumulative) == (0, 0, False)
    assert beside.stages[2].broke == 1


def test_columns_of_a_cascade_add_up() -> None:
    first = stage_records("first", [0, 1, 1, 1], [0, 1, 2, 3], scope="survivors")
    second = stage_records("second", [1, 0, 1], [1, 2, 3], scope="survivors")
    none_left = stage_records("third", [], [], scope="survivors")
    skipped = stage_records("fourth", [], [], scope="survivors", skipped="It needs gradients.", finished=True)
    under_way = stage_records("fifth", [], [], scope="survivors", finished=False)
    verdict = give_verdict(made_up(CLEAN, first, second, none_left, skipped, under_way))
    assert [stage.cumulative for stage in verdict.stages] == [False, True, True, True, True, True]
    said = [None if stage.accuracy is None else stage.accuracy.count for stage in verdict.stages]
    assert said[:4] == [4, 3, 2, 2]
    assert said[5] is None
    assert [stage.broke for stage in verdict.stages] == [0, 1, 1, 0, 0, 0]
    assert verdict.robust.count == 2


def test_a_limited_stage_reports_on_its_own_samples_and_lowers_only_those() -> None:
    few = stage_records("few", [0, 1], [1, 3])
    verdict = give_verdict(made_up(CLEAN, few))
    assert verdict.stages[1].accuracy is not None
    assert verdict.stages[1].accuracy.total == 2
    assert right_shares(made_up(CLEAN, few)).tolist() == [1, 0, 1, 1, 0]


def test_shares_of_a_model_that_draws_are_averaged_and_half_still_stands() -> None:
    clean, attack = stage_records("clean", [1, 0.9, 0.4]), stage_records("a", [0.5, 0.45, 0.2])
    verdict = give_verdict(made_up(clean, attack))
    assert verdict.robust.value == pytest.approx((0.5 + 0.45 + 0.2) / 3)
    assert verdict.success is not None
    assert (verdict.success.count, verdict.success.total) == (1, 2)


def test_no_sample_right_to_begin_with() -> None:
    verdict = give_verdict(made_up(stage_records("clean", [0, 0])))
    assert verdict.success is None
    assert str(verdict.robust).startswith("0.0 % (<= ")


def test_the_claim_is_the_highest_accuracy_of_one_attack_alone() -> None:
    weak, strong = stage_records("weak", [0, 1, 1, 1, 0]), stage_records("strong", [0, 0, 0, 1, 0])
    later = stage_records("later", [0], [3], scope="survivors")
    few = stage_records("few", [1, 1], [1, 2])
    foreign = stage_records("foreign", [1, 1, 1, 1, 0], origin="transfer")
    noise = stage_records("noise", [1, 1, 1, 1, 0], counts=False)
    verdict = give_verdict(made_up(CLEAN, noise, strong, weak, few, foreign, later))
    assert verdict.claim is not None
    assert verdict.claim.stage.name == "weak"
    assert "Not robust: 0.0 %" in verdict.headline
    assert verdict.headline.endswith("although weak alone leaves 60.0 %.")
    first = stage_records("first", [0, 1, 1, 1], [0, 1, 2, 3], scope="survivors")
    cascade = give_verdict(made_up(CLEAN, first, later))
    assert cascade.claim is not None
    assert cascade.claim.stage.name == "first"
    assert give_verdict(made_up(CLEAN)).claim is None


def test_a_claim_near_the_worst_case_is_not_held_against_the_model() -> None:
    verdict = give_verdict(made_up(CLEAN, stage_records("one", [0, 1, 1, 1, 0])))
    assert verdict.headline == "Robust on most samples: at most 60.0 % of the samples stay correct under every attack."
    under_way = replace(made_up(CLEAN, stage_records("one", [0, 0, 1, 1, 0])), finished=False)
    assert give_verdict(under_way).headline.startswith("Partly robust: at most 40.0 %")
    assert give_verdict(under_way).headline.endswith("(not finished).")
    paper = replace(made_up(CLEAN, stage_records("one", [0, 0, 1, 1, 0])), comparison=True)
    assert "which does not measure robustness" in give_verdict(paper).headline


def test_the_first_attack_that_broke_a_sample_is_known() -> None:
    one, wide = stage_records("one", [0, 1, 1, 1, 0]), stage_records("wide", [0, 0, 0, 0, 0], counts=False)
    two = stage_records("two", [0, 0, 1], [0, 2, 3], scope="survivors")
    assert first_broken(made_up(CLEAN, wide, one, two)).tolist() == [2, -1, 3, -1, 0]


shares = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=6, max_size=6)


@given(shares, st.lists(st.tuples(shares, st.booleans()), max_size=4))
@settings(max_examples=50, deadline=None)
def test_properties_of_the_worst_case(clean: list[float], attacks: list[tuple[list[float], bool]]) -> None:
    stages = [stage_records(str(place), share, counts=counts) for place, (share, counts) in enumerate(attacks)]
    evaluation = made_up(stage_records("clean", clean), *stages)
    worst = np.min([clean, *(share for share, counts in attacks if counts)], axis=0)
    assert right_shares(evaluation).tolist() == worst.tolist()
    verdict = give_verdict(evaluation)
    assert verdict.robust.count == pytest.approx(worst.sum())
    right = np.array(clean) >= 0.5
    if right.any():
        assert verdict.success is not None
        assert verdict.success.count == (right & (worst < 0.5)).sum() == sum(each.broke for each in verdict.stages)


@pytest.mark.parametrize("stages", [(), (stage_records("clean", [], finished=False),)])
def test_an_evaluation_that_has_only_begun_has_no_verdict(stages: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match="no finished chunk yet"):
        give_verdict(made_up(*stages, finished=False))


def test_where_all_stand_the_sentence_is_of_an_upper_bound_and_never_of_a_lower_one() -> None:
    everyone = [1] * 60
    sentence = give_verdict(made_up(stage_records("clean", everyone), stage_records("pgd", everyone))).sentence
    assert sentence.startswith("Robust accuracy 100.0 % [94.0, 100.0] at ")
    assert ">=" not in sentence
    assert sentence.endswith("take it as an upper bound.")


def test_before_any_attack_has_finished_nothing_is_said_of_robustness() -> None:
    half = stage_records("pgd", [1, 1], [0, 1], finished=False)
    aside = stage_records("wide", [1] * 5, counts=False)
    for stages in ((), (half,), (aside,), (stage_records("none", [], [], skipped="It needs gradients."),)):
        verdict = give_verdict(made_up(CLEAN, *stages, finished=False))
        assert not verdict.attacked
        assert "has finished yet, so nothing is known of its robustness" in verdict.sentence
        assert "%" not in verdict.sentence
    done = give_verdict(made_up(CLEAN, stage_records("pgd", [1] * 5), half, finished=False))
    assert done.attacked
    assert "so far" in done.sentence


def test_a_suite_to_compare_with_the_paper_says_nothing_of_robustness_but_that_it_is_none() -> None:
    wide = stage_records("wide", [0] * 5, counts=False, threat="Linf 16/255")
    paper = made_up(CLEAN, stage_records("pgd", [0, 1, 1, 1, 1]), wide, suite="paper-table1", comparison=True)
    assert give_verdict(paper).sentence == (
        "Accuracy 60.0 % [14.7, 94.7] at Linf 8/255, the worst case per sample over every attack of paper-table1 at "
        "8/255: the paper's protocol, for comparison with its tables; it does not measure robustness."
    )
    under_way = give_verdict(replace(paper, finished=False)).sentence
    assert under_way.endswith("it does not measure robustness; the evaluation is not finished.")
    none_left = made_up(CLEAN, stage_records("pgd", [0] * 5), comparison=True)
    assert give_verdict(none_left).sentence.startswith("Accuracy 0.0 % [0.0, 52.2] at "), (
        "as the paper's tables have it"
    )
    own = give_verdict(replace(paper, comparison=False)).sentence
    assert own.startswith("Robust accuracy")
    assert "over every attack of paper-table1 at 8/255; diagnostics were not run" in own


def test_where_no_attack_counts_that_is_said_and_none_is_called_impossible() -> None:
    distortion = stage_records("cw", [0] * 5, counts=False, threat="")
    sentence = give_verdict(made_up(CLEAN, distortion, suite="paper-table2", comparison=True)).sentence
    assert sentence == "No attack of paper-table2 counts towards a worst case, so it does not measure robustness."


def test_an_evaluation_gives_its_own_verdict() -> None:
    evaluation = made_up(CLEAN, stage_records("pgd", [0, 1, 1, 1, 1]))
    assert evaluation.verdict.robust == give_verdict(evaluation).robust
    assert evaluation.verdict.sentence == give_verdict(evaluation).sentence
    assert (evaluation.verdict.clean.count, evaluation.verdict.robust.count) == (4, 3)


def finding(check: str, *, flagged: bool, adds: tuple[str, ...] = ()) -> Finding:
    return Finding(check, check, flagged, "sentence.", "remedy.", adds)


def test_how_far_a_verdict_can_be_trusted() -> None:
    def trust(*findings: Finding, remedies: tuple[str, ...] = (), **changes: Any) -> str:
        added = [
            stage_records(f"remedy-{name}", [1] * 5, settings={"remedy": name}, origin="diagnosis") for name in remedies
        ]
        attacked = stage_records("pgd", [1] * 5)
        verdict = give_verdict(made_up(CLEAN, attacked, *added, findings=findings, **changes))
        assert verdict.sentence.count(".") - verdict.sentence.count(".0 %") >= 1
        return verdict.trust

    bad = finding("zero-gradients", flagged=True, adds=("scale-free", "steps"))
    assert trust() == "unchecked"
    assert trust(finding("randomness", flagged=False)) == "held"
    assert trust(bad) == "unresolved"
    assert trust(bad, remedies=("scale-free",)) == "unresolved", "every remedy has to run"
    assert trust(bad, remedies=("scale-free", "steps")) == "mended"
    other = finding("other", flagged=True, adds=("transfer",))
    assert trust(bad, other, remedies=("scale-free", "steps")) == "unresolved"
    assert trust(bad, remedies=("scale-free", "steps"), finished=False) == "unfinished"


def test_where_nothing_is_left_no_remedy_is_missed() -> None:
    bad = finding("zero-gradients", flagged=True, adds=("steps",))
    broken = made_up(CLEAN, stage_records("pgd", [0] * 5), findings=(bad,))
    assert give_verdict(broken).trust == "mended"
    assert "almost no sample is left" in give_verdict(broken).sentence


def test_compare_pairs_the_samples_that_stand() -> None:
    first = made_up(CLEAN, stage_records("a", [1, 1, 1, 0, 0]), name="first")
    second = made_up(CLEAN, stage_records("a", [0, 0, 1, 1, 0]), name="second")
    pair = compare(first, second)
    assert (pair.first_only, pair.second_only, pair.total) == (2, 1, 5)


def test_compare_refuses_other_images() -> None:
    first = made_up(CLEAN)
    for other in (replace(first, data_fingerprint="other"), replace(first, samples=4)):
        with pytest.raises(ArgumentError, match="different images"):
            compare(first, other)


def test_compare_refuses_an_evaluation_that_has_not_seen_all_the_images_yet() -> None:
    first, second = made_up(CLEAN), made_up(stage_records("clean", [1, 1]), samples=5, name="second", finished=False)
    with pytest.raises(ArgumentError, match="second"):
        compare(first, second)


def trained(name: str, train_seed: int, right: list[float], *, lr: float = 0.1, **changes: Any) -> Evaluation:
    settings_table = {"about": name, "table": "", "loss": {"name": "mmc"}, "train": {"seed": train_seed, "lr": lr}}
    fingerprint = changes.pop("model_fingerprint", name)
    stages = (stage_records("clean", right),)
    return made_up(*stages, name=name, model={"settings": settings_table}, model_fingerprint=fingerprint, **changes)


def test_seed_spreads_group_runs_that_differ_only_in_the_training_seed() -> None:
    runs = [trained("a0", 0, [1, 1]), trained("a1", 1, [1, 0]), trained("b0", 0, [0, 0], lr=0.2)]
    (spread,) = seed_spreads([*runs, made_up(stage_records("clean", [1, 1]))])
    assert spread.names == ("a0", "a1")
    assert spread.mean == 0.75
    assert spread.deviation == pytest.approx(np.std([1.0, 0.5], ddof=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"data_fingerprint": "other"},
        {"suite": "other"},
        {"suite_version": 2},
        {"epsilon": "4/255"},
        {"norm": "L2"},
        {"seed": 1},
        {"model_fingerprint": "a0"},
    ],
)
def test_what_differs_in_more_than_the_training_seed_is_no_spread(changes: dict[str, Any]) -> None:
    assert not seed_spreads([trained("a0", 0, [1, 1]), trained("a1", 1, [1, 0], **changes)])


def test_two_checkpoints_of_one_run_are_no_spread_over_seeds() -> None:
    assert not seed_spreads([trained("last", 0, [1, 1]), trained("best", 0, [1, 0])])


def test_a_model_that_no_attack_could_run_on_is_not_called_robust() -> None:
    skipped = replace(stage_records("a", []), skipped="It needs gradients.", counts=True)
    verdict = give_verdict(made_up(stage_records("clean", [1, 1, 1]), skipped))
    assert verdict.trust == "unresolved"
    assert verdict.sentence.startswith("No attack of ")
    assert "nothing is known of its robustness" in verdict.sentence


def test_compare_refuses_models_that_were_attacked_differently() -> None:
    first = made_up(CLEAN)
    for other in (replace(first, suite="other"), replace(first, radius=0.5), replace(first, norm="L2")):
        with pytest.raises(ArgumentError, match="attacked differently"):
            compare(first, other)
