"""The `knnmt` command."""

import os
import sys
import warnings

import typer

from knnmt.allocator import tune_allocator
from knnmt.cli.build import build
from knnmt.cli.console import note
from knnmt.cli.evaluate import evaluate
from knnmt.cli.fit import fit
from knnmt.cli.info import info
from knnmt.cli.translate import translate
from knnmt.errors import KnnmtError

app = typer.Typer(
    name="knnmt",
    help="Teach a translation model your domain from your translation memory, without fine-tuning it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (build, fit, translate, evaluate, info):
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        import knnmt

        print(knnmt.__version__)
        raise typer.Exit


def run() -> None:
    """Entry point: what the user can mend is one sentence and exit code 2."""
    tune_allocator()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app()
    except KnnmtError as error:
        note(f"knnmt: {error}")
        sys.exit(2)
    except BrokenPipeError:
        # whoever read our output has seen enough; the interpreter must not complain when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        note("knnmt: interrupted; what was committed before is kept")
        sys.exit(130)


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    if category is UserWarning:
        note(f"warning: {message}")
