"""The tables of `tasks/clean.py`: one line per thing that models do to their answers.

Patterns are matched without regard to case, on text whose apostrophes are straight.
"""

from __future__ import annotations

import re

Table = tuple[re.Pattern[str], ...]


def _table(*sources: str) -> Table:
    return tuple(re.compile(source, re.IGNORECASE) for source in sources)


# --- trimmed
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff\ud800-\udfff]"
)
"""Control characters, zero-width characters and lone surrogates (which no file can hold)."""

MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[\u2028\u2029]|<br\s*/?>|</?p>", re.IGNORECASE), "\n"),
    (re.compile(r"</?(?:b|i|em|strong|u)>", re.IGNORECASE), ""),
    (re.compile(r"^\s*```\w*[ \t]*\n(.*?)(?:\n\s*```.*)?$", re.DOTALL), r"\1"),
    (re.compile(r"(?<!\*)\*\*(?=[^\s*])(.+?)(?<=[^\s*])\*\*(?!\*)", re.DOTALL), r"\1"),
    (re.compile(r"^\s*#{1,6}[ \t]+"), ""),
    (re.compile(r"^\s*title:[^\n]*\n", re.IGNORECASE), ""),
)

LEAD_INS = _table(
    r"^(?:sure|certainly|of course|absolutely|okay|ok|understood)\b[^\n:]{0,40}?[,!.:]\s*(?=here|below)",
    r"^(?:here(?:'s| is)|below is|the following is) (?:a|an|one|my|the|your|another)\b[^\n:]{0,160}:\s*",
    r"^(?:answer|output|response|review|text|sample|example|item|message|question|query)\s*\d{0,3}:\s*",
)

HEADING = re.compile(r"[\W_]{0,3}([\w' \"()/&-]{1,120}?)\s{0,2}:(?=\s|\"|$)[*\s]*")
"""Up to a colon: taken off only if all its words stand in the prompt."""

LIST_MARKER = re.compile(r"^(?:[-*\u2022\u2013]|\(?\d{1,2}[.)])\s+")
SECOND_ITEM = re.compile(r"^(1[.)]\s.*?)\n\s*2[.)]\s", re.DOTALL)

QUOTES = (('"', '"'), ("\u201c", "\u201d"), ("\u00ab", "\u00bb"))

TAILS = _table(
    r"\n\s*\W{0,3}(?:bad|good|new|better) \w[^\n:]{0,60}:",
    r"\n\s*(?:\(?note|explanation|analysis|comparison)\b[^\n:]{0,40}:",
    r"\n\s*(?:i hope this|let me know|feel free to|please let me|would you like me)\b",
    r"\n\s*this (?:new )?(?:\w+ ){1,3}(?:captures|reflects|improves|maintains|expresses|is more|differs)\b",
    r"\n\s*(?:```|---+|\*\*\*+|===+)",
)
"""What may follow an answer and does not belong to it: the text ends before the match."""

# --- refused
_SLOT = (
    "insert|your|name|title|placeholder|date|company|address|location|product|number|phone|email|actor|actress|"
    "director|character|theme|genre|city|country|year|amount|brand|bank|business|restaurant"
)
PLACEHOLDERS = (
    *_table(
        r"</?[a-z][\w /-]{0,30}>|<\|[^|>\n]{1,30}\|>",
        rf"\[[^\]\n]{{0,60}}\b(?:{_SLOT})s?\b[^\]\n]{{0,60}}\]",
        r"\((?:insert|your|name of)\b[^)\n]{0,60}\)",
        r"(?<![\w\\}^$])\{[a-z_][\w ]{2,40}\}|\{\{[^{}]*\}\}",
        r"_{3,}|\bx{4,}\b",
        r"lorem ipsum",
    ),
    re.compile(r"\[/?[A-Z][A-Z0-9_ '/-]{1,40}\]"),
)

GARBLED: Table = (
    re.compile(r"\ufffd"),
    re.compile("\u00c3[\u0080-\u00bf\u0192\u2018-\u2022]|\u00c2[\u0080-\u00bf]|\u00e2\u20ac"),
)
"""Lost characters, and text decoded with the wrong encoding."""

_CANNOT = r"(?:can'?t|cannot|can not|won't|will not|(?:am|'m) (?:unable|not able|not allowed|not comfortable))"
_PRODUCE = r"(?:provid|generat|creat|writ|produc|fulfil|comply|assist|complet|continu|engag)\w*"
_CONTENT = r"(?:a|an|the|this|that|such|any|your|you|with|content|text|in)"
_MACHINE = r"(?:(?:ai|artificial intelligence)(?: language model| model| assistant)?|language model|llm|chatbot)"
_RULES = r"(?:guidelines|policy|policies|programming)"
REFUSALS = _table(
    rf"\bas an? (?:\w+ ){{0,3}}{_MACHINE}(?:,| i\b| (?:developed|trained|created)\b|$)",
    r"\bi(?:'m| am) (?:just |only )?(?:an ai|an artificial|a (?:large )?language model|a chatbot)\b",
    rf"\bi\s?{_CANNOT} (?:to )?(?:actually |fully |directly )?{_PRODUCE} {_CONTENT}\b",
    rf"\bi\s?{_CANNOT} (?:to )?help you with\b",
    r"\bi(?:'m| am) sorry for (?:any|the) (?:confusion|misunderstanding)\b",
    r"\b(?:developed|trained|created) by (?:openai|anthropic|google|meta)\b",
    rf"\b(?:against|violates?) (?:my|the|our) (?:\w+ )?{_RULES}\b.{{0,40}}\b(?:content|generate|write|create|request)",
    r"\b(?:knowledge cutoff|my training data)\b",
)

_YOU = r"(?:you(?:'re| are) (?:asking|looking)|your (?:request|instructions?|prompt))"
META = _table(
    rf"^(?:it|there) (?:seems|looks|sounds|appears)\b.{{0,80}}\b{_YOU}",
    r"\bhow (?:can|may) i (?:assist|help) you\b",
    r"^to (?:craft|write|create|generate|compose) (?:a|an|this|such)\b",
    r"\blet's (?:create|craft|imagine|compose) (?:a|an|one)\b",
    r"\bdetails? of the [\w ]{1,40} you(?:'re| are) looking for\b",
    r"^an? (?:\w+ ){1,4}(?:in|with|expressing) (?:a )?\w+ (?:sentiment|tone) (?:typically|might|could)\b",
    r"\bthe (?:good|bad) (?:samples|examples)\b|^as requested\b",
)
"""Talk about the request instead of its result."""

LONG_RUN = re.compile(r"([^\w\s])\1{15,}|[^\w\s]{24,}")
NON_LATIN = re.compile("[^\u0000-\u024f\u1e00-\u1eff]+")
IN_BRACKETS = re.compile(r"\([^)]*\)")
SAME_WORD = re.compile(r"\b(\w+)(?:\W+\1\b){4,}", re.IGNORECASE)

# --- languages
UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my"})
"""Languages whose words are not parted by blanks."""

_COMMON = (
    "a the and of to in is it that was for with as this but on be have are not at by from an they you we he she his "
    "her their its my me i i'm i've it's don't who which what there were had has been so if or when all would can "
    "will just about out up no than them then do did does how any some after into your our because very too also "
    "only could should"
)
FUNCTION_WORDS = frozenset(_COMMON.split())
"""English words that hold sentences together."""
