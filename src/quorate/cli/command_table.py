"""The commands of ``quorate``: their modules, and the lines that ``--help`` shows of them.

Nothing is imported here, so that ``--help`` is fast.
"""

from __future__ import annotations

from typing import Final

CommandTable = dict[str, tuple[str, str, str]]
"""Name -> module, attribute and the line that ``--help`` shows; in the order people need them."""

COMMANDS: Final[CommandTable] = {
    "demo": (
        "quorate.cli.operator_commands.demo_command",
        "demo",
        "Show five scenes of the life of a fleet, with real processes.",
    ),
    "init": (
        "quorate.cli.operator_commands.init_command",
        "init",
        "Create a ledger, its signing key and its lottery's secret.",
    ),
    "serve": (
        "quorate.cli.operator_commands.serve_command",
        "serve",
        "Serve a ledger to others, by REST and gRPC.",
    ),
    "apply": (
        "quorate.cli.commands.apply_command",
        "apply",
        "Create or update resources from files.",
    ),
    "diff": (
        "quorate.cli.commands.diff_command",
        "diff",
        "Show what applying files would change.",
    ),
    "import": (
        "quorate.cli.operator_commands.import_command",
        "import_group",
        "Turn what another scheduler has into documents of Quorate.",
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
        "List jobs of the past and of now, as Slurm's sacct does.",
    ),
    "sinfo": (
        "quorate.cli.commands.sacct_command",
        "sinfo",
        "List pools and their nodes, as Slurm's sinfo does.",
    ),
    "patch": ("quorate.cli.commands.patch_command", "patch", "Change fields of what was applied."),
    "delete": (
        "quorate.cli.commands.delete_command",
        "delete",
        "Remove nodes, pools, budgets and owners that nothing depends on.",
    ),
    "get": ("quorate.cli.commands.get_command", "get", "List what there is."),
    "queue": (
        "quorate.cli.commands.queue_command",
        "queue",
        "Show which runs wait, in order, and why.",
    ),
    "top": (
        "quorate.cli.commands.top_command",
        "top",
        "Show the fleet, and who has how much of it.",
    ),
    "describe": (
        "quorate.cli.commands.describe_command",
        "describe",
        "Show everything about one thing.",
    ),
    "plan": (
        "quorate.cli.commands.plan_command",
        "plan",
        "Say when a run starts, and what that rests on.",
    ),
    "explain": (
        "quorate.cli.commands.explain_command",
        "explain",
        "Say why a run waits and what would start it.",
    ),
    "watch": (
        "quorate.cli.commands.watch_command",
        "watch",
        "Follow a run, the reservations or a pool.",
    ),
    "notices": (
        "quorate.cli.commands.notices_command",
        "notices",
        "Show the notices that concern you, and follow them.",
    ),
    "logs": (
        "quorate.cli.commands.logs_command",
        "logs",
        "Show what the work of a run has written.",
    ),
    "complete": (
        "quorate.cli.commands.finish_command",
        "complete",
        "Record that the work of runs is done.",
    ),
    "fail": (
        "quorate.cli.commands.finish_command",
        "fail",
        "Record that the work of runs has ended badly.",
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
        "Take whole nodes for one user and sensitive work, until a stated end.",
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
        "Say who you are to the service, or to the file.",
    ),
    "waldur": (
        "quorate.cli.operator_commands.waldur_command",
        "waldur",
        "Show the status of the link to Waldur.",
    ),
    "cluster": (
        "quorate.cli.operator_commands.cluster_command",
        "cluster",
        "Show the services that share a ledger, and have the leader step down.",
    ),
    "tick": ("quorate.cli.commands.finish_command", "tick", "Do what time has made due."),
    "lottery": (
        "quorate.cli.operator_commands.lottery_command",
        "lottery",
        "Show the lottery, and draw it all again.",
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
        "State what each envelope granted, spent, holds and lent.",
    ),
    "calc": (
        "quorate.cli.operator_commands.calc_command",
        "calc",
        "Compute one decision on a world given as JSON.",
    ),
    "report": (
        "quorate.cli.operator_commands.report_command",
        "report",
        "Show what a ledger came to: times, waits by cause, utilisation, shares, lost work.",
    ),
    "whatif": (
        "quorate.cli.operator_commands.whatif_command",
        "whatif",
        "Say what would have come out otherwise after a change.",
    ),
    "forecast": (
        "quorate.cli.operator_commands.forecast_command",
        "forecast",
        "Score forecasts of starts against what happened.",
    ),
    "policy": (
        "quorate.cli.operator_commands.policy_command",
        "policy",
        "Share GPUs of several flavors among jobs, by any policy.",
    ),
    "throughputs": (
        "quorate.cli.operator_commands.throughputs_command",
        "throughputs",
        "Look at tables of how fast jobs are on each flavor.",
    ),
    "simulate": (
        "quorate.cli.operator_commands.simulate_command",
        "simulate",
        "Play a trace in simulated time, and print what became of its jobs.",
    ),
    "trace": (
        "quorate.cli.operator_commands.trace_command",
        "trace",
        "Inspect, convert and generate traces of jobs.",
    ),
    "context": (
        "quorate.cli.operator_commands.context_command",
        "context",
        "Choose which service commands ask.",
    ),
    "runs": (
        "quorate.cli.commands.runs_command",
        "runs",
        "Submit, plan, watch and shrink runs: what `kubectl runs` does.",
    ),
    "completion": (
        "quorate.cli.operator_commands.completion_command",
        "completion",
        "Print a script that completes words.",
    ),
}

Sections = dict[str, tuple[str, ...]]
"""Heading of the help -> the names of the commands under it."""

SECTIONS: Final[Sections] = {
    "To begin": ("demo", "init", "completion"),
    "Runs": (
        *("submit", "plan", "explain", "watch", "logs", "notices"),
        *("cancel", "shrink", "complete", "fail"),
    ),
    "What there is": ("get", "describe", "queue", "top"),
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
"""The commands by what people want to do; each is under one heading."""
