"""The table of operations: all there are. docs/reference/operations.md is made of it.

CLI, REST, gRPC and clients are registered from here; a test checks that none is missing anywhere.
"""

from __future__ import annotations

from typing import Final

from quorate.operations.fleet.fleet_operations import FLEET
from quorate.operations.fleet.looking_operations import LOOKING
from quorate.operations.ledger.ledger_operations import LEDGER
from quorate.operations.ledger.plan_operations import PLANS
from quorate.operations.money.money_operations import MONEY
from quorate.operations.notices.notice_operations import NOTICES
from quorate.operations.resources.resource_operations import APPLY, THINGS
from quorate.operations.resources.run_operations import RUNS
from quorate.operations.resources.tenant_operations import TENANTS
from quorate.operations.service.quorum_operations import QUORUM
from quorate.operations.service.report_operations import REPORTS
from quorate.operations.service.service_operations import SERVICE

OPERATIONS: Final = {
    operation.name: operation
    for operation in (
        *(*THINGS, *RUNS, APPLY, *TENANTS),
        *(*FLEET, *MONEY, *PLANS, *LEDGER, *NOTICES, *SERVICE, *QUORUM, *REPORTS, *LOOKING),
    )
}
"""Name -> operation."""
