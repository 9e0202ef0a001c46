"""Options that several commands share, defined once."""

from pathlib import Path
from typing import Annotated

import typer

Store = Annotated[Path, typer.Argument(metavar="STORE", help="The store's directory.", show_default=False)]
_FILES = (
    "Plain text files in pairs, source first (dev.{de,en} in a shell); .tsv, .jsonl, .tmx, .po or .mo alone; "
    ".gz of any; a directory or wheel of catalogues."
)
Corpus = Annotated[list[Path], typer.Argument(metavar="CORPUS...", help=_FILES, show_default=False)]
OptionalCorpus = Annotated[
    list[Path] | None,
    typer.Argument(metavar="CORPUS...", help=f"{_FILES} Without any, only the index is rebuilt.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Do not check the languages and the order of the pairs.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N lines.", show_default=False)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:0.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Directory, hub id or the bundled de-en-small; not needed for an existing store.", show_default=False
    ),
]
Moved = Annotated[
    str | None, typer.Option("--model", help="The new path of the store's model, if it was moved.", show_default=False)
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; all cores by default.", show_default=False)]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept per sentence.")]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="Scores are divided by length to this power; what was tuned, or 0.6.", show_default=False),
]
MaxLength = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum tokens of a translation; 1.2 × source + 10 by default.", show_default=False),
]
Engine = Annotated[str, typer.Option(help="Runs the model: onnx, torch, generate (transformers' own); auto: fastest.")]
ModelEngine = Annotated[str, typer.Option("--engine", help="Runs the model: onnx or torch; auto: fastest.")]
SkipAbove = Annotated[
    float, typer.Option(help="No search where the model's highest probability is above this; 1: always search.")
]
InMemory = Annotated[
    bool | None,
    typer.Option(
        "--in-memory/--mapped",
        help="Load the index into memory, which is faster, or map its file; by default loaded if it fits.",
        show_default=False,
    ),
]
Precision = Annotated[str, typer.Option(help="float32, or int8 (onnx only); auto: the store's own.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences decoded together; changes speed, not translations.")]
SourceLang = Annotated[
    str | None, typer.Option(help="For models that do not define it, as they spell it.", show_default=False)
]
TargetLang = SourceLang
SourcePrefix = Annotated[str | None, typer.Option(help="Put before every source (T5).", show_default=False)]
