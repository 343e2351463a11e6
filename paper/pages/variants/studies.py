"""The seven grids of variants; the paper's predictions stand here in our words."""

from paper.pages.variants.spec import Arm, Contrast, Prediction, Study, against

_MMC = "variants-mmc"
_REFERENCE = Arm(_MMC, "MMC-10", "MMC")
_ALPHAS = ("0.01", "0.1", "1.0", "10.0")
_EMC = tuple(f"variants-emc-{alpha}" for alpha in _ALPHAS)
_RATIOS = ("0.1", "0.3", "1")
_SHAPES = tuple(f"variants-shape-{ratio}" for ratio in _RATIOS)
_WRONG_TREE = "variants-value-0.3"
_CONDITIONS = {
    "clean": ("clean labels", "clean"),
    "noise20": ("20 % wrong labels", "20 %"),
    "noise40": ("40 % wrong labels", "40 %"),
    "at": ("adversarial training", "AT"),
}
_FORMS = ("squared", "absolute", "huber")
_NORMS = {"1": "C = 1", "3": "C = 3", "30": "C = 30", "100-scaled": "C = 100, scaled"}
_DIMS = ("9", "16", "256", "512")
_SMALL = ("2", "5", "8")
_WEIGHTS = {"0.0": "both images, not paired", "0.5": "paired, weight 0.5", "2.0": "paired, weight 2"}
_UNPAIRED = "variants-pairing-0.0"


def _pairs(names: tuple[str, ...], words: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(names, words, strict=True))


def _form(condition: str, form: str) -> str:
    return _MMC if (condition, form) == ("clean", "squared") else f"variants-{condition}-{form}"


def _others(condition: str) -> tuple[str, ...]:
    return tuple(_form(condition, form) for form in _FORMS[1:])


def _emc() -> Study:
    return Study(
        "emc",
        "Elastic centers (Eq. 21)",
        "May centers move a little from their places? The prior variance α says how much; 0 is MMC.",
        (_REFERENCE, *(Arm(arm, f"EMC, α = {float(a):g}", f"α={float(a):g}") for arm, a in _pairs(_EMC, _ALPHAS))),
        against(_MMC, _EMC, "worst", "clean"),
        (
            Prediction(
                "EMC goes over into MMC as α goes to 0, so the smallest α here should change nothing",
                "appendix B.3",
                against(_MMC, _EMC[:1], "worst", "clean"),
                "equal",
            ),
        ),
    )


def _hierarchical() -> Study:
    arms = tuple(Arm(arm, f"by shape, ratio {ratio}", f"shape {ratio}") for arm, ratio in _pairs(_SHAPES, _RATIOS))
    return Study(
        "hierarchical",
        "Hierarchical centers (appendix B.3)",
        "Should centers follow a tree of the classes? Loops (0, 6, 8, 9), straight strokes (1, 4, 7) and open curves "
        "(2, 3, 5) are the superclasses: how a digit is drawn is known before any training and is what makes digits "
        "look alike. All centers have length 10; the ratio is that of the inner level's norm to the outer one's. The "
        "control is a tree by value (0-3, 4-6, 7-9), of the same sizes and without a likeness.",
        (_REFERENCE, *arms, Arm(_WRONG_TREE, "by value, ratio 0.3", "value 0.3")),
        (
            *against(_MMC, _SHAPES, "worst", "clean"),
            Contrast(_SHAPES[1], _WRONG_TREE, "worst"),
            Contrast(_SHAPES[1], _WRONG_TREE, "clean"),
        ),
        without="The paper expects a gain where classes have a structure, names CIFAR-100 and ImageNet, and calls the "
        "classes of MNIST nearly independent; for digits it predicts nothing. `cifar100-mmc-hierarchical` is the "
        "preset for its own example, and [trees.md](trees.md) tries such centers on CIFAR-100.",
    )


def _forms() -> Study:
    arms: list[Arm] = []
    contrasts: list[Contrast] = []
    for condition, (words, tick) in _CONDITIONS.items():
        arms += [Arm(_form(condition, form), f"{words}, {form}", f"{tick} {form[:3]}.") for form in _FORMS]
        contrasts += against(_form(condition, "squared"), _others(condition), "clean", "worst")
    noisy = tuple(
        contrast
        for condition in ("noise20", "noise40")
        for contrast in against(_form(condition, "squared"), _others(condition), "clean")
    )
    return Study(
        "forms",
        "Squared, absolute or Huber (appendix B.2)",
        "Which function of the distance to the center should be the loss? Wrong labels are the same ones in every run; "
        "the absolute and the Huber form get a larger learning rate, the better of two in a trial with another seed.",
        tuple(arms),
        tuple(contrasts),
        (
            Prediction(
                "on clean labels the squared form learns faster, so early in training the others are behind",
                "appendix B.2",
                against(_MMC, _others("clean"), "early"),
                "hurts",
            ),
            Prediction(
                "on clean labels the squared form ends with the higher accuracy",
                "appendix B.2",
                against(_MMC, _others("clean"), "clean"),
                "hurts",
            ),
            Prediction("wrong labels disturb the absolute and the Huber form less", "appendix B.2", noisy, "helps"),
            Prediction(
                "adversarial training wants a loss that heeds outliers, so the squared form ends more robust",
                "appendix B.2",
                against(_form("at", "squared"), _others("at"), "worst"),
                "hurts",
            ),
        ),
    )


def _norm() -> Study:
    names = tuple(f"variants-norm-{norm}" for norm in _NORMS)
    arms = [Arm(name, words, words.removeprefix("C = ")) for name, words in _pairs(names, tuple(_NORMS.values()))]
    return Study(
        "norm",
        "The norm of the centers",
        "How far from the origin should centers lie? *Scaled* means the loss times (10/C)², without which this "
        "learning rate diverges at C = 100.",
        (*arms[:2], _REFERENCE, *arms[2:]),
        against(_MMC, names, "worst", "clean"),
        (
            Prediction(
                "10 is a good norm, found by cross-validation in earlier work, so no other one is more robust",
                "Sec. 4.1",
                against(_MMC, names, "worst"),
                "does not help",
            ),
        ),
    )


def _dim() -> Study:
    names = tuple(f"variants-dim-{dim}" for dim in _DIMS)
    arms = [Arm(name, f"d = {dim}", f"d={dim}") for name, dim in _pairs(names, _DIMS)]
    return Study(
        "dim",
        "The dimension of the features",
        "Ten centers span nine dimensions; in all others a feature is asked to be 0. The reference has 64.",
        (*arms[:2], _REFERENCE, *arms[2:]),
        against(_MMC, names, "worst", "clean"),
        without="The paper asks for L ≤ d + 1 and says nothing about how much more is good.",
    )


def _centers() -> Study:
    codes, randoms = (tuple(f"variants-{kind}-{dim}" for dim in _SMALL) for kind in ("code", "rand"))
    pairs = (*_pairs(randoms, codes), ("variants-rand-64", _MMC))
    arms = [
        arm
        for dim in _SMALL
        for arm in (
            Arm(f"variants-code-{dim}", f"optimised code, d = {dim}", f"code {dim}"),
            Arm(f"variants-rand-{dim}", f"random, d = {dim}", f"rand {dim}"),
        )
    ]
    worst = tuple(Contrast(rand, code, "worst") for rand, code in pairs)
    clean = tuple(Contrast(rand, code, "clean") for rand, code in pairs)
    return Study(
        "centers",
        "Optimised codes and random centers",
        "Where the features have fewer than nine dimensions no simplex fits and Algorithm 1 stops. There, codes with "
        "the largest angle (a polygon, orthogonal simplices) stand against random centers, drawn anew for each "
        "seed; in 64 dimensions the MM centers do.",
        (*arms, _REFERENCE, Arm("variants-rand-64", "random, d = 64", "rand 64")),
        (*worst, *clean, *against(_MMC, codes, "worst", "clean")),
        (
            Prediction(
                "centers that are as far apart as possible give more robust models than random ones",
                "Table 1, ablation",
                worst,
                "hurts",
            ),
        ),
    )


def _pairing() -> Study:
    names = tuple(f"variants-pairing-{weight}" for weight in _WEIGHTS)
    arms = [Arm(name, words, words.removeprefix("paired, ")) for name, words in _pairs(names, tuple(_WEIGHTS.values()))]
    alone = Arm("variants-at-squared", "adversarial images only", "adversarial only")
    paired = names[1:]
    return Study(
        "pairing",
        "Adversarial pairing of features (ALP)",
        "Does pulling the features of an image and of its adversarial twin together add to adversarial training?",
        (alone, *arms),
        (*against(_UNPAIRED, (*paired, alone.name), "worst", "clean"),),
        (
            Prediction(
                "MMC on both images already bounds the pairing term, so pairing them as ALP does adds nothing",
                "appendix B.2",
                against(_UNPAIRED, paired, "worst"),
                "does not help",
            ),
        ),
    )


STUDIES = (_emc(), _hierarchical(), _forms(), _norm(), _dim(), _centers(), _pairing())
