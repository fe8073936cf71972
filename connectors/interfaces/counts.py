"""Numbers of things as text."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which gets an s unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
