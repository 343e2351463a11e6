"""Features in two dimensions: as they are, or projected on a plane that separates the classes."""

import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.oracle import in_batches
from maxmahal.models import Classifier

POINTS = 600  # enough to see the clusters of ten classes, few enough to draw


@dataclass(frozen=True)
class Plane:
    """A point and two directions of feature space."""

    kind: str
    origin: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d 2"]
    centers: Float[np.ndarray, "l 2"]  # of the classes, in the plane; empty for losses without

    def project(self, features: Float[Tensor, "n d"]) -> Float[np.ndarray, "n 2"]:
        """The coordinates of features in the plane."""
        return (features.detach().cpu().double().numpy() - self.origin) @ self.axes

    def to_bytes(self) -> bytes:
        """As the records store it; ``read_plane`` reads it."""
        stream = io.BytesIO()
        np.savez(stream, kind=self.kind, origin=self.origin, axes=self.axes, centers=self.centers)
        return stream.getvalue()


def find_plane(model: Classifier, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> Plane:
    """The features themselves where there are two; else a plane of the centers, or of the classes' means.

    Centers that are all equally far apart spread no further along one plane than along another: any two principal axes
    would pile most of them up. Where they allow it, they are laid out on a circle instead.
    """
    features = in_batches(model.features, images).cpu().double().numpy()
    known = model.head.class_centers
    centers = None if known is None else known.detach().cpu().double().numpy()
    dim = features.shape[1]
    if dim == 2:
        return Plane("features", np.zeros(2), np.eye(2), np.zeros((0, 2)) if centers is None else centers)
    if centers is not None:
        origin = centers.mean(axis=0)
        axes = _circle_axes(centers - origin)
        kind = "circle of centers" if axes is not None else "centers"
        axes = _principal_axes(centers - origin) if axes is None else axes
        return Plane(kind, origin, axes, (centers - origin) @ axes)
    owners = labels.cpu().numpy()
    means = np.stack([features[owners == label].mean(axis=0) for label in np.unique(owners)])
    origin = means.mean(axis=0)
    return Plane("class means", origin, _principal_axes(means - origin), np.zeros((0, 2)))


def _circle_axes(points: Float[np.ndarray, "l d"]) -> Float[np.ndarray, "d 2"] | None:
    """Two orthonormal directions in which the points form a regular polygon; None where there are none."""
    angles = 2 * np.pi * np.arange(len(points)) / len(points)
    polygon = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes = np.linalg.pinv(points) @ polygon
    lengths = np.linalg.norm(axes, axis=0)
    if len(points) < 3 or not np.allclose(points @ axes, polygon, atol=1e-6):
        return None
    axes = axes / lengths
    return axes if abs(float(axes[:, 0] @ axes[:, 1])) < 1e-6 and np.isclose(*lengths) else None


def _principal_axes(points: Float[np.ndarray, "l d"]) -> Float[np.ndarray, "d 2"]:
    directions = np.linalg.svd(points, full_matrices=False)[2][:2].T
    if directions.shape[1] < 2:  # a single class, or features of one dimension
        directions = np.concatenate([directions, np.zeros((len(directions), 2 - directions.shape[1]))], axis=1)
    # A direction's sign is arbitrary: make its largest entry positive, so that every run draws the same picture.
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(2)])
    return np.asarray(directions * np.where(signs == 0, 1.0, signs))
