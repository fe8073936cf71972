"""Patterns of keys and passwords in values, also usable in JSON Schema.

Prefect, manifests and reports store the configuration, so it contains references to secrets, never secrets. Patterns
are portable between Python and JavaScript: no flags, no named groups.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import HIDDEN

REFERENCE: Final = r"^(none|env:[A-Za-z_][A-Za-z0-9_]*|prefect:[a-z0-9][a-z0-9-]*)$"
"""Reference to a stored key."""


def _any_case(word: str) -> str:
    # Spelled out, because JavaScript has no inline flag for it.
    return re.sub("[a-z]", lambda letter: f"[{letter[0].upper()}{letter[0]}]", word)


def _one_of(*words: str) -> str:
    return f"(?:{'|'.join(map(_any_case, words))})"


_NAMES = _one_of(
    "key", "apikey", "token", "secret", "password", "passwd", "passphrase", "pwd", "authorization", "credential",
    "credentials",
)  # fmt: skip
SECRET_NAME: Final = rf"(?:^|[._-]){_NAMES}$"
"""Names of values that are secrets: key, api_key, access-token, plms.0.key; not max_tokens."""
_PARAMETERS = _one_of(
    "password", "passwd", "pwd", "sslpassword", "token", "access_token", "api_key", "apikey", "api-key", "key",
    "secret", "client_secret", "sig", "signature", "x-amz-signature", "x-amz-security-token", "x-goog-signature",
)  # fmt: skip
PASSWORD: Final = (
    r"://[^/\s:@]*:\S*@"  # scheme://user:password@host
    r"|[Hh][Tt][Tt][Pp][Ss]?://[^/\s@]+@"  # a token in place of the user
    rf"|[?&;]{_PARAMETERS}=[^&\s]"
    rf"|(?:^|[;\s]|%3[Bb]){_one_of('password', 'pwd')}(?:=|%3[Dd])\S"  # options of ODBC and libpq
)
KEY: Final = (
    r"(?:^|[^A-Za-z0-9_-])(?:"
    r"sk-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|pnu_[A-Za-z0-9]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\."
    r"|[Bb]earer\s+[A-Za-z0-9._~+/-]{16,}"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""Prefixes of vendors' keys."""
PUBLIC: Final = rf"^(?![\s\S]*(?:{PASSWORD}|{KEY}))"
"""A text without an address that contains a password, and without a vendor's key."""
_CLASSES = "classes"
"""A group whose names are the user's classes (possibly 'password') and not option names."""


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """The path and kind of a secret in a structure of values, without the secret."""

    path: tuple[str, ...]
    is_key: bool

    def __str__(self) -> str:
        return ".".join(self.path)


def find_secrets(value: object, path: tuple[str, ...] = ()) -> Iterator[SecretMatch]:
    """Yield the locations of keys and passwords in a JSON-like value.

    The value of a secret name (`SECRET_NAME`) must be a reference (`REFERENCE`).
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            item_path = (*path, str(name))
            if (
                isinstance(item, str)
                and path[-1:] != (_CLASSES,)
                and re.search(SECRET_NAME, str(name))
            ):
                if re.match(REFERENCE, item) is None:
                    yield SecretMatch(item_path, is_key=True)
            else:
                yield from find_secrets(item, item_path)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from find_secrets(item, (*path, str(position)))
    elif isinstance(value, str) and re.match(PUBLIC, value) is None:
        yield SecretMatch(path, is_key=re.search(PASSWORD, value) is None)


def hide_secrets(value: Any) -> Any:
    """Return a copy of a JSON-like value with `***` for every key and every password."""
    if isinstance(value, Mapping):
        shown = {}
        for name, item in value.items():
            shown[name] = hide_secrets(item)
            # With its name: a password has no recognisable form.
            if isinstance(item, str) and any(find_secrets({name: item})):
                shown[name] = HIDDEN
        return shown
    if isinstance(value, list | tuple):
        return [hide_secrets(item) for item in value]
    if isinstance(value, str) and any(find_secrets(value)):
        return HIDDEN
    return value


def without_secrets() -> Json:
    """Return the JSON Schema of a value without secrets: the rules of `find_secrets`.

    It applies at any depth. It refers to itself by a dynamic anchor, because pydantic resolves every `$ref` to one of
    its definitions.
    """
    recursive = {"$dynamicRef": "#secretless"}
    return {
        "$dynamicAnchor": "secretless",
        "pattern": PUBLIC,
        "items": recursive,
        "properties": {
            _CLASSES: {"items": recursive, "additionalProperties": recursive, "pattern": PUBLIC}
        },
        "patternProperties": {SECRET_NAME: {**recursive, "pattern": REFERENCE}},
        "additionalProperties": recursive,
    }
