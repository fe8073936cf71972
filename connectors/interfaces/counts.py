"""Numbers of things, bytes and durations as text."""

_SHORT = 10
_MINUTE = 60
_HOUR = 3600
_KILOBYTE = 10**3
_MEGABYTE = 10**6
_GIGABYTE = 10**9


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which gets an s unless the number is 1."""
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"


def sized(number: float) -> str:
    """Return a number of bytes in kB, MB or GB."""
    if number < _MEGABYTE:
        return f"{number / _KILOBYTE:.0f} kB"
    if number < _GIGABYTE:
        return f"{number / _MEGABYTE:.1f} MB"
    return f"{number / _GIGABYTE:.1f} GB"


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
