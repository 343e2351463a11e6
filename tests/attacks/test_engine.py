"""The engine: what it asks about each sample and what it reports do not depend on how samples are worked through."""

import pytest
import torch
from small_models import Curved, Linear, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Outputs, Result, cross_entropy, margin, own_loss, pgd
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.errors import ArgumentError
from maxmahal.losses import SCE
from maxmahal.models import Classifier

COUNT, STEPS = 12, 6
IMAGES, IDS = uniform(1, COUNT, 1, 4, 4), torch.arange(500, 500 + COUNT)
MODEL = Curved(row_by_row=True).eval()
PREDICTED = predictions(MODEL, IMAGES)
CLEAN_WRONG = torch.tensor([2, 7])
LABELS = PREDICTED.clone()
LABELS[CLEAN_WRONG] = (LABELS[CLEAN_WRONG] + 1) % 4
THREAT = Linf(0.05)
EVERY_STEP = Engine(early_exit=False)


def attack(rows: Tensor | slice = slice(None), model: nn.Module = MODEL, **changes: object) -> Result:
    arguments: dict[str, object] = {
        "objective": margin(),
        "threat": THREAT,
        "steps": STEPS,
        "step_size": 0.025,
        "seed": 0,
        "sample_ids": IDS[rows],
    }
    return pgd(model, IMAGES[rows], LABELS[rows], **(arguments | changes))


def iterates(row: int, steps: int = STEPS) -> list[Tensor]:
    """PGD written out for one sample: its start and where each step leads."""
    image, label = IMAGES[row, None], LABELS[row]
    moved = THREAT.random_start(image, IDS[row, None], "pgd-start", 0, 0)
    seen = [moved]
    for _ in range(steps):
        asked = moved.clone().requires_grad_()
        logits = MODEL(asked)[0]
        rival = max(logit for index, logit in enumerate(logits) if index != label)
        (gradient,) = torch.autograd.grad(logits[label] - rival, asked)
        moved = THREAT.project(image, moved - 0.025 * gradient.sign())
        seen.append(moved)
    return seen


def first_broken(row: int) -> int | None:
    """The place of the first iterate that fools the model."""
    places = [place for place, moved in enumerate(iterates(row)) if predictions(MODEL, moved) != LABELS[row]]
    return places[0] if places else None


BROKEN_AT = [first_broken(row) for row in range(COUNT)]


def test_the_example_has_samples_of_every_kind() -> None:
    survivors = [row for row, place in enumerate(BROKEN_AT) if place is None]
    places = {place for place in BROKEN_AT if place is not None}
    assert len(survivors) >= 2
    assert len(places) >= 4


def asked_of(model: nn.Module) -> list[int]:
    """How many images each call of the model from now on holds."""
    sizes: list[int] = []
    model.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    return sizes


@pytest.mark.usefixtures("unchecked")
def test_a_number_is_no_engine() -> None:
    with pytest.raises(ArgumentError, match=r"engine must be an Engine, such as Engine\(batch_size=64\); got 3"):
        attack(engine=3)


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_every_step_of_every_sample_is_counted(batch_size: int | None) -> None:
    model = Curved().eval()
    sizes = asked_of(model)
    passes = attack(model=model, engine=Engine(early_exit=False, batch_size=batch_size)).passes
    assert passes.forward == sum(sizes) == (STEPS + 2) * COUNT  # the clean images, the steps, the last iterate
    assert passes.backward == STEPS * COUNT
    assert passes.queries == (STEPS + 1) * COUNT
    assert max(sizes) == (batch_size or COUNT)


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_samples_leave_at_their_first_success(batch_size: int | None) -> None:
    passes = attack(engine=Engine(batch_size=batch_size)).passes
    looks = finals = 0
    for row, place in enumerate(BROKEN_AT):
        if row not in CLEAN_WRONG:
            looks += STEPS if place is None else min(place + 1, STEPS)
            finals += place is None or place == STEPS
    assert passes.backward == looks
    assert passes.queries == COUNT + looks
    assert passes.forward == COUNT + looks + finals
    assert passes.forward < (STEPS + 2) * COUNT / 1.5


def test_the_image_returned_is_the_first_that_fools_or_the_best_seen() -> None:
    attacked = attack()
    for row, place in enumerate(BROKEN_AT):
        if row in CLEAN_WRONG:
            assert torch.equal(attacked.images[row], IMAGES[row])
            continue
        seen = iterates(row)
        if place is None:
            with torch.no_grad():
                values = [margin()(Outputs(MODEL(moved)), LABELS[row, None], None).item() for moved in seen]
            place = values.index(min(values))
        assert torch.equal(attacked.images[row], seen[place][0])
    assert attacked.fooled.tolist() == [place is not None or row in CLEAN_WRONG for row, place in enumerate(BROKEN_AT)]
    assert torch.equal(attacked.predictions, predictions(MODEL, attacked.images))


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, COUNT])
@pytest.mark.parametrize("early_exit", [True, False])
@pytest.mark.parametrize("keep", ["best", "last"])
def test_nothing_depends_on_the_size_of_the_working_batch(batch_size: int, early_exit: bool, keep: str) -> None:
    whole = attack(keep=keep, engine=Engine(early_exit=early_exit))
    parts = attack(keep=keep, engine=Engine(early_exit=early_exit, batch_size=batch_size))
    assert torch.equal(parts.images, whole.images)
    assert torch.equal(parts.predictions, whole.predictions)
    assert parts.passes == whole.passes


@pytest.mark.parametrize("engine", [Engine(), Engine(batch_size=3), EVERY_STEP], ids=["whole", "refilled", "in step"])
def test_nothing_depends_on_the_order_or_the_company(engine: Engine) -> None:
    whole = attack(engine=engine)
    for rows in (torch.arange(COUNT).flip(0), torch.tensor([11, 4, 8]), torch.tensor([5])):
        some = attack(rows, engine=engine)
        assert torch.equal(some.images, whole.images[rows])
        assert torch.equal(some.fooled, whole.fooled[rows])


@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
@pytest.mark.parametrize("targets", [None, "second-best", "all-others"])
@pytest.mark.parametrize("label_source", ["true", "predicted"])
@pytest.mark.parametrize("restarts", [1, 2])
def test_leaving_early_changes_no_verdict(
    objective: object, targets: str | None, label_source: str, restarts: int
) -> None:
    options = {"objective": objective, "targets": targets, "label_source": label_source, "restarts": restarts}
    early, late = attack(**options), attack(engine=EVERY_STEP, **options)
    assert torch.equal(early.fooled, late.fooled)
    assert torch.equal(early.success, late.success)
    assert early.passes.forward < late.passes.forward


def test_samples_at_different_steps_share_the_working_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    step = ProjectedDescent.step

    def spy(self: ProjectedDescent, samples: object, state: dict[str, Tensor], oracle: object) -> object:
        seen.append(state["taken"].tolist())
        return step(self, samples, state, oracle)

    monkeypatch.setattr(ProjectedDescent, "step", spy)
    attack(engine=Engine(batch_size=4))
    assert max(len(taken) for taken in seen) == 4
    assert any(len(set(taken)) > 1 for taken in seen)  # someone new beside someone older
    assert len(seen) < 3 * STEPS  # and not one batch of four after the other


def test_restarts_attack_survivors_only_and_never_hurt() -> None:
    once, thrice = attack(steps=1), attack(steps=1, restarts=3)
    assert (thrice.fooled >= once.fooled).all()
    assert thrice.fooled.sum() > once.fooled.sum()
    values = [margin()(Outputs(MODEL(attacked.images).detach()), LABELS, None) for attacked in (once, thrice)]
    assert (values[1] <= values[0])[~thrice.fooled].all()
    assert thrice.passes.backward < 3 * once.passes.backward
    repeated = attack(steps=1, restarts=3, random_start=False)
    assert torch.equal(repeated.images, attack(steps=1, random_start=False).images)


def test_every_target_is_tried_on_whoever_is_left() -> None:
    first, everything = attack(steps=1, targets="second-best"), attack(steps=1, targets="all-others")
    assert first.hit is not None
    assert everything.hit is None
    assert (everything.fooled >= first.fooled).all()
    assert everything.fooled.sum() > first.fooled.sum()
    assert 3 * (~everything.fooled).sum() <= everything.passes.backward < 3 * COUNT


@pytest.mark.parametrize("engine", [Engine(), EVERY_STEP], ids=["leaves", "stays"])
def test_targets_are_tried_in_turn_once_a_restart(engine: Engine) -> None:
    seen: list[list[int]] = []

    def spy(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        seen.append(targets.tolist())
        return margin()(outputs, labels, targets)

    rows = torch.tensor([8])
    options = {"objective": spy, "targets": "all-others", "threat": Linf(1e-4), "steps": 1, "engine": engine}
    assert not attack(rows, restarts=2, **options).fooled.any()
    with torch.no_grad():
        order = MODEL(IMAGES[rows])[0].argsort(descending=True).tolist()[1:]
    assert seen[0] == order[:1]  # the first look
    assert seen[1:] == [[target] for target in order for _ in ("step", "last iterate")] * 2


def through_the_middle() -> tuple[nn.Module, Tensor, Tensor]:
    """One pixel: class 0 below 0.3, class 2 up to 0.6, class 1 above."""
    weight, bias = torch.tensor([[-1.0], [2.0], [0.0]]), torch.tensor([0.3, -1.2, 0.0])
    return Linear(weight, bias).eval(), torch.full((1, 1, 1, 1), 0.2), torch.tensor([0])


def test_an_attack_on_one_target_is_content_with_nothing_else() -> None:
    model, image, label = through_the_middle()
    options = {"objective": margin(), "threat": Linf(0.49), "steps": 8, "step_size": 0.1, "seed": 0}
    options["random_start"] = False
    aimed = pgd(model, image, label, targets=torch.tensor([1]), **options)
    assert aimed.predictions.tolist() == [1]
    assert aimed.hit.tolist() == aimed.success.tolist() == [True]
    anyone = pgd(model, image, label, targets=torch.tensor([[1, 2]]), **options)
    assert anyone.predictions.tolist() == [2]  # any wrong class will do, and 2 comes first on the way
    assert anyone.hit is None
    assert anyone.success.tolist() == [True]
    short = pgd(model, image, label, targets=torch.tensor([1]), **(options | {"threat": Linf(0.2)}))
    assert short.fooled.tolist() == [True]
    assert short.hit.tolist() == short.success.tolist() == [False]
    assert short.predictions.tolist() == [2]  # fooled is better than nothing


def test_the_models_own_predictions_can_be_fled_from() -> None:
    avoided: list[Tensor] = []

    def spy(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        avoided.append(labels)
        return margin()(outputs, labels, targets)

    for engine in (Engine(), EVERY_STEP):
        attacked = attack(objective=spy, label_source="predicted", engine=engine)
        assert attacked.fooled[CLEAN_WRONG].all()  # wrong to begin with, whatever the objective does to them
    assert any(torch.equal(labels, PREDICTED) for labels in avoided)
    # The last iterate is another matter: these avoided from the wrong class, some of them to the true one.
    last = attack(label_source="predicted", keep="last")
    assert torch.equal(last.fooled, predictions(MODEL, last.images) != LABELS)
    assert not last.fooled[CLEAN_WRONG].all()


@pytest.mark.parametrize("early_exit", [True, False])
def test_an_image_that_is_wrong_to_begin_with_stays_broken(early_exit: bool) -> None:
    """Just inside the wrong class, and fleeing it: every start that lands in the true class stays there."""
    model, image, label = through_the_middle()
    images, labels = (image + 0.11).expand(20, -1, -1, -1), label.expand(20)
    options = {"objective": margin(), "threat": Linf(0.1), "steps": 2, "step_size": 0.1, "seed": 0}
    options |= {"sample_ids": torch.arange(20), "label_source": "predicted"}
    attacked = pgd(model, images, labels, engine=Engine(early_exit=early_exit), **options)
    assert attacked.fooled.all()
    assert not pgd(model, images, labels, keep="last", **options).fooled.any()


@pytest.mark.parametrize("early_exit", [True, False])
def test_the_last_iterate_is_the_last_whoever_was_broken_before(early_exit: bool) -> None:
    attacked = attack(keep="last", engine=Engine(early_exit=early_exit))
    expected = torch.cat([iterates(row)[-1] for row in range(COUNT)])
    assert torch.equal(attacked.images, expected)
    assert torch.equal(attacked.predictions, predictions(MODEL, expected))
    assert attacked.passes.forward == (STEPS + 2) * COUNT


def test_restarts_of_the_last_iterate_prefer_one_that_fools() -> None:
    once, thrice = attack(keep="last", steps=1), attack(keep="last", steps=1, restarts=3)
    assert (thrice.fooled >= once.fooled).all()
    assert torch.equal(thrice.images[once.fooled], once.images[once.fooled])
    everyone = attack(once.fooled.nonzero().squeeze(1), keep="last", steps=1, restarts=3)
    assert everyone.fooled.all()
    assert everyone.passes.backward == len(everyone.fooled)  # nobody was left for the second attempt


def test_samples_that_are_wrong_to_begin_with_need_no_steps() -> None:
    attacked = attack(CLEAN_WRONG)
    assert attacked.fooled.all()
    assert torch.equal(attacked.images, IMAGES[CLEAN_WRONG])
    assert (attacked.passes.forward, attacked.passes.backward, attacked.passes.queries) == (2, 0, 2)
    assert attacked.accuracy == 0.0


def test_images_and_models_in_float64() -> None:
    model = Curved().double().eval()
    options = {"objective": margin(), "threat": THREAT, "steps": 3, "step_size": 0.025, "seed": 0}
    attacked = pgd(model, IMAGES.double(), LABELS, **options)
    assert attacked.images.dtype == torch.float64
    assert torch.equal(attacked.predictions, predictions(model, attacked.images))
    assert (attacked.images - IMAGES.double()).abs().max() <= 0.05 + 1e-15


def test_a_model_without_features_has_no_loss_of_its_own() -> None:
    with pytest.raises(ArgumentError, match=r"own_loss needs the model's features; attack a maxmahal\.Classifier"):
        attack(objective=own_loss(SCE(num_classes=4, feature_dim=12)))
    shows = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, 12)), SCE(num_classes=4, feature_dim=12)).eval()
    assert attack(model=shows, objective=own_loss(shows.head)).images.shape == IMAGES.shape
