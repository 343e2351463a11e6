"""The learning rate as a function of how much of the training is done."""

import math

from maxmahal.train.config import TrainSettings


def learning_rate(settings: TrainSettings, step: int, total: int) -> float:
    """The rate for step number ``step`` (from 0) of ``total``."""
    done = step / total
    if done < settings.warmup:
        return settings.lr * min(1.0, (step + 1) / (settings.warmup * total))  # the first step must move, too
    if settings.schedule == "step":
        return settings.lr * settings.factor ** sum(done >= milestone for milestone in settings.milestones)
    rest = (done - settings.warmup) / (1 - settings.warmup)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * rest))
    return settings.lr * (1 - rest)
