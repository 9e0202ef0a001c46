"""`knnmt verify`"""

import typer

from knnmt.cli import options
from knnmt.cli.console import note, out, print_json


def verify(store: options.Store, as_json: options.Json = False) -> None:
    """Read every byte of a store and compare it with the checksums; the exit code is 2 if something is damaged.

    Example: `knnmt verify memory`
    """
    from knnmt.workflow import verify as run

    problems = run(store)
    if as_json:
        print_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems:
            out.print(problem, markup=False, soft_wrap=True)
        note(f"{store} is not sound, or could not be read." if problems else f"{store} is sound.")
    if problems:
        raise typer.Exit(2)
