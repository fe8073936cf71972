"""JSON over HTTP: one call is one request, without retries and redirects.

aiohttp alone, because the SDKs of OpenAI and Anthropic take longer to build a request than all of the rest takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from connectors.interfaces.errors import MissingPackageError

CONNECT_SECONDS = 10.0
"""Longest time to connect. Shorter than a call's, because only a call that was sent may have been billed."""

Hear = Callable[[Mapping[str, str]], None]
"""Receives the headers of a response."""


def ignore_headers(headers: Mapping[str, str]) -> None:
    """Receive headers for nothing."""


class CallFailure(Exception):
    """A call without success.

    `status`: of the response, 0 without one. `body`: its JSON, None if it has none. `headers`: empty without one.
    """

    def __init__(
        self, message: str, status: int = 0, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.body, self.headers = status, body, headers or {}


class JsonClient:
    """Requests below one address with the same headers and parameters; open it in an event loop.

    `timeout`: longest silence of a connection, in seconds. `hear` receives the headers of each response. The variables
    `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` apply.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        timeout: float,
        hear: Hear,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import aiohttp
        except ImportError as error:
            raise MissingPackageError("aiohttp", "api") from error
        self._address, self._hear, self._parameters = address, hear, dict(parameters or {})
        self._form, self._broken = aiohttp.FormData, aiohttp.ClientError
        self._session = aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, connect=min(CONNECT_SECONDS, timeout / 2), sock_read=timeout),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy_of(address),
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON of the response to a JSON body.

        Raises CallFailure for another status than 2xx and without a complete response, ValueError without JSON.
        """
        data = json.dumps(body, separators=(",", ":")).encode("ascii")
        return json.loads(await self._request("POST", path, data=data, headers={"content-type": "application/json"}))

    async def upload(self, path: str, name: str, content: bytes, **fields: str) -> Any:
        """Return the JSON of the response to a form with a file; errors as `post`."""
        form = self._form(fields)
        form.add_field("file", content, filename=name, content_type="application/octet-stream")
        return json.loads(await self._request("POST", path, data=form))

    async def get(self, path: str, **parameters: str) -> Any:
        """Return the JSON at a path; errors as `post`."""
        return json.loads(await self._request("GET", path, parameters))

    async def read_lines(self, path: str) -> list[Any]:
        """Return the JSON of each line at a path; errors as `post`."""
        content = await self._request("GET", path)
        return [json.loads(line) for line in content.splitlines() if line.strip()]

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _request(self, method: str, path: str, parameters: Mapping[str, str] | None = None, **sent: Any) -> bytes:
        parameters = {**self._parameters, **(parameters or {})}
        try:
            async with self._session.request(
                method, self._address + path, params=parameters, allow_redirects=False, **sent
            ) as response:
                self._hear(response.headers)
                content = await response.read()
        except self._broken as error:
            raise CallFailure(str(error)) from error
        if 200 <= response.status < 300:
            return content
        text = content.decode("utf-8", "replace").strip()
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        raise CallFailure(text, response.status, body, response.headers)


def _proxy_of(address: str) -> str | None:
    parts = urlsplit(address)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
