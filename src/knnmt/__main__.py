"""`python -m knnmt`: the same as the `knnmt` command."""

from knnmt.cli.main import run

run()
