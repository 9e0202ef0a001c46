"""Tables as LaTeX that pdflatex compiles with T1 fonts and the booktabs package, whatever characters they contain."""

import unicodedata

from knnmt.report.tables import Cell, Row, Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # at the start of a row, "[" and "*" would belong to the "\\" before it
    "*": "{*}",
}
_SIGNS = {
    "–": "--",
    "—": "---",
    "‑": "-",
    "…": r"\ldots{}",
    "‘": "`",
    "’": "'",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "„": r"\quotedblbase{}",
    "«": r"\guillemotleft{}",
    "»": r"\guillemotright{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "•": r"\textbullet{}",
    "‰": r"\textperthousand{}",
    "©": r"\copyright{}",
    "€": r"\texteuro{}",
    "£": r"\pounds{}",
    "\u00a0": "~",
    "\u202f": r"\,",
    "\u2009": r"\,",
}
_MATHS = {
    "±": r"\pm",
    "−": "-",
    "×": r"\times",
    "÷": r"\div",
    "·": r"\cdot",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "∞": r"\infty",
    "∈": r"\in",
    "∑": r"\sum",
    "√": r"\surd",
    "∅": r"\emptyset",
    "→": r"\rightarrow",
    "←": r"\leftarrow",
    "↔": r"\leftrightarrow",
    "⇒": r"\Rightarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "Δ": r"\Delta",
    "∆": r"\Delta",
    "°": r"^{\circ}",
    "✓": r"\surd",
    "✗": r"\times",
    "ℓ": r"\ell",
    "µ": r"\mu",
    "ς": r"\varsigma",
    "ο": "o",
}
_GREEK = "αβγδεζηθικλμνξπρστυφχψωΓΘΛΞΠΣΥΦΨΩ"
_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Gamma Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_MATHS |= {letter: rf"\{name}" for letter, name in zip(_GREEK, _GREEK_NAMES.split(), strict=True)}
_MATHS |= {sign: f"^{{{digit}}}" for sign, digit in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True)}
_MATHS |= {sign: f"_{{{digit}}}" for sign, digit in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)}
_NOT_IN_T1 = set("ĦħĸĿŀŉŦŧſ")
_LIGATURES = ("--", "''", ",,")


def to_latex(table: Table) -> str:
    """A complete `table` environment; the document needs `booktabs`, and `fontenc` with the option T1.

    Numbers are aligned to the right, the best are bold, quiet rows are in italics.
    """
    alignment = "".join("r" if numeric else "l" for numeric in table.numeric())
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        " & ".join(escape_latex(column) for column in table.columns) + r" \\",
        r"\midrule",
    ]
    for number, row in enumerate(table.rows):
        if row.rule and number > 0:  # the first row has the line below the column titles
            lines.append(r"\midrule")
        lines.append(_row(row))
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        notes = "\\par\n".join(escape_latex(note) for note in table.notes)
        lines += [r"\par\smallskip", rf"\begin{{minipage}}{{\linewidth}}\footnotesize {notes}", r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """The same text for LaTeX; a character that its fonts lack becomes its code, such as U+4E2D."""
    for pair in _LIGATURES:  # twice, for three in a row
        text = text.replace(pair, "\0".join(pair)).replace(pair, "\0".join(pair))
    return "".join(
        "{}" if character == "\0" else _character(character) for character in unicodedata.normalize("NFC", text)
    )


def _row(row: Row) -> str:
    return " & ".join(_cell(cell, row.quiet) for cell in row.cells) + r" \\"


def _cell(cell: Cell, quiet: bool) -> str:
    text = escape_latex(cell.figure)
    if cell.mark:
        text += rf"\rlap{{{escape_latex(cell.mark)}}}"
    if cell.best:
        text = rf"\textbf{{{text}}}"
    return rf"\textit{{{text}}}" if quiet else text


def _character(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character in _SIGNS:
        return _SIGNS[character]
    if character in _MATHS:
        return f"${_MATHS[character]}$"
    if character.isspace():
        return " "
    if character.isascii() and character.isprintable():
        return character
    if "À" <= character <= "ž" and character not in _NOT_IN_T1:
        return character
    if unicodedata.category(character) in ("Cf", "Cc"):  # invisible
        return ""
    plain = unicodedata.normalize("NFKD", character)
    plain = "".join(part for part in plain if not unicodedata.combining(part))
    if plain and plain.isascii() and plain.isprintable():
        return "".join(_character(part) for part in plain)
    return rf"\texttt{{U+{ord(character):04X}}}"
