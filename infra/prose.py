"""Check the English of docstrings, comments and variable names of the product.

`python infra/prose.py [PATH ...]` prints one line per breach and returns 1 if there is one. A pattern may
occur in all texts together up to its limit per 10,000 words. Inline code in backticks does not count. "Words" counts
where it means a text, not where words are counted or drawn. Fields of classes may have any name.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("connectors", "tasks", "flows", "deployments")
LIMITS = {
    "told, tell": (r"\b(?:told|tells?)\b", 4),
    "stand, stood": (r"\b(?:stands?|stood)\b", 2),
    "lie, lay": (r"\b(?:lies?|lay)\b", 4),
    "words, wording": (r"\bwordings?\b|\b(?:the|in|not|its|own|our|same|other|plain|few)\s+words\b", 4),
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
PRAGMA = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma)[^#]*")
CODE = re.compile(r"``?[^`\n]+``?")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Text:
    """A docstring or a block of comments without inline code; `line` is the number of its first line."""

    file: str
    line: int
    prose: str
    is_docstring: bool

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
        token.start[0]: PRAGMA.sub("", token.string).lstrip("#! ") for token in tokens if token.type == tokenize.COMMENT
    }
    lines = {line: text for line, text in texts.items() if text}
    for first in (line for line in lines if line - 1 not in lines):
        end = next(line for line in count(first) if line not in lines)
        yield Text(file, first, CODE.sub("code", "\n".join(lines[line] for line in range(first, end))), False)


def name_breaches(file: str, tree: ast.AST) -> list[str]:
    """Return assignments, loop targets and parameters with a name that is not allowed."""
    body = [statement for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for statement in node.body]
    fields = {id(target) for part in body for target in getattr(part, "targets", [getattr(part, "target", None)])}
    names = [(node.lineno, node.arg) for node in ast.walk(tree) if isinstance(node, ast.arg)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            names.append((node.lineno, node.id))
    return [f"{file}:{line}: variable '{name}'" for line, name in sorted(names) if name in NAMES]


def opening_breaches(texts: Iterable[Text]) -> list[str]:
    """Return docstrings with a first word that is not allowed."""
    first_words = ((text, (text.prose.split() or [""])[0].strip(".,:;")) for text in texts if text.is_docstring)
    return [f"{text.file}:{text.line}: docstring opens with '{word}'" for text, word in first_words if word in OPENINGS]


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


def main() -> int:
    """Print breaches; return 1 if there are any."""
    tops = [Path(name) for name in sys.argv[1:]] or [ROOT / name for name in PACKAGES]
    texts, breaches = [], []
    for path in sorted(file.resolve() for top in tops for file in ([top], top.rglob("*.py"))[top.is_dir()]):
        file, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        texts += [*docstrings(file, tree), *comments(file, source)]
        breaches += name_breaches(file, tree)
    breaches += [*opening_breaches(texts), *rate_breaches(texts)]
    print("\n".join(breaches))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
