"""postgres/databases.sql on a real PostgreSQL: three databases, and no role reaches another's."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tests.connectors.postgres_server import execute, find_binary, postgres_server
from tests.infra.tools import INFRA, plain_environment

PASSWORDS = {"prefect": "one'quoted", "mlflow": "two", "ledger": "three"}
INITDB, POSTGRES = find_binary("initdb"), find_binary("postgres")
pytestmark = pytest.mark.skipif(not (INITDB and POSTGRES and shutil.which("psql")), reason="needs PostgreSQL")


def make_databases(superuser: str, passwords: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the script as the container of PostgreSQL does."""
    url = make_url(superuser)
    variables = {f"{name.upper()}_DB_PASSWORD": word for name, word in passwords.items()}
    environment = plain_environment(PGPASSWORD=str(url.password), **variables)
    command = ["psql", "--set", "ON_ERROR_STOP=1", "--host", str(url.host), "--port", str(url.port)]
    command += [
        "--username",
        str(url.username),
        "--dbname",
        "postgres",
        "--file",
        str(INFRA / "postgres" / "databases.sql"),
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server(INITDB, POSTGRES, owner="postgres") as superuser:
        yield superuser


def test_each_role_reaches_its_own_database_alone(server):
    incomplete = make_databases(server, {"prefect": "x"})
    assert incomplete.returncode != 0
    execute(server, "DROP ROLE prefect")
    made = make_databases(server, PASSWORDS)
    assert made.returncode == 0, made.stderr
    for role, password in PASSWORDS.items():
        for database in (*PASSWORDS, "postgres", "template1"):
            url = make_url(server).set(username=role, password=password, database=database)
            address = url.render_as_string(hide_password=False)
            if database == role:
                execute(address, "CREATE TABLE mine (number integer)")
                execute(address, "CREATE EXTENSION pg_trgm")  # Prefect's migrations do
            else:
                with pytest.raises(OperationalError, match="permission denied for database"):
                    execute(address, "SELECT 1")
