"""Find the first of several texts in one completion.

A model that is asked for one text may answer with a list of texts. A list is taken apart only where it is the whole
completion: a text that contains a list after its first words is one text.
"""

import re
from collections.abc import Callable

MIN_WORDS = 3
"""Words of a further text; fewer are a remark or an ornament."""

MIN_BULLET_WORDS = 8
"""Words of each bullet, on average, that is a text of its own and not a part of one."""

_USUAL = (
    "answer answers draft drafts entry entries example examples item items option options output outputs response "
    "responses sample samples text texts variant variants variation variations version versions beispiel beispiele "
    "beispielen variante varianten exemple exemples texte textes ejemplo ejemplos texto textos esempio esempi testo "
    "testi exemplo exemplos voorbeeld voorbeelden"
)
_USUAL_NAMES = frozenset(_USUAL.split())
"""Names of a text in lists, in addition to the words of the prompt: `Example 2`, `Beispiel 2`."""

_ANNOUNCEMENT = re.compile(
    r"(?:\w+\b[^\n:.!]{0,30}[,.!]\s*)?(?:here are|here're|below are|these are|the following are|hier sind|"
    r"hier ein paar|nachfolgend|voici|ecco|aqu\u00ed (?:est\u00e1n|tienes|hay|van)|aqui est\u00e3o|hier zijn)\b"
    r"([^\n:]{0,160}):\s*",
    re.IGNORECASE,
)
"""`Here are five reviews:` in several languages."""

_NAME = r"^[^\w\n]{0,8}((?:[^\W\d_]+[ ]){0,3}?[^\W\d_]+)"
_NUMBERED = re.compile(
    rf"{_NAME}[ ]?(?:#|n[or]\.?[ ]?)?[(\[]?(\d{{1,2}}|[a-h])\b"
    r"(?:[)\]*_ ]*(?:[:.)\u2013\u2014-]|$)[*_ ]*|[)\]*_]+[ ]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""A name of a text with its number or letter at the start of a line: `**Note 1:**`, `### Review #2`, `Example B -`."""

_NAMED = re.compile(rf"{_NAME}[*_ ]*:[*_ ]*", re.MULTILINE)
_ORDINALS = frozenset(["first", "second", "third", "fourth", "fifth", "another", "next", "new"])

_NUMBER = re.compile(
    r"^[ \t]*(?:#[ ]?(?=\d))?[(\[]?(\d{1,2})(?:[.):\]]{1,2}|\ufe0f?\u20e3|(?<=#\d))[ \t]+",
    re.MULTILINE,
)
_BULLET = re.compile("^[ \t]*([-*+\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014])[ \t]+", re.MULTILINE)
_QUOTED = re.compile(
    r"[\"\u201c\u00ab][^\"\u201d\u00bb\n]+[\"\u201d\u00bb](\s*\n\s*)[\"\u201c\u00ab]"
)
_SEPARATOR = re.compile(r"\n\s*(?:-{3,}|\*{3,}|={3,}|_{3,}|~{3,}|(?:[*-][ ]){2}[*-])[ \t]*(?:\n|$)")
_PARAGRAPH = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\n")
_REMARK = re.compile(
    r"\W{0,3}(?:\(?note|explanation|analysis|comparison|i hope|let me know|feel free|please let|would you like|this )"
    r"\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(
    r"[.!?\u2026\u3002\uff01\uff1f\u0964\u061f][\"'\u201d\u2019\u00bb)*_]*\s*$"
)


def first_of_several(text: str, names: frozenset[str]) -> tuple[str, bool]:
    """Return the first of the texts that a completion lists, and True if it lists several.

    `names`: lower-case words that name a text of the task: for reviews, `Review 2:` begins a text.
    """
    is_named = _naming(names)
    announcement = _ANNOUNCEMENT.match(text)
    is_announced = announcement is not None and any(
        map(is_named, _WORD.findall(announcement[1].casefold()))
    )
    listed = text
    if announcement is not None and is_announced:
        listed = text[announcement.end() :]
    # From the surest sign of a list to the weakest; paragraphs are one only where a list was announced.
    texts = (
        _numbered(listed, is_named)
        or _named(listed, is_named)
        or _counted(listed)
        or _bulleted(listed, is_announced)
        or _quoted(listed)
        or _separated(listed)
        or (_paragraphs(listed) if is_announced else [])
    )
    if not texts:
        return listed, False
    return texts[0], True


def _naming(names: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that is True for a word that names a text, also with an ending of its plural."""
    # Shorter names are the beginnings of many other words.
    roots = tuple(name for name in names if len(name) >= 4)
    return lambda word: word in _USUAL_NAMES or word in names or word.startswith(roots)


def _numbered(text: str, is_named: Callable[[str], bool]) -> list[str]:
    """Return the texts under headings such as `Review 1:` and `Review 2:`; the first may have none."""
    headings = [
        heading
        for heading in _NUMBERED.finditer(text)
        if all(map(is_named, _WORD.findall(heading[1].casefold())))
    ]
    if headings and headings[0].start() == 0:
        number = headings[0][2].casefold()
        second = str(int(number) + 1) if number.isdigit() else chr(ord(number) + 1)
        for heading in headings[1:]:
            if heading[2].casefold() == second:
                return [text[headings[0].end() : heading.start()], text[heading.end() :]]
        return []
    # The first text may have no heading; that of the second shows where it ends.
    if headings and headings[0][2].casefold() in ("2", "b"):
        return [text[: headings[0].start()], text[headings[0].end() :]]
    return []


def _named(text: str, is_named: Callable[[str], bool]) -> list[str]:
    """Return the texts under repeated headings: `Review:` twice, or `First review:` and `Second review:`."""
    first = _NAMED.match(text)
    if first is None:
        return []
    name = _without_ordinals(first)
    if not name or not all(map(is_named, name)):
        return []
    for heading in _NAMED.finditer(text, first.end()):
        if _without_ordinals(heading) == name:
            return [text[first.end() : heading.start()], text[heading.end() :]]
    return []


def _without_ordinals(heading: re.Match[str]) -> list[str]:
    return [word for word in _WORD.findall(heading[1].casefold()) if word not in _ORDINALS]


def _counted(text: str) -> list[str]:
    """Return the texts of a list that begins with number 1."""
    first = _NUMBER.match(text)
    if first is None or first[1] != "1":
        return []
    for number in _NUMBER.finditer(text, first.end()):
        if number[1] == "2":
            return [text[first.end() : number.start()], text[number.end() :]]
    return []


def _bulleted(text: str, is_announced: bool) -> list[str]:
    """Return the texts of a list of bullets, if they were announced or each is a text of its own."""
    first = _BULLET.match(text)
    if first is None:
        return []
    bullets = [bullet for bullet in _BULLET.finditer(text) if bullet[1] == first[1]]
    ends = [*(bullet.start() for bullet in bullets[1:]), len(text)]
    texts = [text[bullet.end() : end].strip() for bullet, end in zip(bullets, ends, strict=True)]
    words = sum(len(_WORD.findall(entry)) for entry in texts)
    # Short bullets without full stops are the parts of one text, such as a recipe's.
    are_whole = words >= MIN_BULLET_WORDS * len(texts) and all(map(_SENTENCE_END.search, texts))
    if len(texts) > 1 and (is_announced or are_whole):
        return texts
    return []


def _quoted(text: str) -> list[str]:
    """Return the texts of a list in quotes."""
    first = _QUOTED.match(text)
    if first is None:
        return []
    return [text[: first.start(1)], text[first.end(1) :]]


def _separated(text: str) -> list[str]:
    """Return the texts between lines of dashes, stars or the like; a remark after such a line is no text."""
    texts = [entry.strip() for entry in _SEPARATOR.split(text)]
    further = [
        entry
        for entry in texts[1:]
        if len(_WORD.findall(entry)) >= MIN_WORDS and not _REMARK.match(entry)
    ]
    if texts[0] and further:
        return [texts[0], *further]
    return []


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs, or the lines of a single one."""
    for pattern in (_PARAGRAPH, _LINE):
        texts = [
            entry for entry in pattern.split(text.strip()) if len(_WORD.findall(entry)) >= MIN_WORDS
        ]
        if len(texts) > 1:
            return texts
    return []
