"""The operations that show the fleet as a whole, or the output of a run."""

from __future__ import annotations

from typing import Final

from quorate.operations.caller import ANYBODY
from quorate.operations.fleet import looking_requests as asked
from quorate.operations.fleet import looking_responses as given
from quorate.operations.operation import Area, Operation

LOOKING: Final = (
    Operation(
        name="fleet-top",
        area=Area.FLEET,
        summary="Show the fleet by flavor and domain, and who has how much of it.",
        takes=asked.FleetTop,
        gives=given.Top,
        roles=ANYBODY,
        method="GET",
        path="/top",
        handler="quorate.operations.fleet.fleet_top:fleet_top",
        refusals=("unknown-name",),
        cli=("top",),
    ),
    Operation(
        name="run-logs",
        area=Area.RUNS,
        summary="Show what the work of a run has written.",
        takes=asked.RunLogs,
        gives=given.Logs,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/logs",
        handler="quorate.operations.fleet.log_handlers:run_logs",
        refusals=("unknown-name", "no-logs"),
        cli=("logs",),
    ),
)
