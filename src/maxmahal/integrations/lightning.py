"""A callback of Lightning that logs the accuracy under attack while a model is trained."""

from collections.abc import Callable
from typing import Any

from maxmahal.attacks import Threat, pgd
from maxmahal.errors import ArgumentError
from maxmahal.imports import optional
from maxmahal.integrations.torchmetrics import RobustAccuracy

Callback: Any = optional("lightning.pytorch", "pip install 'maxmahal[lightning]'").Callback


class LogRobustAccuracy(Callback):  # type: ignore[misc]
    """Attacks the first ``batches`` of each validation (None: all of them) and logs the accuracy that is left.

        Trainer(callbacks=[LogRobustAccuracy(Linf("8/255"), steps=20), ModelCheckpoint(monitor="val_robust_accuracy")])

    ``forward`` of the LightningModule maps images in [0, 1] to logits; a batch is a pair of images and labels.
    """

    def __init__(
        self,
        threat: Threat | str | float,
        *,
        batches: int | None = 1,
        name: str = "val_robust_accuracy",
        attack: Callable[..., Any] = pgd,
        **settings: object,
    ) -> None:
        if batches is not None and batches < 1:
            raise ArgumentError(f"batches must be at least 1, or None for all of them; got {batches}.")
        self._threat, self._attack, self._settings = threat, attack, settings
        self._batches, self._name = batches, name

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Begin to count."""
        metric = RobustAccuracy(pl_module, self._threat, attack=self._attack, **self._settings)
        self._metric = metric.to(pl_module.device)

    def on_validation_batch_end(
        self, trainer: Any, _module: Any, _outputs: Any, batch: Any, batch_idx: int, _dataloader_idx: int = 0
    ) -> None:
        """Attack the batch, unless there were enough."""
        if not trainer.sanity_checking and (self._batches is None or batch_idx < self._batches):
            images, labels = batch
            self._metric.update(images, labels)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log it for loggers, checkpoints and early stopping."""
        if not trainer.sanity_checking:
            pl_module.log(self._name, self._metric.compute(), prog_bar=True)
