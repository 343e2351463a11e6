"""The learning rate as a function of how much of the training is done."""

import math

from maxmahal.train.config import TrainSettings


def learning_rate(settings: TrainSettings, done: float) -> float:
    """The rate for the step that begins when a share ``done`` in [0, 1) of all steps is behind."""
    if done < settings.warmup:
        return settings.lr * done / settings.warmup
    if settings.schedule == "step":
        return settings.lr * settings.factor ** sum(done >= milestone for milestone in settings.milestones)
    rest = (done - settings.warmup) / (1 - settings.warmup)
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + math.cos(math.pi * rest))
    return settings.lr * (1 - rest)
