#!/usr/bin/env bash
# prefect 3.9.1: an automation that is read and updated no longer cancels runs.
#
# Guess: client.update_automation(id, automation) stores the automation that it is given, as create_automation does.
# Behaviour: The update leaves out fields that have their defaults, and the type of an action is one: CancelFlowRun()
# arrives without it. The server takes an action without fields for the first of its kinds that has none and stores
# do-nothing, without an error. The automation is still enabled.
# Instead: delete the automation and create it anew, or read it back and compare its actions.
# Seen: "created: cancel-flow-run updated: do-nothing".
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

from prefect import get_client
from prefect.events.actions import CancelFlowRun
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

trigger = EventTrigger(posture=Posture.Reactive, expect={"prefect.flow-run.Late"}, threshold=1)
wanted = AutomationCore(name="late runs", trigger=trigger, actions=[CancelFlowRun()])


async def main():
    async with get_client() as client:
        number = await client.create_automation(wanted)
        created = (await client.read_automation(number)).actions[0].type
        await client.update_automation(number, wanted)
        updated = (await client.read_automation(number)).actions[0].type
        print("created:", created, "updated:", updated)


asyncio.run(main())
PYTHON
) || seen="error: $(tail -n 1 "$folder/messages")"
echo "$seen"
test "$seen" = "created: cancel-flow-run updated: do-nothing"
