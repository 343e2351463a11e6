"""How unsure a prediction is: two scores of the head and the softmax; larger means less certain."""

from jaxtyping import Float
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.models.head import Head


def probabilities(head: Head, features: Float[Tensor, "n d"]) -> Float[Tensor, "n l"]:
    """Softmax over the logits, which gives MMC a normalised prediction in the test phase (paper Sec. 3.3)."""
    return head.logits(features).softmax(dim=1)


def predicted_class_loss(head: Head, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """The loss the predicted class would have: the paper's measure of uncertainty (Sec. 3.3)."""
    return head.per_sample(features, head.logits(features).argmax(dim=1))


def runner_up_closeness(head: Head, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Minus the gap between the best logit and the second: 0 on a decision boundary, very negative at a center."""
    if head.num_classes < 2:
        raise ArgumentError("A gap to the second class needs two classes or more; this head has one.")
    best, second = head.logits(features).topk(2, dim=1).values.unbind(dim=1)
    return second - best
