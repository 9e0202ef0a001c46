"""The `knnmt` command."""

import errno
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from knnmt.allocator import tune_allocator
from knnmt.cli.build import build
from knnmt.cli.combiners import forget, use
from knnmt.cli.console import note, show_log
from knnmt.cli.demo import demo
from knnmt.cli.evaluate import evaluate
from knnmt.cli.fit import fit, fit_command
from knnmt.cli.info import info
from knnmt.cli.study import study
from knnmt.cli.translate import translate
from knnmt.cli.verify import verify
from knnmt.errors import KnnmtError, NotEnoughMemory
from knnmt.out_of_memory import is_out_of_memory, not_enough_memory
from knnmt.progress import show_progress


class _Commands(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the methods, whose options `fit` has, only for `fit`."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, fit_command() if name == fit.__name__ else command, rest


app = typer.Typer(
    cls=_Commands,
    name="knnmt",
    help="Teach a translation model your domain from your translation memory, without fine-tuning it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_NO_MEMORY = str(not_enough_memory("finish this command", also=", use a smaller --batch-size, --beam or model"))
_INTERRUPTED = 130  # typer's exit code after Ctrl-C

for command in (demo, build, fit, translate, evaluate, info, use, forget, verify, study):
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        import knnmt

        print(knnmt.__version__)
        raise typer.Exit


def run() -> None:
    """Entry point. An error that the user can fix is reported in one sentence, with exit code 2."""
    tune_allocator()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # like the input, in every locale
    try:
        try:
            with show_progress(), show_log():
                app()
        finally:
            sys.stdout.flush()  # a failure can still be reported here
    except NotEnoughMemory as error:
        _complain(_sentence(error))
        sys.exit(2)
    except KnnmtError as error:
        _complain(_NO_MEMORY if is_out_of_memory(error) else _sentence(error))
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has closed the pipe
        _abandon_output()
        sys.exit(1)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _abandon_output()
            _complain("The disk is full, so the output is cut short; make room and run the same command again.")
        elif is_out_of_memory(error):
            _complain(_NO_MEMORY)
        else:
            raise
        sys.exit(2)
    except SystemExit as ending:
        if ending.code == _INTERRUPTED:
            note(
                "knnmt: Interrupted; what was finished is kept. Run it again: a build goes on from its last finished "
                "block, a study from its last finished step."
            )
        raise


def _complain(sentence: str) -> None:
    try:
        note(f"knnmt: {sentence}")
    except MemoryError:
        os.write(2, f"knnmt: {sentence}\n".encode())


def _sentence(error: KnnmtError) -> str:
    """The message with a full stop and a capital letter, unless it begins with something the user typed."""
    text = str(error)
    if not text.startswith(tuple(str(Path(argument)) for argument in sys.argv[1:])):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def _abandon_output() -> None:
    """Drop the unwritten output, so that the interpreter does not fail when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    if category is UserWarning:
        note(f"warning: {message}")
