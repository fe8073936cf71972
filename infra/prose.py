"""Check the English of docstrings, comments, help texts and names of the product, its tests and the Makefile.

`python infra/prose.py [PATH ...]` prints one line per breach and returns 1 if there is one. A pattern may
occur in all texts of the product together up to its limit per 10,000 words, and so in those of the tests. Inline code
in backticks does not count. "Words" counts where it means a text, not where words are counted or drawn.

No variable, function or class is called by one of `NAMES`; fields of classes may have any name. Names of functions and
classes of the product contain no word of a pattern, except `EXCEPTIONS`. Names of tests are sentences: they count as
texts.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("connectors", "tasks", "flows", "deployments", "Makefile")
TESTS = "tests"
LIMITS = {
    "told, tell": (r"\b(?:told|tells?)\b", 4),
    "stand, stood": (r"\b(?:stands?|stood)\b", 2),
    "lie, lay": (r"\b(?:lies?|lay)\b", 4),
    "words, wording": (
        r"\bwordings?\b|\b(?:the|in|not|its|own|our|same|other|plain|few)\s+words\b",
        4,
    ),
    "beside": (r"\bbeside\b", 1),
    "carried, carry out": (r"\b(?:carried|carries)\b|\bcarry\s+(?:\w+\s+){0,3}out\b", 1),
    "What ... (opens a sentence)": (r"(?:\A|[.!?:]\s+|\n\s*\n\s*)(?-i:What)\b", 2),
    "ask, asked": (r"\bask(?:s|ed)?\b", 4),
    "so that": (r"\bso\s+that\b", 5),
    "whoever, whatever": (r"\b(?:whoever|whatever|whichever)\b", 5),
    "anew": (r"\banew\b", 0.5),
    "likewise": (r"\blikewise\b", 0.5),
}
OPENINGS = ("What", "How", "Whether")
NAMES = ("one", "found", "told", "place", "kept", "given", "wanted")
EXCEPTIONS = {"ask_teachers": 1}
"""Functions and classes of the product that contain a refused word, with their number: `ask_teachers` is the
name of a Prefect task."""

PRAGMA = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma)[^#]*")
CODE = re.compile(r"``?[^`\n]+``?")
DEFINED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DOCUMENTED = ast.Module | DEFINED


@dataclass(frozen=True)
class Text:
    """A text without inline code, or the words of a name; `line` is the number of its first line."""

    file: str
    line: int
    prose: str
    is_docstring: bool = False

    def lines_of(self, pattern: str) -> list[int]:
        """Return the line number of each match."""
        matches = re.finditer(pattern, self.prose, re.IGNORECASE)
        return [self.line + self.prose.count("\n", 0, match.end()) for match in matches]


def docstrings(file: str, tree: ast.AST) -> Iterator[Text]:
    """Yield all docstrings, and the strings below fields and constants."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if isinstance(node, DOCUMENTED) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(file, value.lineno, CODE.sub("code", value.value), True)


def comments(file: str, source: str) -> Iterator[Text]:
    """Yield comments; those on consecutive lines are one text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = {
        token.start[0]: PRAGMA.sub("", token.string).lstrip("#! ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    lines = {line: text for line, text in texts.items() if text}
    for first in (line for line in lines if line - 1 not in lines):
        end = next(line for line in count(first) if line not in lines)
        yield Text(
            file, first, CODE.sub("code", "\n".join(lines[line] for line in range(first, end)))
        )


def help_texts(file: str, tree: ast.AST) -> Iterator[Text]:
    """Yield the help texts of commands and their options."""
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else []:
            if (
                keyword.arg == "help"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value
            ):
                yield Text(file, keyword.value.lineno, CODE.sub("code", str(keyword.value.value)))


def makefile_texts(file: str, source: str) -> Iterator[Text]:
    """Yield the comments of a Makefile, and the help texts of its targets."""
    for number, line in enumerate(source.splitlines(), 1):
        text = re.search(r"^#\s*(.*)|\s##\s*(.*)", line)
        if text:
            yield Text(file, number, text.group(1) or text.group(2))


def definitions(file: str, tree: ast.AST) -> Iterator[tuple[str, Text]]:
    """Yield each function and class: its name, and the words of its name as a text."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINED):
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", node.name)
            yield node.name, Text(file, node.lineno, " ".join(words).lower())


def name_breaches(file: str, tree: ast.AST) -> list[str]:
    """Return variables, parameters, functions and classes with a name that is not allowed."""
    body = [
        statement
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
    ]
    fields = {
        id(target)
        for part in body
        for target in getattr(part, "targets", [getattr(part, "target", None)])
    }
    names = [(node.lineno, node.arg) for node in ast.walk(tree) if isinstance(node, ast.arg)]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in fields
        ):
            names.append((node.lineno, node.id))
        if isinstance(node, DEFINED):
            names.append((node.lineno, node.name))
    # A constant such as ONE may be a number.
    names = [(line, name) for line, name in names if not name.isupper()]
    return [
        f"{file}:{line}: name '{name}'"
        for line, name in sorted(names)
        if name.strip("_").lower() in NAMES
    ]


def definition_breaches(named: Iterable[tuple[str, Text]]) -> list[str]:
    """Return functions and classes that contain a refused word, unless `EXCEPTIONS` counts them."""
    breaches, counts = [], Counter[str]()
    for name, words in named:
        refused = [reason for reason, (pattern, _) in LIMITS.items() if words.lines_of(pattern)]
        if refused and name in EXCEPTIONS:
            counts[name] += 1
        elif refused:
            breaches.append(f"{words.file}:{words.line}: '{name}' contains '{refused[0]}'")
    exceeded = [name for name, number in counts.items() if number > EXCEPTIONS[name]]
    return breaches + [
        f"'{name}' occurs {counts[name]} times, {EXCEPTIONS[name]} allowed" for name in exceeded
    ]


def opening_breaches(texts: Iterable[Text]) -> list[str]:
    """Return docstrings with a first word that is not allowed."""
    first_words = (
        (text, (text.prose.split() or [""])[0].strip(".,:;")) for text in texts if text.is_docstring
    )
    return [
        f"{text.file}:{text.line}: docstring opens with '{word}'"
        for text, word in first_words
        if word in OPENINGS
    ]


def rate_breaches(texts: Sequence[Text]) -> list[str]:
    """Return every occurrence of the patterns that exceed their limit per 10,000 words."""
    words = sum(len(re.findall(r"[A-Za-z][A-Za-z'-]*", text.prose)) for text in texts)
    breaches = []
    for name, (pattern, limit) in LIMITS.items():
        places = [f"{text.file}:{line}" for text in texts for line in text.lines_of(pattern)]
        rate = 10_000 * len(places) / max(words, 1)
        reason = f"'{name}' {rate:.1f} per 10,000 words, limit {limit:g}"
        breaches += [f"{place}: {reason}" for place in places] if rate > limit else []
    return breaches


def read(path: Path) -> tuple[list[Text], list[tuple[str, Text]], list[str]]:
    """Return the texts of a file, its functions and classes, and breaches of its names."""
    file, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [*makefile_texts(file, source)], [], []
    tree = ast.parse(source)
    texts = [*docstrings(file, tree), *comments(file, source), *help_texts(file, tree)]
    return texts, [*definitions(file, tree)], name_breaches(file, tree)


def check(tops: Iterable[Path], are_tests: bool) -> list[str]:
    """Return the breaches in files and folders."""
    texts: list[Text] = []
    named: list[tuple[str, Text]] = []
    breaches: list[str] = []
    for path in sorted(
        file.resolve() for top in tops for file in ([top], top.rglob("*.py"))[top.is_dir()]
    ):
        of_file, definitions_of_file, names = read(path)
        texts += of_file
        named += definitions_of_file
        breaches += names
    breaches += opening_breaches(texts)
    if are_tests:
        return breaches + rate_breaches([*texts, *(words for _, words in named)])
    return breaches + definition_breaches(named) + rate_breaches(texts)


def main() -> int:
    """Print breaches; return 1 if there are any."""
    tops = [Path(name).resolve() for name in sys.argv[1:]] or [
        ROOT / name for name in (*PRODUCT, TESTS)
    ]
    tests = [top for top in tops if top.is_relative_to(ROOT / TESTS)]
    breaches = check([top for top in tops if top not in tests], are_tests=False) + check(
        tests, are_tests=True
    )
    print("\n".join(breaches))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
