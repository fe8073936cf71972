#!/usr/bin/env bash
# prefect 3.9.1: run_deployment sends an infinite number as null and a secret as asterisks.
#
# Guess: The run gets the parameters of the call, or the call is refused.
# Behaviour: They are made JSON without a message. float("inf") becomes null, which a parameter that may be None takes for
# its default: a run without noise, or without a limit, becomes one with the default. SecretStr("abc") arrives as the text
# "**********", with which the run signs in.
# Instead: send "inf" as text and convert it in the flow; send the name of a Secret block or of an environment variable.
# Seen: "{'epsilon': None, 'key': '**********'}".
# Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
missing() { echo "$1"; exit 2; }
python3 -m venv --without-pip "$folder/venv" || missing "apt-get install python3-venv"
python3 -m pip --python "$folder/venv" install --quiet --no-compile prefect==3.9.1 ||
  missing "Python 3.11, pip (apt-get install python3-pip) and a package index are needed"
cd "$folder"
export PREFECT_HOME="$folder" PREFECT_API_URL='' PREFECT_SERVER_ALLOW_EPHEMERAL_MODE=true DO_NOT_TRACK=1
export PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=300
seen=$("$folder/venv/bin/python" - <<'PYTHON' 2>"$folder/messages"
import asyncio

from prefect import flow, get_client
from prefect.deployments import run_deployment
from prefect.utilities.callables import parameter_schema
from pydantic import SecretStr


@flow
def release(key: SecretStr, epsilon: float | None = None) -> None:
    pass


async def main():
    async with get_client() as client:
        number = await client.create_flow(release)
        schema = parameter_schema(release).model_dump()
        await client.create_deployment(
            flow_id=number, name="nightly", parameter_openapi_schema=schema, enforce_parameter_schema=True
        )
        sent = {"epsilon": float("inf"), "key": SecretStr("abc")}
        run = await run_deployment("release/nightly", parameters=sent, timeout=0)
        print(dict(sorted((await client.read_flow_run(run.id)).parameters.items())))


asyncio.run(main())
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "{'epsilon': None, 'key': '**********'}"
