"""Training: settings and presets, the loop, training methods, run folders that can be resumed."""

from maxmahal.train.build import new_classifier, preset_centers
from maxmahal.train.checkpoint import ModelCard, load_card, load_model, save_model
from maxmahal.train.config import DataSettings, ModelSettings, Settings, TrainSettings
from maxmahal.train.folder import RunFolder
from maxmahal.train.loop import Reporter
from maxmahal.train.methods import METHODS
from maxmahal.train.presets import load_settings, preset_names
from maxmahal.train.reachable_centers import unreachable_centers
from maxmahal.train.run import train_model

__all__ = [
    "METHODS",
    "DataSettings",
    "ModelCard",
    "ModelSettings",
    "Reporter",
    "RunFolder",
    "Settings",
    "TrainSettings",
    "load_card",
    "load_model",
    "load_settings",
    "new_classifier",
    "preset_centers",
    "preset_names",
    "save_model",
    "train_model",
    "unreachable_centers",
]
