"""Numbers of things and durations as text."""

_SHORT = 10
_MINUTE = 60
_HOUR = 3600


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which gets an s unless the number is 1."""
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"


def duration(seconds: float) -> str:
    """Return a duration in s, min or h, to the whole second from ten seconds on."""
    if seconds < _SHORT:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min {seconds % _MINUTE} s"
    return f"{seconds // _HOUR} h {seconds % _HOUR // _MINUTE} min"
