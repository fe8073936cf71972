"""postgres/databases.sql on a real PostgreSQL: three databases, and no role reaches another's."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tests.support.infra_files import INFRA, plain_environment
from tests.support.servers.postgres import PROGRAMS, execute, postgres_server

PASSWORDS = {"prefect": "one'quoted", "mlflow": "two", "ledger": "three"}
pytestmark = pytest.mark.skipif(not (PROGRAMS and shutil.which("psql")), reason="needs PostgreSQL")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start PostgreSQL and make the databases; a script without all passwords is refused before that."""
    with postgres_server(owner="postgres") as superuser:
        incomplete = make_databases(superuser, {"prefect": PASSWORDS["prefect"]})
        assert incomplete.returncode != 0
        execute(superuser, "DROP ROLE prefect")
        made = make_databases(superuser, PASSWORDS)
        assert made.returncode == 0, made.stderr
        yield superuser


def address(superuser: str, role: str, database: str) -> str:
    url = make_url(superuser).set(username=role, password=PASSWORDS[role], database=database)
    return url.render_as_string(hide_password=False)


def test_each_role_reaches_its_own_database_alone(server):
    for role in PASSWORDS:
        for database in (*PASSWORDS, "postgres", "template1"):
            if database == role:
                execute(address(server, role, database), "CREATE TABLE mine (number integer)")
                execute(
                    address(server, role, database), "CREATE EXTENSION pg_trgm"
                )  # Prefect's migrations do
            else:
                with pytest.raises(OperationalError, match="permission denied for database"):
                    execute(address(server, role, database), "SELECT 1")


# --- the databases of the stack, made on a PostgreSQL server by their script
def make_databases(superuser: str, passwords: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script as the container of PostgreSQL does."""
    variables = {f"{name.upper()}_DB_PASSWORD": word for name, word in passwords.items()}
    environment = plain_environment(PGPASSWORD="secret", **variables)
    script = str(INFRA / "postgres" / "databases.sql")
    url = make_url(superuser)
    server = ["--host", str(url.host), "--port", str(url.port), "--username", str(url.username)]
    command = [
        "psql",
        *server,
        "--set",
        "ON_ERROR_STOP=1",
        "--dbname",
        "postgres",
        "--file",
        script,
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True)
