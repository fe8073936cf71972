"""Text forms for storage and for comparison, with the standard library only."""

import re
import struct
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal


def encodable(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced.

    Neither SQLite nor Parquet can store surrogates.
    """
    if text.isascii():
        return text
    # UTF-16 writes a character beyond 16 bits as a pair of surrogates, so decoding joins them.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


MAX_MARKS = 30
"""Combining marks in a row after which a joiner is inserted (Unicode Annex 15, stream-safe text format)."""
_SHORT = 2000


def normalizable(text: str) -> str:
    """Return `text` without long runs of combining marks.

    Normalising such a run takes time quadratic in its length: a row of a few megabytes would stop a run for hours.
    """
    if len(text) <= _SHORT or text.isascii():
        return text
    parts = []
    marks = 0
    for letter in text:
        if unicodedata.combining(letter):
            marks += 1
        else:
            marks = 0
        if marks > MAX_MARKS:
            parts.append(_JOINER)
            marks = 1
        parts.append(letter)
    return "".join(parts)


_JOINER = "\N{COMBINING GRAPHEME JOINER}"


def normal_form(text: str) -> str:
    """Return the form for comparing texts: NFC, case folded, white space collapsed."""
    # Before and after: folding depends on the form, and its result need not be normal.
    folded = unicodedata.normalize(
        "NFC", unicodedata.normalize("NFC", normalizable(text)).casefold()
    )
    return " ".join(folded.split())


def plain_text(text: str) -> str:
    """Return the text in lower case, without punctuation and symbols, with single spaces."""
    letters = list(text.lower())
    for position, letter in enumerate(letters):
        if unicodedata.category(letter)[0] in "PS":
            letters[position] = " "
    return " ".join("".join(letters).split())


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""A letter of Thai, Lao, Burmese, Khmer, Japanese or Chinese, which have no blanks between words."""


def spaced(text: str) -> str:
    """Return `text` with a blank on either side of each letter of a script that has no blanks between words."""
    if text.isascii():
        return text
    return _UNSPACED.sub(r" \g<0> ", text)


_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
"""Characters without a glyph that editors and spreadsheets insert: soft hyphen, zero-width space, text directions,
byte order mark. Joiners are kept, because scripts and emoji need them."""
_BLANKS = re.compile(r"[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_JOINERS = "\u200c\u200d"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|-?[1-9](?:\.[0-9]+)?[eE][+-][0-9]{1,3}")
"""A number as a table stores it. A leading zero or plus is part of a code, such as 007; so is 12E4."""
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r" ?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def label_form(text: str) -> str:
    """Return a label or person without the differences of editors and file formats; the value is unchanged.

    The form is NFC. Outer blanks and control characters and all invisible characters are removed; inner blanks are one
    space.
    """
    plain = unicodedata.normalize("NFC", normalizable(_INVISIBLE.sub("", text)))
    start = 0
    end = len(plain)
    while start < end and _is_outer(plain[start]):
        start += 1
    while start < end and _is_outer(plain[end - 1]):
        end -= 1
    return _BLANKS.sub(" ", plain[start:end])


def cell_form(text: str) -> str:
    """Return the canonical form of a label, class or person: equal forms are one class or one person.

    It is the `label_form` of a text, and equal for all ways to store a value: 3, 3.0 and 3.00 are `3`; 1.50 is `1.5`;
    True, TRUE and true are `true`; a date with the time 00:00 is the date, and a time with a zone is in UTC. Numbers
    with leading zeros are codes, which keep them.
    """
    plain = label_form(text)
    if plain.lower() in ("true", "false"):
        return plain.lower()
    if _NUMBER.fullmatch(plain):
        return _number_form(Decimal(plain))
    if time := _TIME.fullmatch(plain):
        return _time_form(time)
    return plain


_GENERIC = frozenset(
    [
        "bucket",
        "cat",
        "category",
        "class",
        "cluster",
        "code",
        "group",
        "klasse",
        "label",
        "queue",
        "team",
        "topic",
        "type",
        "level",
        "grade",
        "score",
    ]
)
"""Words before a number in the name of a class that add nothing to it: class_17."""
_YES_NO = frozenset(["true", "false", "yes", "no", "y", "n", "ja", "nein", "oui", "non", "none"])
_LAST_OF_CYRILLIC = "\u052f"
_RUN_OF_LETTERS = re.compile(r"[^\W\d_]{3,}")


def is_code(name: str) -> bool:
    """Return True for the name of a class that says nothing to a reader: a number, a code, yes or no."""
    if name.strip().casefold() in _YES_NO:
        return True
    # One or two letters of Chinese, Korean or Arabic are a word.
    if any(letter.isalpha() and letter > _LAST_OF_CYRILLIC for letter in name):
        return False
    words = _RUN_OF_LETTERS.findall(name.casefold())
    return _GENERIC.issuperset(words)


def class_order(names: Iterable[str]) -> list[str]:
    """Return the names of classes in order: numbers by their value, then all others by their letters."""
    return sorted(names, key=_place_of_name)


def _place_of_name(name: str) -> tuple[bool, Decimal, str]:
    is_number = _NUMBER.fullmatch(name) is not None
    value = Decimal(0)
    if is_number:
        value = Decimal(name)
    return not is_number, value, name


def _is_outer(letter: str) -> bool:
    return letter.isspace() or letter in _JOINERS or unicodedata.category(letter) == "Cc"


def _number_form(number: Decimal) -> str:
    """Return the shortest decimal digits of a number, without an exponent."""
    if number != number.to_integral_value():
        number = _as_stored_in_32_bits(number)
    plain = f"{number:f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    if plain == "-0":
        return "0"
    return plain


def _as_stored_in_32_bits(number: Decimal) -> Decimal:
    """Return 1.1 for 1.100000023841858, the double of a 1.1 that was stored in 32 bits; other numbers unchanged."""
    value = float(number)
    if Decimal(repr(value)) != number or abs(value) > _MAX_FLOAT or _in_32_bits(value) != value:
        return number
    shortest = (f"{value:.{digits}g}" for digits in range(1, 10))
    return Decimal(next(text for text in shortest if _in_32_bits(float(text)) == value))


_MAX_FLOAT = 3e38


def _in_32_bits(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _time_form(time: re.Match[str]) -> str:
    """Return a time with seconds, a zero time as the date; the text unchanged if there is no such time."""
    day, minute, second, fraction, zone = time.groups(default="")
    try:
        moment = datetime.fromisoformat(f"{day} {minute}:{second or '00'}{zone}")
        if zone:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return time.string
    fraction = fraction.rstrip("0")
    if not zone and not fraction and moment.time() == datetime.min.time():
        return day
    form = moment.replace(tzinfo=None).isoformat(" ", "seconds")
    if fraction:  # as digits: `datetime` has only six of them
        form += f".{fraction}"
    if zone:
        form += "+00:00"
    return form


MAX_NAME_LENGTH = 200
"""Longest name of a class, in characters: every prompt, table and chart contains it."""


def check_class_name(name: str) -> str:
    """Return the name of a class; ValueError for one that prompts and tables cannot show in one line."""
    if not label_form(name):
        raise ValueError(f"the class {name!r} has no visible character. Write a name")
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name):
        raise ValueError(
            f"the class {name!r} contains a line break or another control character. Remove it"
        )
    return name


def is_class_name(text: str) -> bool:
    """Return True if a label can be the name of a class."""
    try:
        return len(check_class_name(text)) <= MAX_NAME_LENGTH
    except ValueError:
        return False
