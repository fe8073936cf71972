"""One party of a secure sum by MPyC (secret sharing, no masks): reads its values from stdin, prints the sum of all.

`python -m tests.support.processes.secure_sum -I 0 -P localhost:7001 -P localhost:7002 -P localhost:7003 --no-log`
"""

from __future__ import annotations

import json
import sys

from mpyc.runtime import mpc


async def add_up(mine: list[int]) -> list[int]:
    number = mpc.SecInt(40)
    await mpc.start()
    shared = mpc.input([number(value) for value in mine])
    total = await mpc.output([mpc.sum(list(column)) for column in zip(*shared, strict=True)])
    await mpc.shutdown()
    return [int(value) for value in total]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(mpc.run(add_up(json.load(sys.stdin)))))
