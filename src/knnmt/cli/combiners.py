"""`knnmt use` and `knnmt forget`"""

from typing import Annotated

import typer

from knnmt.cli import options
from knnmt.cli.console import note, print_json

Name = Annotated[str, typer.Argument(metavar="NAME", help="A fitted combiner's name.", show_default=False)]


def use(
    store: options.Store,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A fitted combiner's name, or base; auto: the best fitted one again.",
            show_default=False,
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Choose the combiner that is used when none is named.

    Example: `knnmt use memory adaptive`
    """
    from knnmt.methods import default_of
    from knnmt.workflow import use as run

    default = default_of(run(store, name))
    if as_json:
        print_json({"default": {"name": default.name, "why": default.why}})
    else:
        note(f"{store} is now used with {default.name}: {default.why}.")


def forget(store: options.Store, name: Name, as_json: options.Json = False) -> None:
    """Remove a fitted combiner from a store.

    Example: `knnmt forget memory my-ablation`
    """
    from knnmt.methods import default_of
    from knnmt.workflow import forget as run

    left = run(store, name)
    if as_json:
        print_json({"forgotten": name, "default": default_of(left).name})
    else:
        note(f"{name} is removed; {store} is now used with {default_of(left).name}.")
