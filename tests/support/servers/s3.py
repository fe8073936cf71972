"""A private S3 server for tests: moto as a process of its own, a free port on loopback, gone afterwards."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.servers.ports import free_port
from tests.support.waits import serving


@dataclass(frozen=True)
class S3Server:
    """A running server; `environment` makes every client of this machine speak to it."""

    url: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self, name: str) -> str:
        """Make a bucket; return the address of a folder in it."""
        self._ask("PUT", name)
        return f"s3://{name}/wasp"

    def get(self, path: str) -> bytes:
        return self._ask("GET", path)

    def names(self, bucket: str) -> list[str]:
        """Return the names of all objects of a bucket."""
        return re.findall(
            r"<Key>([^<]+)</Key>", self._ask("GET", f"{bucket}?list-type=2&max-keys=1000").decode()
        )

    def _ask(self, method: str, path: str) -> bytes:
        header = {
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
        }
        return (
            httpx.request(method, f"{self.url}/{path}", headers=header, timeout=30)
            .raise_for_status()
            .content
        )


@contextmanager
def s3_server(folder: Path, host: str = "127.0.0.1") -> Iterator[S3Server]:
    """Start the server; its log lies in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    url, environment = f"http://{host}:{port}", os.environ | {"AWS_DEFAULT_REGION": "us-east-1"}
    with serving(command, url, folder / "s3.log", environment) as process:
        yield S3Server(url, process)
