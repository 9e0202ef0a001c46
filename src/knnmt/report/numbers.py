"""Numbers as text, the same way in tables and on axes."""


def shown(value: float, spec: str) -> str:
    """The number in this format, with a real minus sign, and without one on a zero."""
    text = format(value, spec)
    if not any(digit in text for digit in "123456789"):
        text = format(0.0 if isinstance(value, float) else 0, spec)
    return text.replace("-", "−")
