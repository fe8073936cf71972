"""Patterns of `tasks/writing/cleaning.py`: one line for each habit of models.

Patterns ignore case and are matched on text with straight apostrophes.
"""

import re

Table = tuple[re.Pattern[str], ...]


def _table(*sources: str) -> Table:
    return tuple(re.compile(source, re.IGNORECASE) for source in sources)


# --- trimmed
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff\ud800-\udfff]"
)
"""Control characters, zero-width characters and lone surrogates (which no file can contain)."""

FENCE = re.compile(r"^\s*```\w*[ \t]*\n(.*?)(?:\n\s*```.*)?$", re.DOTALL)

# In this order: fences and titles are found by line feeds, which the first pattern restores.
MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[\u2028\u2029]|<br\s*/?>|</?p>", re.IGNORECASE), "\n"),
    (re.compile(r"</?(?:b|i|em|strong|u)>", re.IGNORECASE), ""),
    (FENCE, r"\1"),
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
"""Text up to a colon: removed only if all its words occur in the prompt."""

LIST_MARKER = re.compile(r"^(?:[-*\u2022\u2013]|\(?\d{1,2}[.)])\s+")

# No single quotes: an apostrophe would close them.
QUOTES = (('"', '"'), ("\u201c", "\u201d"), ("\u00ab", "\u00bb"))

RULE = re.compile(r"\n\s*(?:```|---+|\*\*\*+|===+)")
"""A line of dashes, stars or a fence: before a remark, or between the parts of a document."""

TAILS = (
    *_table(
        r"\n\s*\W{0,3}(?:bad|good|new|better) \w[^\n:]{0,60}:",
        r"\n\s*(?:\(?note|explanation|analysis|comparison)\b[^\n:]{0,40}:",
        r"\n\s*(?:i hope this|let me know|feel free to|please let me|would you like me)\b",
        r"\n\s*this (?:new )?(?:\w+ ){1,3}(?:captures|reflects|improves|maintains|expresses|is more|differs)\b",
    ),
    RULE,
    *_table(
        r"\n\s*\W{0,3}(?:category|class|label|sentiment)\W{0,3}:",
        r"\n\s*#{2,}\s*(?:instruction|input|response|human|assistant|user)\b",
    ),
)
"""Text that may follow a completion and is not part of it: the text ends before the match."""

# --- refused
_TAG = r"(?:a|article|body|code|div|em|h[1-6]|head|html|img|li|main|ol|pre|script|section|span|style|table|td|th|tr|ul)"

LEAD_INS_OF_CODE = LEAD_INS[:2]
"""Without a bare `text:`, which may be a key of the code."""

FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
"""A block of code, with text around it."""

FORMATS: tuple[tuple[frozenset[str], re.Pattern[str]], ...] = (
    (
        frozenset({"json"}),
        re.compile(
            r"^\s*(?:json\s+)?(?:\{\s*(?:[\"'{}\\\u201c]|[A-Za-z_]+\s*:)|\[\s*[\[{\"'\u201c]|\"[\w -]{1,30}\"\s*:)|"
            r"\"\s*[}\]]+\s*$|\",\s*\"[\w -]{1,30}\"\s*:",
            re.IGNORECASE,
        ),
    ),
    (
        frozenset({"html", "xml"}),
        re.compile(
            rf"^\s*<(?:!doctype|\?xml|!--)|&lt;/?\w+&gt;|<{_TAG}(?:\s[^<>]*)?/?>|^\s*<([a-z][\w-]*)[^<>]*>.*</\1\s*>",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        frozenset({"table", "markdown", "csv"}),
        re.compile(
            r"^\s*\|[^\n]+\|[ \t]*\n\s*\|[\s:|-]+\||\A\w+(?:[,;\t]\w+)+[ \t]*\n[^\n]*[,;\t]",
            re.MULTILINE,
        ),
    ),
    (
        frozenset({"code", "latex", "program", "python", "script", "sql"}),
        re.compile(
            r"```|^(?:from \w[\w.]* import \w|import \w[\w.]*(?: as \w+)?\s*$|def \w+\(|class \w+[(:]|#include\b|"
            r"function \w*\(|(?:const|let|var) \w+ ?=|(?:public|private|static) (?:static |class |void )|"
            r"SELECT\b[^\n]{1,200}\bFROM \w|print\(|<\?php|#!/|\\(?:documentclass|begin|section)\b)",
            re.MULTILINE,
        ),
    ),
)
"""Data, pages and code, each with the words of a prompt that ask for it."""

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
"""Lost characters, and text that was decoded with the wrong encoding."""

_CANNOT = r"(?:can'?t|cannot|can not|won't|will not|(?:am|'m) (?:unable|not able|not allowed|not comfortable))"
_PRODUCE = r"(?:provid|generat|creat|writ|produc|fulfil|comply|assist|complet|continu|engag)\w*"
_CONTENT = r"(?:a|an|the|this|that|such|any|your|you|with|content|text|in)"
_MACHINE = r"(?:(?:ai|artificial intelligence)(?: language model| model| assistant)?|language model|llm|chatbot)"
_RULES = r"(?:guidelines|policy|policies|programming)"
_SORRY = (
    r"^\W{0,3}(?:(?:(?:i'm|i am|we're|we are) )?(?:(?:very|so|really|truly|deeply) )?(?:sorry|afraid)|"
    r"(?:i |we |my )?(?:sincere(?:ly|st)? )?apolog(?:y|ies|i[sz]e)|unfortunately|regret(?:fully|tably)|"
    r"thank you|thanks)\b[^.!?\n]{0,40}?[\s,.:;!-]+(?:but |that |however,? )?"
)
"""An apology at the start of a completion; the text after it decides, because customers apologise as well."""

_BEGIN = rf"(?:^\W{{0,3}}(?:no, )?|{_SORRY})"
_DECLINE = (
    r"(?:i|we) ?(?:can't|cannot|can not|could not|couldn't|(?:won't|will not|would not)(?: be able)?|"
    r"(?:am|are|'m|'re) (?:\w+ )?(?:unable|not able)|must decline|have to decline|(?:do not|don't) feel comfortable)"
)
_WISH = r"(?:requests?|tasks?|questions?|prompts?|quer(?:y|ies)|instructions?|demands?|topics?|inquir(?:y|ies))"
_THAT = rf"(?:(?:that|this|it|these|those)(?:\s*[.!;,]|\s*$| {_WISH}\b)|(?:your|the|such an?) (?:\w+ )?{_WISH}\b)"
_DE_SORRY = (
    r"^\W{0,3}(?:(?:es )?tut mir (?:sehr )?leid|leider|entschuldigung|entschuldigen sie|verzeihung|ich bedaure)"
    r"\b[^.!?\n]{0,20}?[\s,.:;!-]+(?:aber |doch |dass )?"
)
_DE_CAN = r"(?:ich kann|kann ich)"
_DE_HELP = r"(?:weiter|be)?(?:helfen|behilflich sein|unterst\u00fctzen|nachkommen|erf\u00fcllen|entsprechen)"
_DE_WISH = (
    r"(?:dabei|damit|hierbei|hiermit|bei (?:dieser|diesem|ihrer|deiner|ihrem|deinem) \w+|"
    r"(?:dies\w*|ihr\w{0,2}|dein\w{0,2}) (?:anfrage|bitte|wunsch|aufforderung|anliegen))"
)
_DE_MACHINE = (
    r"(?:gro\u00dfes )?(?:ki|k\u00fcnstliche intelligenz|sprachmodell|chatbot)"
    r"(?:[- ]?\w*(?:modell|assistent\w*|system))?"
)
_DE_TEXTS = r"(?:inhalte?|texte?|beispiele?|rezension(?:en)?|nachrichten?)"
_DE_WRITE = r"(?:erstellen|generieren|verfassen|schreiben|erzeugen)"
_FR_ASKED = r"(?:cette?|votre|ta) (?:demande|requ\u00eate)"
_ES_ASKED = r"(?:(?:esta|esa|su|tu) (?:solicitud|petici\u00f3n)|es[oa]|esto)\b"
_ZH_SORRY = (
    r"^\W{0,3}[\u5f88\u975e\u5e38]*(?:\u62b1\u6b49|\u5bf9\u4e0d\u8d77|\u4e0d\u597d\u610f\u601d)"
)
_ZH_CANNOT = r"\u6211(?:\u65e0\u6cd5|\u4e0d\u80fd|\u6ca1\u6cd5|\u4e0d\u4fbf)"
_ZH_HELP = r"(?:\u534f\u52a9|\u5e2e\u52a9|\u6ee1\u8db3|\u5b8c\u6210|\u56de\u7b54|\u5904\u7406)"
_ZH_ASKED = r"(?:\u8bf7\u6c42|\u8981\u6c42|\u95ee\u9898|\u5185\u5bb9)"
_ZH_BETWEEN = r"[\u60a8\u4f60\u7684\u5b8c\u6210\u8fd9\u4e2a\u8be5\u4e00]*"

_OTHER_REFUSALS = (
    rf"^\W{{0,3}}als (?:eine? )?{_DE_MACHINE}(?:,| (?:kann|bin|habe|darf|ist)\b)",
    rf"\bich bin (?:nur |lediglich )?(?:eine? )?{_DE_MACHINE}\b",
    rf"(?:^\W{{0,3}}|{_DE_SORRY}){_DE_CAN} (?:\w+ ){{0,3}}?{_DE_WISH} (?:\w+ ){{0,2}}?nicht {_DE_HELP}\b",
    rf"(?:^\W{{0,3}}|{_DE_SORRY}){_DE_CAN} (?:ihnen |dir )?nicht (?:\w+ )?{_DE_WISH} {_DE_HELP}\b",
    rf"{_DE_SORRY}{_DE_CAN} (?:ihnen |dir )?(?:da |hier |leider )*nicht (?:weiter)?helfen\s*[.!]?$",
    rf"\b{_DE_CAN} (?:leider )?keine? (?:\w+ ){{0,3}}{_DE_TEXTS} {_DE_WRITE}\b",
    r"^\W{0,3}(?:je suis|nous sommes) d\u00e9sol\u00e9e?s?,? (?:mais )?(?:je|nous) ne (?:peux|pouvons) pas "
    rf"(?:vous |t')?(?:aider|r\u00e9pondre|donner suite) (?:avec|\u00e0|dans) {_FR_ASKED}",
    r"\ben tant qu(?:e |')(?:ia|intelligence artificielle|mod\u00e8le de lang(?:age|ue))\b",
    r"^\W{0,3}lo (?:siento|lamento)(?: mucho)?,? (?:pero )?no puedo (?:ayudar|cumplir|asistir)(?:te|le|les)? con "
    rf"{_ES_ASKED}",
    r"\bcomo (?:una? )?(?:ia|inteligencia artificial|modelo de lenguaje)\b,",
    r"^\W{0,3}mi dispiace,? (?:ma )?non posso (?:aiutar|assister)(?:e|ti|la|vi) (?:con|in) (?:quest[oa]|tale)\b",
    r"\bcome (?:ia|intelligenza artificiale|modello (?:di linguaggio|linguistico))\b,",
    rf"{_ZH_SORRY}[\uff0c,\u3002\s]*{_ZH_CANNOT}{_ZH_HELP}?{_ZH_BETWEEN}{_ZH_ASKED}",
    r"\u4f5c\u4e3a(?:\u4e00[\u4e2a\u540d])?(?:ai|\u4eba\u5de5\u667a\u80fd|\u5927?\u8bed\u8a00\u6a21\u578b)",
)
"""Refusals in German, French, Spanish, Italian and Chinese."""

REFUSALS = _table(
    rf"{_BEGIN}{_DECLINE} (?:to )?(?:help|assist|support)(?: you)?(?: (?:with|on|in)) {_THAT}",
    rf"{_BEGIN}{_DECLINE} (?:to )?(?:do|answer|fulfil|fulfill|process|honou?r|comply with|respond to) {_THAT}",
    rf"{_SORRY}{_DECLINE} (?:to )?(?:help|assist)(?: you)?(?: further)?\s*[.!]?$",
    *_OTHER_REFUSALS,
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
_OPENER = r"(?:okay|ok|alright|hmm|right|well|so|got it)[,.!]? "
_WISHES = r"asks|asked|has asked|is asking|needs|requests|requested|wants|wanted|would like"
OFFERS = _table(r"\bhow (?:can|may) i (?:assist|help) you\b")
"""An offer of help, which is also the first turn of many dialogues."""

META = _table(
    rf"^(?:it|there) (?:seems|looks|sounds|appears)\b.{{0,80}}\b{_YOU}",
    r"^to (?:craft|write|create|generate|compose) (?:a|an|this|such)\b",
    r"\blet's (?:create|craft|imagine|compose) (?:a|an|one)\b",
    r"\bdetails? of the [\w ]{1,40} you(?:'re| are) looking for\b",
    r"^an? (?:\w+ ){1,4}(?:in|with|expressing) (?:a )?\w+ (?:sentiment|tone) (?:typically|might|could)\b",
    r"\bthe (?:good|bad) (?:samples|examples)\b|^as requested\b",
    rf"^{_OPENER}(?:so )?the user (?:{_WISHES})",
    rf"^the user (?:{_WISHES})\b.{{0,300}}?\b(?:let me|i(?:'ll| will| should| must| need to))\b",
    rf"^(?:{_OPENER}(?:so )?(?:i|we) (?:need|have|should|must)|we need) (?:to )?{_PRODUCE}\b",
    r"^i need to (?:come up with|craft|create|generate|produce) (?:an?|one|the)\b",
    rf"^(?:{_OPENER})?let(?:'s| me| us) (?:think about|brainstorm|craft|draft|generate|plan|produce)\b",
    r"^first,? (?:i|we|let me|let's) (?:(?:need to|should|have to|must|will) )?(?:analy[sz]e|consider|think about)\b",
    r"^the (?:instruction|prompt|request|task) (?:asks|is|requires|says|wants)\b",
    r"^(?:chain of thought|reasoning|thinking process|thought process|thoughts?)\s*:",
    r"^(?:okay|ok|also|gut|bon|bueno|vale|allora)[,.]? (?:der (?:be)?nutzer|l'utilisateur|el usuario|l'utente)\b",
    r"^(?:\u597d\u7684|\u55ef|\u9996\u5148)?[\uff0c,\s]*\u7528\u6237(?:\u8981\u6c42|\u60f3\u8981|\u5e0c\u671b|\u8ba9\u6211)",
)
"""Comments on the request instead of its result, and planning aloud."""

LONG_RUN = re.compile(r"([^\w\s])\1{15,}|[^\w\s]{24,}")
NON_LATIN = re.compile("[^\u0000-\u024f\u1e00-\u1eff]+")
IN_BRACKETS = re.compile(r"\([^)]*\)")
SAME_WORD = re.compile(r"\b(\w+)(?:\W+\1\b){4,}", re.IGNORECASE)

# --- languages
UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my"})
"""Languages that do not separate words by blanks."""

_COMMON = (
    "a the and of to in is it that was for with as this but on be have are not at by from an they you we he she his "
    "her their its my me i i'm i've it's don't who which what there were had has been so if or when all would can "
    "will just about out up no than them then do did does how any some after into your our because very too also "
    "only could should"
)
FUNCTION_WORDS = frozenset(_COMMON.split())
"""English words with a grammatical function."""
