"""Budgets, envelopes, caps and charges, as rows and documents. Pure.

Tables show GPU-hours with two decimals; documents show exact GPU-milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.documents import render
from quorate.documents.times import time_text
from quorate.model.specs import CapId, EnvelopeId, envelope_id
from quorate.model.state.records import CapAccount, EnvelopeAccount, RunRecord
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree, document, each
from quorate.views.runs.instant import Charge, Moment, charges_of
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import hours, hours_that_add_up, names, selector


def accounts_of(moment: Moment, budget: str) -> list[EnvelopeAccount]:
    """Return the accounts of a budget's envelopes, in the order of the document."""
    spec = moment.view.budgets[budget]
    return [
        moment.view.envelopes[envelope_id(budget, envelope.name)] for envelope in spec.envelopes
    ]


def free_gpu_ms(account: EnvelopeAccount) -> int:
    """Return the GPU-milliseconds that are neither spent nor held."""
    return account.spec.gpu_ms_granted - account.committed_gpu_ms


def _amounts(moment: Moment, accounts: Sequence[EnvelopeAccount]) -> tuple[str, str, str, str]:
    """Return granted, spent, held and free in hours.

    The hours are rounded so that spent, held and free add up to granted.
    """
    granted = sum(account.spec.gpu_ms_granted for account in accounts)
    spent = sum(account.spent_gpu_ms(moment.now_ms) for account in accounts)
    held = sum(account.held_gpu_ms(moment.now_ms) for account in accounts)
    parts = hours_that_add_up([spent, held, granted - spent - held])
    return hours(granted), parts[0], parts[1], parts[2]


def _budget_row(moment: Moment, name: str) -> Row:
    accounts = accounts_of(moment, name)
    return (
        name,
        moment.view.budgets[name].owner,
        str(len(accounts)),
        str(sum(account.gpus_active for account in accounts)),
        str(sum(account.spec.concurrency for account in accounts)),
        *_amounts(moment, accounts),
        names(cap.name for cap in moment.view.budgets[name].caps),
    )


def _budget_tree(moment: Moment, name: str) -> Tree:
    spec = moment.view.budgets[name]
    status = {
        "envelopes": [
            {"name": account.spec.name, **_envelope_status(moment, account)}
            for account in accounts_of(moment, name)
        ],
        "aggregateCaps": [
            {"name": cap.name, **_cap_status(moment.view.caps[CapId(f"{name}/{cap.name}")])}
            for cap in spec.caps
        ],
    }
    return {**render(spec), "status": status}


_AMOUNTS = (right("GRANTED"), right("SPENT"), right("HELD"), right("FREE"))

BUDGET = Kind(
    called=kind_names.BUDGET,
    columns=(
        Column("NAME"),
        Column("OWNER"),
        right("ENVELOPES"),
        right("ACTIVE"),
        right("CONCURRENCY"),
        *_AMOUNTS,
        wide("CAPS"),
    ),
    names=lambda moment: sorted(moment.view.budgets),
    rows=each(_budget_row),
    trees=each(_budget_tree),
)


def window(account: EnvelopeAccount, now_ms: int) -> str:
    """Return in a word or two whether ``now_ms`` is before, in or after the envelope's window."""
    if now_ms < account.spec.start_ms:
        return f"opens {time_text(account.spec.start_ms)}"
    return "open" if now_ms < account.spec.end_ms else "closed"


def is_usable(account: EnvelopeAccount, now_ms: int) -> bool:
    """Return whether the envelope's window allows it to pay for a start at ``now_ms``."""
    spec = account.spec
    return now_ms < spec.end_ms and (now_ms >= spec.start_ms or spec.allow_admission)


def _envelope_status(moment: Moment, account: EnvelopeAccount) -> Tree:
    now_ms = moment.now_ms
    return {
        "owner": account.owner,
        "activeGPUs": account.gpus_active,
        "reservedGPUs": account.gpus_reserved,
        "lentGPUs": account.lent_gpus_active,
        "grantedGPUMs": account.spec.gpu_ms_granted,
        "spentGPUMs": account.spent_gpu_ms(now_ms),
        "heldGPUMs": account.held_gpu_ms(now_ms),
        "freeGPUMs": free_gpu_ms(account),
        "lentGPUMs": account.lent_committed_gpu_ms,
        "open": account.spec.start_ms <= now_ms < account.spec.end_ms,
        "usable": is_usable(account, now_ms),
    }


def _envelope_row(moment: Moment, name: str) -> Row:
    account = moment.view.envelopes[EnvelopeId(name)]
    spec = account.spec
    lends = "no"
    if spec.lending.allow:
        lends = names(spec.lending.to) if spec.lending.to else "anybody"
    granted, spent, held, free = _amounts(moment, [account])
    return (
        name,
        account.owner,
        spec.flavor,
        selector(spec.selector),
        window(account, moment.now_ms),
        str(account.gpus_active),
        str(account.lent_gpus_active),
        str(spec.concurrency),
        granted,
        spent,
        held,
        free if is_usable(account, moment.now_ms) else "-",
        time_text(spec.start_ms),
        time_text(spec.end_ms),
        spec.sharing.value,
        lends,
        names(key.partition("/")[2] for key in account.caps),
    )


def _envelope_tree(moment: Moment, name: str) -> Tree:
    account = moment.view.envelopes[EnvelopeId(name)]
    budget = render(moment.view.budgets[account.budget])["spec"]
    assert isinstance(budget, dict), name
    spec = next(each for each in budget["envelopes"] if each["name"] == account.spec.name)
    return document("Envelope", name, spec=spec, status=_envelope_status(moment, account))


def _envelope_names(moment: Moment) -> list[str]:
    accounts = moment.view.envelopes
    return sorted(name for name, account in accounts.items() if not account.retired)


ENVELOPE = Kind(
    called=kind_names.ENVELOPE,
    columns=(
        Column("NAME"),
        Column("OWNER"),
        Column("FLAVOR"),
        Column("WHERE"),
        Column("WINDOW"),
        right("ACTIVE"),
        right("LENT"),
        right("CONCURRENCY"),
        *_AMOUNTS,
        wide("START"),
        wide("END"),
        wide("SHARING"),
        wide("LENDS-TO"),
        wide("CAPS"),
    ),
    names=_envelope_names,
    rows=each(_envelope_row),
    trees=each(_envelope_tree),
)


def _cap_status(account: CapAccount) -> Tree:
    return {
        "activeGPUs": account.gpus_active,
        "reservedGPUs": account.gpus_reserved,
        "committedGPUMs": account.committed_gpu_ms,
        "maxGPUMs": account.spec.gpu_ms_max,
    }


def _cap_row(moment: Moment, name: str) -> Row:
    account = moment.view.caps[CapId(name)]
    spec = account.spec
    return (
        name,
        spec.flavor,
        names(spec.envelopes),
        str(account.gpus_active),
        "-" if spec.concurrency_max is None else str(spec.concurrency_max),
        hours(account.committed_gpu_ms),
        "-" if spec.gpu_ms_max is None else hours(spec.gpu_ms_max),
    )


def _cap_tree(moment: Moment, name: str) -> Tree:
    account = moment.view.caps[CapId(name)]
    budget = render(moment.view.budgets[name.partition("/")[0]])["spec"]
    assert isinstance(budget, dict), name
    spec = next(each for each in budget["aggregateCaps"] if each["name"] == account.spec.name)
    return document("Cap", name, spec=spec, status=_cap_status(account))


CAP = Kind(
    called=kind_names.CAP,
    columns=(
        Column("NAME"),
        Column("FLAVOR"),
        Column("ENVELOPES"),
        right("ACTIVE"),
        right("MAX"),
        right("SPENT+HELD"),
        right("MAX-GPU-HOURS"),
    ),
    names=lambda moment: sorted(
        name for name, account in moment.view.caps.items() if not account.retired
    ),
    rows=each(_cap_row),
    trees=each(_cap_tree),
)


def _named_charges(moment: Moment, records: Iterable[RunRecord]) -> dict[str, Charge]:
    """Return the charges of ``records`` by their names, ``RUN/PAYER/TIER``.

    The charges of each run are in the order of payment.
    """
    found = {}
    for record in records:
        for charge in charges_of(moment, record):
            found[f"{charge.run}/{charge.payer}/{charge.tier}"] = charge
    return found


def _charges_called(moment: Moment, name: str) -> list[str]:
    """Return the names of a run's charges; ``name`` is the name of the run, or of one charge."""
    record = moment.view.runs.get(name.partition("/")[0])
    return [] if record is None else list(_named_charges(moment, [record]))


def _wanted_charges(moment: Moment, wanted: Sequence[str]) -> list[Charge]:
    runs = dict.fromkeys(name.partition("/")[0] for name in wanted)
    known = _named_charges(moment, (moment.view.runs[run] for run in runs))
    return [known[name] for name in wanted]


def _charge_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    """Return a row for each charge, and a last row with the sums; the rounded hours add up."""
    found = _wanted_charges(moment, wanted)
    if not found:
        return []
    amounts = hours_that_add_up([charge.gpu_ms for charge in found])
    rows = [
        (
            charge.run,
            charge.owner,
            charge.payer,
            moment.view.envelopes[charge.payer].owner,
            charge.tier.value,
            str(charge.gpus),
            amount,
            str(charge.gpu_ms),
        )
        for charge, amount in zip(found, amounts, strict=True)
    ]
    total = sum(charge.gpu_ms for charge in found)
    gpus = sum(charge.gpus for charge in found)
    return [*rows, ("TOTAL", "", "", "", "", str(gpus), hours(total), str(total))]


def _charge_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    found = _wanted_charges(moment, wanted)
    return [_charge_tree(moment, *each) for each in zip(wanted, found, strict=True)]


def _charge_tree(moment: Moment, name: str, charge: Charge) -> Tree:
    status = {
        "run": charge.run,
        "owner": charge.owner,
        "payer": charge.payer,
        "payerOwner": moment.view.envelopes[charge.payer].owner,
        "tier": charge.tier.value,
        "activeGPUs": charge.gpus,
        "spentGPUMs": charge.gpu_ms,
    }
    return document("Charge", name, status=status)


CHARGE = Kind(
    called=kind_names.CHARGE,
    columns=(
        Column("RUN"),
        Column("OWNER"),
        Column("PAID-FROM"),
        Column("PAID-BY"),
        Column("TIER"),
        right("GPUS-NOW"),
        right("GPU-HOURS"),
        right("GPU-MS", wide=True),
    ),
    names=lambda moment: list(_named_charges(moment, moment.view.runs.values())),
    called_by=_charges_called,
    rows=_charge_rows,
    trees=_charge_trees,
)
