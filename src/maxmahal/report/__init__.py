"""Reports: pictures and tables made from records."""

from maxmahal.report.features import FeaturePanel, plot_features

__all__ = ["FeaturePanel", "plot_features"]
