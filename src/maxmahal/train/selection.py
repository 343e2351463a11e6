"""The score that picks the best checkpoint of a robust method."""

from maxmahal.attacks import own_loss, pgd
from maxmahal.data import ImageData, to_unit_range
from maxmahal.models import Classifier, eval_mode
from maxmahal.train.methods import Adversary

STEPS = 10


def pgd_accuracy(model: Classifier, data: ImageData, adversary: Adversary, batch_size: int = 500) -> float:
    """Accuracy under untargeted PGD-10 on the model's own loss: to choose a checkpoint, not to claim robustness."""
    right = 0
    with eval_mode(model):
        for start in range(0, len(data), batch_size):
            chosen = slice(start, start + batch_size)
            attacked = pgd(
                model,
                to_unit_range(data.images[chosen]),
                data.labels[chosen],
                objective=own_loss(model.head),
                threat=adversary.threat,
                steps=STEPS,
                step_size=adversary.step_size,
                seed=0,
                sample_ids=data.sample_ids[chosen],
            )
            right += int((~attacked.fooled).sum())
    return right / len(data)
