"""The commands of ``quorate``: module, function and help line of each.

This module imports nothing, so that ``--help`` is fast.
"""

from __future__ import annotations

from typing import Final

CommandTable = dict[str, tuple[str, str, str]]
"""Maps a command's name to its module, its attribute there, and its help line.

The commands are in the order of ``--help``.
"""

COMMANDS: Final[CommandTable] = {
    "demo": (
        "quorate.cli.operator_commands.demo_command",
        "demo",
        "Demonstrate Quorate in five scenes, with real processes on this machine.",
    ),
    "init": (
        "quorate.cli.operator_commands.init_command",
        "init",
        "Create a ledger, its signing key and its lottery's secret.",
    ),
    "serve": (
        "quorate.cli.operator_commands.serve_command",
        "serve",
        "Serve a ledger by REST and gRPC.",
    ),
    "apply": (
        "quorate.cli.commands.apply_command",
        "apply",
        "Create or update resources from files.",
    ),
    "diff": (
        "quorate.cli.commands.diff_command",
        "diff",
        "Show the changes that applying files would make.",
    ),
    "import": (
        "quorate.cli.operator_commands.import_command",
        "import_group",
        "Convert the objects of another scheduler to documents of Quorate.",
    ),
    "submit": (
        "quorate.cli.commands.submit_command",
        "submit",
        "Submit runs, and start them if possible.",
    ),
    "sbatch": (
        "quorate.cli.commands.sbatch_command",
        "sbatch",
        "Submit a job that was written for Slurm.",
    ),
    "squeue": (
        "quorate.cli.commands.squeue_command",
        "squeue",
        "List jobs that wait or run, as Slurm's squeue does.",
    ),
    "scancel": (
        "quorate.cli.commands.squeue_command",
        "scancel",
        "Cancel jobs, as Slurm's scancel does.",
    ),
    "sacct": (
        "quorate.cli.commands.sacct_command",
        "sacct",
        "List past and present jobs, as Slurm's sacct does.",
    ),
    "sinfo": (
        "quorate.cli.commands.sacct_command",
        "sinfo",
        "List pools and their nodes, as Slurm's sinfo does.",
    ),
    "patch": ("quorate.cli.commands.patch_command", "patch", "Change fields of a resource."),
    "delete": (
        "quorate.cli.commands.delete_command",
        "delete",
        "Remove nodes, pools, budgets and owners that are not in use.",
    ),
    "get": ("quorate.cli.commands.get_command", "get", "List resources of one kind."),
    "queue": (
        "quorate.cli.commands.queue_command",
        "queue",
        "Show the waiting runs, in order, and why they wait.",
    ),
    "top": (
        "quorate.cli.commands.top_command",
        "top",
        "Show the GPU usage of the fleet.",
    ),
    "describe": (
        "quorate.cli.commands.describe_command",
        "describe",
        "Show everything about one resource.",
    ),
    "plan": (
        "quorate.cli.commands.plan_command",
        "plan",
        "Show when a run is planned to start, and the conditions for it.",
    ),
    "explain": (
        "quorate.cli.commands.explain_command",
        "explain",
        "Show why a run waits, and which changes would start it.",
    ),
    "watch": (
        "quorate.cli.commands.watch_command",
        "watch",
        "Watch a run, the reservations or a pool.",
    ),
    "notices": (
        "quorate.cli.commands.notices_command",
        "notices",
        "Show your notices.",
    ),
    "logs": (
        "quorate.cli.commands.logs_command",
        "logs",
        "Show the output of a run.",
    ),
    "complete": (
        "quorate.cli.commands.finish_command",
        "complete",
        "Record that the work of runs is done.",
    ),
    "fail": (
        "quorate.cli.commands.finish_command",
        "fail",
        "Record that the work of runs has failed.",
    ),
    "cancel": (
        "quorate.cli.commands.finish_command",
        "cancel",
        "Stop runs, or withdraw them from the queue.",
    ),
    "shrink": (
        "quorate.cli.commands.shrink_command",
        "shrink",
        "Shrink a malleable run to fewer GPUs.",
    ),
    "node": (
        "quorate.cli.operator_commands.node_command",
        "node",
        "Mark a node as failed, ready, cordoned or drained; or describe this machine.",
    ),
    "claim": (
        "quorate.cli.commands.claim_command",
        "claim",
        "Claim whole nodes for sensitive work of one user, until a stated end.",
    ),
    "release": (
        "quorate.cli.commands.claim_command",
        "release",
        "Give the nodes of a claim back before its end.",
    ),
    "resolve": (
        "quorate.cli.commands.resolve_command",
        "resolve",
        "Free GPUs in a scope by hand, after the notice period.",
    ),
    "admin": (
        "quorate.cli.operator_commands.admin_command",
        "admin",
        "Create, change and remove tenants.",
    ),
    "token": (
        "quorate.cli.operator_commands.token_command",
        "token",
        "Issue, list and revoke access tokens.",
    ),
    "whoami": (
        "quorate.cli.operator_commands.token_command",
        "whoami",
        "Show the user name that the service, or the ledger's file, records for you.",
    ),
    "waldur": (
        "quorate.cli.operator_commands.waldur_command",
        "waldur",
        "Show the status of the link to Waldur.",
    ),
    "cluster": (
        "quorate.cli.operator_commands.cluster_command",
        "cluster",
        "Create a ledger that services share, show these services, or make their leader step down.",
    ),
    "tick": (
        "quorate.cli.commands.finish_command",
        "tick",
        "Record changes that are due, such as ends of windows and of rounds.",
    ),
    "lottery": (
        "quorate.cli.operator_commands.lottery_command",
        "lottery",
        "Show the lottery, and verify its draws.",
    ),
    "ledger": (
        "quorate.cli.operator_commands.ledger_command",
        "ledger",
        "Read, verify, sign, back up, restore, move, export and import the ledger.",
    ),
    "usage": ("quorate.cli.commands.usage_command", "usage", "Show GPU-hours and node-hours used."),
    "statement": (
        "quorate.cli.commands.statement_command",
        "statement",
        "Show the amounts of each envelope: granted, spent, held and lent.",
    ),
    "calc": (
        "quorate.cli.operator_commands.calc_command",
        "calc",
        "Compute one decision on a world given as JSON.",
    ),
    "report": (
        "quorate.cli.operator_commands.report_command",
        "report",
        "Report on a ledger: times, waits by cause, utilisation, shares, lost work.",
    ),
    "whatif": (
        "quorate.cli.operator_commands.whatif_command",
        "whatif",
        "Replay a ledger with a change, and show the differences in the results.",
    ),
    "forecast": (
        "quorate.cli.operator_commands.forecast_command",
        "forecast",
        "Compare forecasts of starts with the actual starts.",
    ),
    "policy": (
        "quorate.cli.operator_commands.policy_command",
        "policy",
        "Allocate GPUs of several flavors to jobs with a policy.",
    ),
    "throughputs": (
        "quorate.cli.operator_commands.throughputs_command",
        "throughputs",
        "Inspect tables of the throughput of jobs on each flavor.",
    ),
    "simulate": (
        "quorate.cli.operator_commands.simulate_command",
        "simulate",
        "Simulate a trace of jobs, and print the results.",
    ),
    "trace": (
        "quorate.cli.operator_commands.trace_command",
        "trace",
        "Inspect, convert and generate traces of jobs.",
    ),
    "context": (
        "quorate.cli.operator_commands.context_command",
        "context",
        "Choose the service that commands use.",
    ),
    "runs": (
        "quorate.cli.commands.runs_command",
        "runs",
        "Submit, plan, watch and shrink runs, as `kubectl runs` does.",
    ),
    "completion": (
        "quorate.cli.operator_commands.completion_command",
        "completion",
        "Print a script for tab completion.",
    ),
}

Sections = dict[str, tuple[str, ...]]
"""Maps each heading of the help to the names of the commands under this heading."""

SECTIONS: Final[Sections] = {
    "To begin": ("demo", "init", "completion"),
    "Runs": (
        *("submit", "plan", "explain", "watch", "logs", "notices"),
        *("cancel", "shrink", "complete", "fail"),
    ),
    "Resources": ("get", "describe", "queue", "top"),
    "Documents": ("apply", "diff", "patch", "delete", "import"),
    "Owners and budgets": ("usage", "statement", "admin"),
    "Fleet": ("node", "claim", "release", "resolve", "tick"),
    "Ledger": ("ledger", "lottery", "report"),
    "Service": ("serve", "context", "whoami", "token", "cluster", "waldur"),
    "Simulation": (
        *("simulate", "trace", "whatif", "forecast"),
        *("policy", "throughputs", "calc"),
    ),
    "For people who know Slurm": ("sbatch", "squeue", "scancel", "sacct", "sinfo"),
    "For people who know Kubernetes": ("runs",),
}
"""The headings of the help; each command is under one of them."""
