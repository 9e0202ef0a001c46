"""Options that several commands share, spelled and explained once."""

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
    typer.Argument(metavar="CORPUS...", help=f"{_FILES} None: only the index is rebuilt.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Take the pairs whatever their languages and order seem to be.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else there.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N lines.", show_default=False)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:0.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Directory, hub id or the bundled de-en-small; an existing store knows its own.", show_default=False
    ),
]
Moved = Annotated[
    str | None, typer.Option("--model", help="Where the store's model is now, if it was moved.", show_default=False)
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; all cores by default.", show_default=False)]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept for each sentence.")]
LengthPenalty = Annotated[float, typer.Option(help="Scores are divided by length to this power.")]
MaxLength = Annotated[
    int | None,
    typer.Option(min=1, help="Most tokens of a translation; 1.2 × source + 10 by default.", show_default=False),
]
Engine = Annotated[str, typer.Option(help="Runs the model: onnx, torch, generate (transformers' own); auto: quickest.")]
ModelEngine = Annotated[str, typer.Option("--engine", help="Runs the model: onnx or torch; auto: quickest.")]
SkipAbove = Annotated[
    float, typer.Option(help="Do not search where the model gives a token more than this; 1: always search.")
]
InMemory = Annotated[
    bool | None,
    typer.Option(
        "--in-memory/--mapped",
        help="Hold the index in memory, which is quicker, or map its file; held where it fits by default.",
        show_default=False,
    ),
]
Precision = Annotated[str, typer.Option(help="float32, or int8, which only onnx knows; auto: the store's own.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences decoded together; changes speed, not translations.")]
SourceLang = Annotated[
    str | None, typer.Option(help="For models that do not say it, as they spell it.", show_default=False)
]
TargetLang = SourceLang
SourcePrefix = Annotated[str | None, typer.Option(help="Put before every source (T5).", show_default=False)]
