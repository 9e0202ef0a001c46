"""Fine-tune a model on sentence pairs: what one would do instead of nearest-neighbour translation."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from knnmt.corpus import Pair
from knnmt.errors import FinetuneError
from knnmt.finetuning.checkpoint import Checkpoint, disk_errors, write_json
from knnmt.finetuning.lora import add_adapters, check_peft, merge_adapters
from knnmt.finetuning.recipe import FinetuneRecipe
from knnmt.finetuning.report import FinetuneReport
from knnmt.finetuning.sentences import Sentences
from knnmt.finetuning.trainer import Clock, Trainer, trainable
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
    continues from there after an interruption, and returns the report if `out` is complete already.

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
    clock, out, recipe = Clock(), Path(out), recipe or FinetuneRecipe()
    if recipe.method == "lora":
        check_peft()
    base = TranslationModel.load(
        str(model), device=device, source_lang=source_lang, target_lang=target_lang, source_prefix=source_prefix
    )
    sentences = {"train": Sentences(train, base.codec, "train"), "dev": Sentences(dev, base.codec, "dev")}
    run = _identity(base, sentences, recipe)
    if finished := _finished(out, run):
        return finished
    checkpoint = Checkpoint(out.with_name(out.name + ".unfinished"))
    wrapper = add_adapters(base.hf, recipe) if recipe.method == "lora" else None
    trained = trainable(base.hf)
    trainer = Trainer(base, trained, sentences["train"], sentences["dev"], recipe, checkpoint, clock)
    with progress(f"Fine-tuning ({recipe.method})", total=recipe.max_updates, unit="tokens") as meter:
        stopped = trainer.run(run, meter)
    done = trainer.progress
    checkpoint.load_best(trained)
    report = FinetuneReport(
        model=base.name,
        recipe=recipe.to_json(),
        stopped=stopped,
        updates=done.updates,
        epochs=done.epoch + (done.updates > 0),
        tokens=done.tokens,
        cpu_seconds=done.cpu_seconds,
        wall_seconds=done.wall_seconds,
        history=done.history,
        trained_parameters=sum(each.numel() for each in trained.values()),
        bytes=checkpoint.best_bytes,
        train_sentences=len(sentences["train"]),
        dev_sentences=len(sentences["dev"]),
        too_long={name: each.too_long for name, each in sentences.items()},
        run=run,
    )
    if wrapper is not None:
        merge_adapters(wrapper)
    _save(base, out, report)
    checkpoint.remove()
    return report


def _identity(model: TranslationModel, sentences: dict[str, Sentences], recipe: FinetuneRecipe) -> str:
    """Identifies what every update does; when the run ends is not part of it."""
    parts = [model.fingerprint, *(each.digest for each in sentences.values()), recipe.course()]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _finished(out: Path, run: str) -> FinetuneReport | None:
    """The report of `out` if it is the result of this run."""
    if not out.exists():
        return None
    if (out / REPORT).is_file():
        with disk_errors(out):
            report = FinetuneReport.from_json(json.loads((out / REPORT).read_text("utf-8")))
        if report.run == run:
            return report
    raise FinetuneError(f"{out} exists already and is not the result of this fine-tuning; choose another directory.")


def _save(model: TranslationModel, out: Path, report: FinetuneReport) -> None:
    """Write the directory completely, then give it its name."""
    new = out.with_name(out.name + ".new")
    with disk_errors(new):
        if new.exists():
            shutil.rmtree(new)
        model.hf.eval()
        with quiet():
            model.hf.save_pretrained(new)
        model.codec.tokenizer.save_pretrained(new)
        write_json(new / REPORT, report.to_json())
        new.rename(out)
