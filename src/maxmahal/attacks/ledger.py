"""The best image of each sample so far, and whether the model itself has confirmed it."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.answers import check_answers
from maxmahal.attacks.oracle import Oracle
from maxmahal.attacks.samples import Samples

Keep = Literal["best", "last", "nearest"]


@dataclass(frozen=True)
class _Claims:
    """What one step claims and the model itself has not confirmed yet; successes are where ``open`` is true."""

    rows: Int[Tensor, " m"]
    targets: Int[Tensor, " m"] | None
    images: Float[Tensor, "m c h w"]
    scores: Float[Tensor, " m"]
    open: Bool[Tensor, " m"]


class Ledger:
    """One entry a sample.

    ``best`` prefers success, then the smallest objective; ``last`` the same among the last iterates of the attempts;
    ``nearest`` takes only successes and prefers the smallest distance.
    """

    def __init__(self, samples: Samples, predictions: Int[Tensor, " n"], keep: Keep, oracle: Oracle) -> None:
        self.images = samples.images.clone()
        self.predictions = predictions.clone()
        self.scores = samples.images.new_full((len(samples),), torch.inf)
        self._ranks = torch.full_like(predictions, -1)
        self._confirmed = torch.full_like(predictions, not oracle.confirms, dtype=torch.bool)
        self._samples, self._keep, self._oracle = samples, keep, oracle
        self._claims: list[_Claims] = []

    def offer_clean_images(self) -> None:
        """Samples that need no attack: the distance 0 for those the model confirms as broken."""
        claimed = (self._samples.ranks(self.predictions) > 0).nonzero().squeeze(1)
        if not len(claimed):
            return
        samples = self._samples.select(claimed)
        if self._oracle.confirms:
            self.predictions[claimed] = self._oracle.verdict(samples.images, samples).predictions
            self._confirmed[claimed] = True
        self._ranks[claimed] = samples.ranks(self.predictions[claimed])
        self._score_clean_successes(claimed)

    def confirm(self) -> None:
        """Ask the model itself about every image that only the search has judged: it has the last word."""
        self._settle_claims()
        rows = (~self._confirmed).nonzero().squeeze(1)
        if not len(rows):
            return
        samples = self._samples.select(rows)
        self.predictions[rows] = self._oracle.verdict(self.images[rows], samples).predictions
        self._confirmed[rows] = True
        self._ranks[rows] = samples.ranks(self.predictions[rows])
        # Where a minimum-norm attack found nothing, the clean image is what is left.
        self._score_clean_successes(rows)

    def offer(
        self,
        rows: Int[Tensor, " m"],
        working: Samples,
        images: Float[Tensor, "m c h w"],
        predictions: Int[Tensor, " m"],
        scores: Float[Tensor, " m"],
        *,
        judged: bool = False,
    ) -> Bool[Tensor, " m"]:
        """Take over what is better; say which of these rows have reached the goal.

        A success found on a prepared model counts only once the original has confirmed it.
        """
        # An objective can be NaN where logits are infinite; any number is better.
        scores = scores.to(self.scores.dtype).nan_to_num(torch.inf, torch.inf, -torch.inf)
        ranks = working.ranks(predictions)
        better = self._is_better(rows, ranks, scores, working.goal)
        if self._keep == "nearest" and self._oracle.confirms and not judged:
            self._claim(_Claims(rows, working.targets, images, scores, better))
            return self._ranks[rows] >= working.goal
        confirmed = torch.full_like(better, judged or not self._oracle.confirms)
        if not self._oracle.confirms:
            check_answers(predictions)
        elif not judged:
            claimed = (better & (ranks > 0)).nonzero().squeeze(1)
            if len(claimed):
                verdict = self._oracle.verdict(images[claimed], working.select(claimed))
                predictions, scores = predictions.clone(), scores.clone()
                predictions[claimed] = verdict.predictions
                confirmed[claimed] = True
                scores[claimed] = verdict.values.to(scores.dtype)
                ranks = working.ranks(predictions)
                better = self._is_better(rows, ranks, scores, working.goal)
        self.images[rows] = torch.where(better[:, None, None, None], images, self.images[rows])
        self.predictions[rows] = torch.where(better, predictions, self.predictions[rows])
        self.scores[rows] = torch.where(better, scores, self.scores[rows])
        self._ranks[rows] = torch.where(better, ranks, self._ranks[rows])
        self._confirmed[rows] = torch.where(better, confirmed, self._confirmed[rows])
        return self._ranks[rows] >= working.goal

    def open_rows(self) -> Int[Tensor, " m"]:
        """Samples that are worth another attempt."""
        self._settle_claims()
        if self._keep == "nearest":
            return (self.scores > 0).nonzero().squeeze(1)
        return (self._ranks < self._samples.goal).nonzero().squeeze(1)

    def broken(self) -> int:
        """How many samples have reached the goal."""
        self._settle_claims()
        return int((self._ranks >= self._samples.goal).sum())

    def _claim(self, claims: _Claims) -> None:
        """Collect claims until they fill a batch: a minimum-norm attack never asks what came of them.

        A verdict on a few images takes as long as one on a full batch, and thousands of steps claim a few each.
        """
        self._claims.append(claims)
        if sum(len(each.rows) for each in self._claims) >= self._oracle.chunk:
            self._settle_claims()

    def _settle_claims(self) -> None:
        """Ask about all claims at once; each sample keeps its nearest confirmed image, the earliest of equals."""
        if not self._claims:
            return
        claims, self._claims = self._claims, []
        chosen = torch.cat([each.open for each in claims]).nonzero().squeeze(1)
        if not len(chosen):
            return
        rows, images, scores = (
            torch.cat([getattr(each, name) for each in claims])[chosen] for name in ("rows", "images", "scores")
        )
        samples = self._samples.select(rows)
        if samples.targets is not None:
            targets = [each.targets for each in claims if each.targets is not None]
            samples = replace(samples, targets=torch.cat(targets)[chosen])
        predictions = self._oracle.verdict(images, samples).predictions
        ranks = samples.ranks(predictions)
        true = self._is_better(rows, ranks, scores, samples.goal)
        nearest = self.scores.scatter_reduce(0, rows, scores.masked_fill(~true, torch.inf), "amin")
        places = torch.arange(len(rows), device=rows.device).masked_fill(~true | (scores > nearest[rows]), len(rows))
        first = torch.full_like(self.predictions, len(rows)).scatter_reduce(0, rows, places, "amin")
        taken = (first < len(rows)).nonzero().squeeze(1)
        place = first[taken]
        self.images[taken], self.predictions[taken] = images[place], predictions[place]
        self.scores[taken], self._ranks[taken] = scores[place], ranks[place]
        self._confirmed[taken] = True

    def _score_clean_successes(self, rows: Int[Tensor, " m"]) -> None:
        if self._keep == "nearest":
            self.scores[rows] = torch.where(self._ranks[rows] >= self._samples.goal, 0.0, self.scores[rows])

    def _is_better(self, rows: Tensor, ranks: Tensor, scores: Tensor, goal: int) -> Bool[Tensor, " m"]:
        if self._keep == "nearest":
            return (ranks >= goal) & (scores < self.scores[rows])
        known = self._ranks[rows]
        return (ranks > known) | ((ranks == known) & (scores < self.scores[rows]))
