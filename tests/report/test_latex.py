"""LaTeX that compiles, whatever is in the table."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from knnmt.report import Table, number, row, to_latex
from knnmt.report.latex import escape_latex

SPECIAL = r"% & _ # $ { } ~ ^ \ < > | [ ] * \" ` ' -- --- ,, ''' \\ \end{document} %"
SIGNS = "λ ± – — × † ‡ ≥ ≤ → α β σ − … ² ₁₀ 10⁻³ µ ° “K” „so“ ‘a’ « » § • ‰ € £ © √ ∞ ≈ Δ Σ ✓ ✗ \u00a0\u2009\u202f"
LETTERS = "".join(chr(code) for code in range(0xA1, 0x250))
FOREIGN = "中文 русский ελληνικά العربية हिन्दी 한국어 😀 👩‍💻 e\u0301 x\u0302 ﬁ ① \u200b\x00\x07\n\t\u2028"


def table() -> Table:
    rows = [
        row(SPECIAL, number(1.5, mark="‡", best=True), "[1]", rule=True),
        row("[a] after a row", number(-2.5), SIGNS, rule=True),
        row("* after a row", number(None), LETTERS[:200], quiet=True),
    ]
    return Table("main-bleu", f"BLEU {SPECIAL} {SIGNS} {FOREIGN}", ["", "100%", "a_b"], rows, [LETTERS, SIGNS, FOREIGN])


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"100% & a_b #1 $2 {c}", r"100\% \& a\_b \#1 \$2 \{c\}"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("λ ≥ 0.5 ± 0.1", r"$\lambda$ $\geq$ 0.5 $\pm$ 0.1"),
        ("37.1–40.6, −3", "37.1--40.6, $-$3"),
        ("a---b", "a-{}-{}-b"),
        ("Größe, e\u0301", "Größe, é"),
        ("ﬁ①", "fi1"),
        ("中", r"\texttt{U+4E2D}"),
        ("a\nb\u200b", "a b"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert escape_latex(text) == escaped


def test_rules_alignment_bold_and_italics() -> None:
    rows = [
        row("base", number(38.354), rule=True),
        row("robust", number(40.1, mark="†", best=True), rule=True),
        row("paper", number(41.0), quiet=True),
    ]
    text = to_latex(Table("main-bleu", "BLEU by K", ["system", "BLEU"], rows, ["† p < 0.05", "Two."]))
    assert text.splitlines() == [
        r"\begin{table}[htbp]",
        r"\centering",
        r"\caption{BLEU by K}",
        r"\label{tab:main-bleu}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"system & BLEU \\",
        r"\midrule",
        r"base & 38.35 \\",
        r"\midrule",
        r"robust & \textbf{40.10\rlap{\textdagger{}}} \\",
        r"\textit{paper} & \textit{41.00} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize \textdagger{} p \textless{} 0.05\par",
        "Two.",
        r"\end{minipage}",
        r"\end{table}",
    ]


def test_every_character_has_some_latex() -> None:
    for code in [*range(0x3000), *range(0x3000, sys.maxunicode + 1, 101)]:
        character = chr(code)
        escaped = escape_latex(character)
        assert escaped.isascii() or (len(escaped) == 1 and "À" <= escaped <= "ž"), f"U+{code:04X}"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_it_compiles(tmp_path: Path) -> None:
    packages = r"\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{booktabs}"
    document = f"\\documentclass{{article}}{packages}\n\\begin{{document}}\n{to_latex(table())}\\end{{document}}\n"
    (tmp_path / "page.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "page.pdf").is_file()
