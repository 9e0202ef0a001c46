"""Fine-tune a model on sentence pairs: what one would do instead of nearest-neighbour translation."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from knnmt.corpus import Pair
from knnmt.errors import FinetuneError
from knnmt.finetuning.checkpoint import Checkpoint, disk_errors, sync, write_json
from knnmt.finetuning.lora import import_peft
from knnmt.finetuning.recipe import FinetuneRecipe
from knnmt.finetuning.report import FinetuneReport
from knnmt.finetuning.sentences import Sentences
from knnmt.finetuning.trainer import Trainer
from knnmt.model import TranslationModel
from knnmt.model.loading import quiet
from knnmt.out_of_memory import memory_errors
from knnmt.progress import progress

REPORT = "finetune.json"


@memory_errors("fine-tune the model", also=", use a smaller batch")
def finetune(
    model: str | Path,
    train: Iterable[Pair],
    dev: Iterable[Pair],
    out: str | Path,
    recipe: FinetuneRecipe | None = None,
    *,
    device: str = "auto",
    source_lang: str | None = None,
    target_lang: str | None = None,
    source_prefix: str = "",
) -> FinetuneReport:
    """Fine-tune a model and save it, with the weights of the best dev loss, as a Hugging Face directory.

    Until `out` is complete, the state of the training is in a directory beside it, `<out>.unfinished`. The same call
    continues from there after an interruption, and returns the report if `out` is complete already. A run that was
    interrupted may continue with another budget, maximum of updates or patience.

    Args:
        model: directory, hub id or the name of a bundled model; it is not changed
        train, dev: sentence pairs; those longer than the model's maximum are left out
        out: directory to create; adapters are merged into its weights, so that any engine runs it
        recipe: hyperparameters and when to stop
        device: `auto`, `cpu`, `cuda`, …
        source_lang, target_lang, source_prefix: as for `TranslationModel`

    Example:
        report = finetune("Helsinki-NLP/opus-mt-de-en", Corpus(["train.de", "train.en"]),
                          Corpus(["dev.de", "dev.en"]), "tuned", FinetuneRecipe(method="lora"))
        print(report.best.nll)
    """
    began, out, recipe = time.process_time(), Path(out), recipe or FinetuneRecipe()
    if recipe.method == "lora":
        import_peft()
    base = TranslationModel.load(
        str(model), device=device, source_lang=source_lang, target_lang=target_lang, source_prefix=source_prefix
    )
    train_set = Sentences.encode(train, base.codec, "train")
    dev_set = Sentences.encode(dev, base.codec, "dev").sample(recipe.dev_tokens)
    run = _identity(base, train_set, dev_set, recipe)
    with Checkpoint(out.parent / f"{out.name}.unfinished") as checkpoint:
        report = _finished(out, run, recipe)
        if report is None:
            trainer = Trainer(base, train_set, dev_set, recipe, checkpoint, began)
            with progress(f"Fine-tuning ({recipe.method})", total=recipe.max_updates, unit="tokens") as meter:
                stopped = trainer.run(run, meter)
            report = _report(trainer, stopped, trainer.keep_best())
            _save(base, report, checkpoint.path / "model", out)
        checkpoint.finish()
    return report


def _report(trainer: Trainer, stopped: str, size: int) -> FinetuneReport:
    done, train, dev = trainer.progress, trainer.train, trainer.dev
    return FinetuneReport(
        model=trainer.model.name,
        recipe=trainer.recipe.to_json(),
        stopped=stopped,
        updates=done.updates,
        epochs=done.epoch + (done.updates > 0),
        tokens=done.tokens,
        cpu_seconds=done.cpu_seconds,
        history=done.history,
        trained_parameters=sum(each.numel() for each in trainer.trained.values()),
        bytes=size,
        train_sentences=len(train),
        dev_sentences=len(dev),
        too_long={"train": train.too_long, "dev": dev.too_long},
        run=done.run,
    )


def _identity(model: TranslationModel, train: Sentences, dev: Sentences, recipe: FinetuneRecipe) -> str:
    """Identifies what every update does; when the run ends is not part of it."""
    parts = [model.fingerprint, list(model.codec.prefix), train.digest, dev.digest, recipe.course()]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _finished(out: Path, run: str, recipe: FinetuneRecipe) -> FinetuneReport | None:
    """The report of `out` if it is the result of this run; None if there is nothing."""
    with disk_errors(out):
        if not out.exists():
            return None
        if (out / REPORT).is_file():
            values = json.loads((out / REPORT).read_text("utf-8"))
            if values["run"] == run and values["recipe"] == recipe.to_json():
                return FinetuneReport.from_json(values)
    raise FinetuneError(f"{out} exists already and is not the result of this fine-tuning; choose another directory.")


def _save(model: TranslationModel, report: FinetuneReport, new: Path, out: Path) -> None:
    """Write the directory completely, then give it its place."""
    with disk_errors(new):
        if new.exists():
            shutil.rmtree(new)
        with quiet():
            model.hf.save_pretrained(new)
        model.codec.tokenizer.save_pretrained(new)
        write_json(new / REPORT, report.to_json())
        for path in (*new.rglob("*"), new):
            sync(path)
        new.rename(out)
        sync(out.parent)
