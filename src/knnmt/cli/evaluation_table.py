"""The table of an evaluation, for `knnmt evaluate` and the demo."""

from typing import Any

from rich.table import Table

from knnmt.cli.console import note, out


def show_evaluation(result: dict[str, Any], signatures: bool = True) -> None:
    """Print one row per system, from `Evaluation.to_json`."""
    systems, significance = result["systems"], result["significance"]
    comet = any(system["comet"] is not None for system in systems.values())
    unseen = any(system["bleu_unseen"] is not None for system in systems.values())
    columns = ["BLEU", "95% CI", "p", "BP", "chrF", "NLL", "gold in K", "mean λ", "tokens/s"]
    columns += ["COMET"] * comet + ["BLEU unseen"] * unseen
    table = Table(
        title=f"{result['sentences']:,} test sentences; p: paired bootstrap against {significance['baseline']}"
    )
    table.add_column("system", style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    for name, system in systems.items():
        cells = [
            f"{system['bleu']:.2f}",
            f"{system['bleu_ci'][0]:.1f}–{system['bleu_ci'][1]:.1f}",
            f"{significance[name]['bleu_p']:.3f}" if name in significance else "",
            f"{system['brevity_penalty']:.3f}",
            f"{system['chrf']:.1f}",
            f"{system['nll']:.3f}",
            "" if system["gold_in_k"] is None else f"{system['gold_in_k']:.1%}",
            "" if system["mean_lambda"] is None else f"{system['mean_lambda']:.2f}",
            f"{system['tokens_per_second']:,.0f}",
        ]
        cells += [f"{system['comet']:.4f}"] if comet else []
        cells += [f"{system['bleu_unseen']:.2f}"] if unseen else []
        table.add_row(name, *cells)
    out.print(table)
    if result["leaked"]:
        note(f"warning: {result['leaked']:,} test sentences are in the store; “unseen” leaves them out.")
    if result["skipped"]:
        note(
            f"warning: {result['skipped']:,} test sentences are longer than the model takes: cut, and not in NLL and λ."
        )
    for signature in result["signature"].values() if signatures else ():
        out.print(signature, style="dim", markup=False, soft_wrap=True)
