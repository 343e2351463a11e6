"""Models on the Hugging Face Hub: a folder with config.json, model.safetensors and a card.

``model.safetensors`` is a checkpoint like any other, so loading one executes no code from it, and every tensor must
fit. ``config.json`` holds the same description of the model, for readers and for the Hub.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from maxmahal.errors import ArgumentError, CheckpointError
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.files import parse_json, read_text, recorded_path, user_path, write_text_atomically
from maxmahal.imports import optional
from maxmahal.models import Classifier
from maxmahal.records import Evaluation, was_attacked
from maxmahal.settings import to_table
from maxmahal.train.checkpoint import FORMAT, ModelCard, load_card, load_model, parse_card, save_model
from maxmahal.version import __version__

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
_TEMPLATE = Path(__file__).with_name("model_card.md.j2")


def find_model(name: str) -> Callable[[], Classifier]:
    """What loads ``hub:OWNER/NAME``."""
    return partial(from_pretrained, name)


def from_pretrained(
    name: str | Path, revision: str | None = None, token: str | bool | None = None, **loading: Any
) -> Classifier:
    """``Classifier.from_pretrained``; ``loading`` are the options of ``load_model``."""
    folder = user_path(name)
    config, weights = folder / CONFIG, folder / WEIGHTS
    if not folder.is_dir():
        config, weights = (_download(str(name), file, revision, token) for file in (CONFIG, WEIGHTS))
    try:
        read = dict(parse_json(read_text(config)))
        metadata = {key: value if isinstance(value, str) else json.dumps(value) for key, value in read.items()}
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"Cannot read {config} ({error}); save or download the model again.") from error
    if parse_card(config, metadata) != load_card(weights):
        raise CheckpointError(
            f"{CONFIG} and {WEIGHTS} of {name} describe different models; save or download both again."
        )
    return load_model(weights, **loading)


def save_pretrained(model: Classifier, folder: str | Path, evaluations: Sequence[Evaluation]) -> None:
    """``Classifier.save_pretrained``."""
    if not isinstance(model.card, ModelCard):
        raise ArgumentError(
            "This Classifier does not know its settings, because it was built by hand; save a model that "
            "maxmahal.load returned, or set its card to a maxmahal.train.checkpoint.ModelCard first."
        )
    data = model.card.settings.data
    public = replace(data, source=recorded_path(data.source))  # an absolute path says where the user keeps data
    card = replace(model.card, settings=replace(model.card.settings, data=public))
    folder = user_path(folder)
    text = _card_text(model, card, evaluations)
    save_model(folder / WEIGHTS, model, card)
    config = {"format": FORMAT, "version": __version__, "model": to_table(card)}
    write_text_atomically(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    write_text_atomically(folder / CARD, text)


def push_to_hub(
    model: Classifier, repo_id: str, evaluations: Sequence[Evaluation], private: bool | None, token: str | bool | None
) -> str:
    """``Classifier.push_to_hub``; the repository is created if needed."""
    api = _library().HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, evaluations)
        try:
            repository = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload a model"))
        except Exception as error:  # of the network, the Hub or the name
            raise ArgumentError(f"Cannot upload to {repo_id}: {_reason(error)}; run `hf auth login` first.") from error


def _library() -> Any:
    return optional("huggingface_hub", "pip install 'maxmahal[hub]'")


def _download(name: str, file: str, revision: str | None, token: str | bool | None) -> Path:
    try:
        return Path(_library().hf_hub_download(name, file, revision=revision, token=token))
    except ArgumentError:
        raise
    except Exception as error:  # of the network, the Hub or the name
        raise CheckpointError(
            f"There is no folder '{name}', and {file} of a repository of that name cannot be downloaded from the Hub "
            f"({_reason(error)}); check the name and the network."
        ) from error


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition('.')[0]}"


def _card_text(model: Classifier, card: ModelCard, evaluations: Sequence[Evaluation]) -> str:
    library, fingerprint, results = _library(), fingerprint_model(model), []
    for each in evaluations:
        if each.model_fingerprint != fingerprint:
            raise ArgumentError(f"The evaluation of {each.name} is one of other weights; evaluate this model.")
        if not each.finished or each.comparison or not was_attacked(each):
            raise ArgumentError(
                f"The evaluation of {each.name} with {each.suite} is not finished or does not measure robustness; "
                "run it again to finish it, or choose another suite, such as strict."
            )
        where = {"dataset_type": each.data, "dataset_name": each.data, "dataset_split": "test"}
        robust = f"Robust accuracy, {each.norm} {each.epsilon}, {each.suite}"
        clean = ("accuracy", "Accuracy", each.verdict.clean)
        for kind, name, rate in (clean, ("robust_accuracy", robust, each.verdict.robust)):
            metric = {"metric_type": kind, "metric_name": name, "metric_value": rate.value}
            results.append(library.EvalResult(task_type="image-classification", **where, **metric))
    settings = card.settings
    data = library.ModelCardData(
        library_name="maxmahal",
        pipeline_tag="image-classification",
        tags=["adversarial-robustness", settings.loss.name],
        model_name=f"{settings.model.backbone} with {settings.loss.name}",
        eval_results=results or None,
    )
    values = {"title": data.model_name, "card": asdict(card), "evaluations": evaluations, "version": __version__}
    return str(library.ModelCard.from_template(data, template_path=str(_TEMPLATE), **values).content)
