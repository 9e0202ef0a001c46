import shlex
from pathlib import Path

from knnmt.shell import command


def test_a_shell_reads_what_was_meant() -> None:
    words = ["fit", Path("/my stores/it's $HOME; `rm`"), "DEV", "--method", "vanilla"]
    assert shlex.split(command(*words)) == ["knnmt", *map(str, words)]
    assert command("fit", Path("memory"), "DEV") == "knnmt fit memory DEV"


def test_a_path_is_no_option() -> None:
    assert command("info", Path("-x"), "--json") == "knnmt info ./-x --json"
