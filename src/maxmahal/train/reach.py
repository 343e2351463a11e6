"""Whether a network can bring features to all the centers it is trained towards."""

from torch import nn

from maxmahal.centers import squared_distance_to_flat
from maxmahal.losses import EMC, MMC
from maxmahal.models import Classifier

NEGLIGIBLE = 1e-6  # of the centers' mean square


def out_of_reach(model: Classifier) -> str:
    """A sentence where the last layer takes fewer values than the centers span dimensions; empty where it does not.

    Losses with a softmax need no feature at its center, and a network of the user's own may end in anything.
    """
    head, layer = model.head, getattr(model.backbone, "feature", None)
    if not isinstance(head, MMC | EMC) or not isinstance(layer, nn.Linear):
        return ""
    missed = squared_distance_to_flat(head.centers, layer.in_features)
    if missed <= NEGLIGIBLE * float(head.centers.square().sum(dim=1).mean()):
        return ""
    return (
        f"The network's last layer takes {layer.in_features} values, so features fill {layer.in_features} dimensions "
        f"at most, and the {len(head.centers)} centers span more: the mean of ½‖z - μ‖² cannot fall below "
        f"{missed / 2:.1f}, and classes will be given up. Choose a model.backbone that pools more values (resnet32wide "
        "has 256), or centers that span less."
    )
