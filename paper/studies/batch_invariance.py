"""One evaluation at several batch sizes and in another order: are random numbers and verdicts the same?

    python -m paper.studies.batch_invariance

Random numbers must be identical. Verdicts may differ only through the model's own rounding, which depends on the shape
of a batch. To check this, an attack whose verdicts differ runs again on the same model image by image, where rounding
does not depend on the batch: there every verdict must be the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from maxmahal import Classifier
from maxmahal.attacks import Attacked, Engine, Linf, apgd, cross_entropy, margin, pgd, spsa, square
from maxmahal.data import ImageData
from paper.studies.digits import digits_model, digits_test, save_record

THREAT = Linf(0.15)
BATCHES = (1, 7, 64, 500)
Attack = Callable[..., Attacked]
_PGD: dict[str, Any] = {"threat": THREAT, "steps": 50, "step_size": 0.015}
_SPSA: dict[str, Any] = {"threat": THREAT, "steps": 10, "evaluations": 64, "learning_rate": 0.03}
ATTACKS: dict[str, Attack] = {
    "PGD-50 cross-entropy": partial(pgd, objective=cross_entropy(), **_PGD),
    "PGD-50 margin": partial(pgd, objective=margin(), **_PGD),
    "APGD-50 margin": partial(apgd, objective=margin(), threat=THREAT, steps=50),
    "SPSA 10x64": partial(spsa, objective=margin(), **_SPSA),
    "Square 200": partial(square, threat=THREAT, queries=200),
}


@dataclass(frozen=True)
class Variant:
    """One order and batch size for the same samples."""

    title: str
    batch_size: int
    order: Tensor


def variants(count: int) -> list[Variant]:
    """Batch sizes in the data's order, and a shuffled order."""
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    return [
        *(Variant(f"batch {size}", size, torch.arange(count)) for size in BATCHES),
        Variant("shuffled, batch 64", 64, shuffled),
        Variant("shuffled, batch 7", 7, shuffled),
    ]


class OneByOne(nn.Module):
    """A model that sees one image at a time, whatever batch it is given."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        return torch.cat([self.model(image[None]) for image in images])


def attacked(attack: Attack, model: nn.Module, data: ImageData, variant: Variant) -> Tensor:
    """Which samples the attack misclassified, in the data's order."""
    order = variant.order
    engine = Engine(batch_size=variant.batch_size)
    images, labels, ids = data.float_images()[order], data.labels[order], data.sample_ids[order]
    result = attack(model, images, labels, sample_ids=ids, seed=0, engine=engine)
    fooled = torch.empty(len(data), dtype=torch.bool)
    fooled[order] = result.fooled
    return fooled


def logit_noise(model: Classifier, data: ImageData) -> float:
    """How much one image's logits change with the size of its batch, at most, over the size of the logits."""
    images = data.float_images()
    with torch.no_grad():
        whole = model(images)
        alone = torch.cat([model(image[None]) for image in images])
    return float((whole - alone).abs().max() / whole.abs().max())


def starts_agree(data: ImageData) -> bool:
    """Whether the random starts are the same to the bit in every variant."""
    images, ids = data.float_images(), data.sample_ids
    whole = THREAT.random_start(images, ids, "pgd-start", 0, 0)
    return all(
        torch.equal(THREAT.random_start(images[part], ids[part], "pgd-start", 0, 0), whole[part])
        for variant in variants(len(data))
        for part in torch.split(variant.order, variant.batch_size)
    )


def count_differing(attack: Attack, model: nn.Module, data: ImageData) -> tuple[float, dict[str, int]]:
    """The accuracy at batch 500, and how many verdicts of each variant differ from that one's."""
    verdicts = {variant.title: attacked(attack, model, data, variant) for variant in variants(len(data))}
    reference = verdicts["batch 500"]
    accuracy = float((~reference).double().mean())
    return accuracy, {which: int((fooled != reference).sum()) for which, fooled in verdicts.items()}


def main() -> None:
    """Attack in every variant and count the verdicts that differ from those of the first."""
    data = digits_test()
    rows: list[dict[str, Any]] = []
    for title in ("SCE", "MMC, scale 1", "AT (MMC)"):
        model = digits_model(title).eval()
        noise = logit_noise(model, data)
        for name, attack in ATTACKS.items():
            accuracy, differing = count_differing(attack, model, data)
            row = {"model": title, "attack": name, "accuracy": accuracy, "differing_verdicts": differing}
            if any(differing.values()):
                row["differing_image_by_image"] = count_differing(attack, OneByOne(model).eval(), data)[1]
            rows.append({**row, "relative_logit_noise": noise})
            print(rows[-1], flush=True)
    content = {"images": len(data), "threat": str(THREAT), "same_random_starts": starts_agree(data), "rows": rows}
    print("saved", save_record("batch_invariance", content).name)


if __name__ == "__main__":
    main()
