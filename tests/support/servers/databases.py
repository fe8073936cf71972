"""The databases of the stack, made on a PostgreSQL server by their script."""

import subprocess

from sqlalchemy.engine import make_url

from tests.support.infra_files import INFRA, plain_environment


def client(program: str, superuser: str, *arguments: str) -> list[str]:
    """Return a call of one of PostgreSQL's programs on the test server."""
    url = make_url(superuser)
    return [program, "--host", str(url.host), "--port", str(url.port), "--username", str(url.username), *arguments]


def make_databases(superuser: str, passwords: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script as the container of PostgreSQL does."""
    variables = {f"{name.upper()}_DB_PASSWORD": word for name, word in passwords.items()}
    environment = plain_environment(PGPASSWORD="secret", **variables)
    script = str(INFRA / "postgres" / "databases.sql")
    command = client("psql", superuser, "--set", "ON_ERROR_STOP=1", "--dbname", "postgres", "--file", script)
    return subprocess.run(command, env=environment, capture_output=True, text=True)
