/** Leases as bars: each domain is a band as high as its GPUs, and a lease takes as many rows of it. */

import type { MapGiven } from "./api_types.ts";
import type { LedgerEvent } from "./live.ts";

export type Kind = "past" | "running" | "planned";

export interface Piece {
  run: string;
  owner: string;
  kind: Kind;
  isSpare: boolean;
  from: number;
  until: number;
  gpus: number;
  domain: number;
  /** The first row of its band that it takes. */
  row: number;
}

export interface Band {
  name: string;
  gpus: number;
  /** As many rows as it has GPUs; and more where planned work finds no room beside other work. */
  rows: number;
}

export interface Reservation {
  metadata: { name: string };
  spec: { runRef: { name: string } };
  status: {
    state: string;
    plannedStart: string | null;
    slice: { flavor: string; domains: { domain: string; gpus: number }[] };
    payers: { holdMsPerGPU: number }[];
  };
}

const HOUR_MS = 3_600_000;

/** Returns the bands of a fleet, and what lies in them: past, running and planned. */
export function timeline(
  map: MapGiven,
  events: LedgerEvent[],
  reservations: Reservation[],
): { bands: Band[]; pieces: Piece[] } {
  const at = new Map<string, number>();
  const bands: Band[] = [];
  const domainOf = map.nodes.domain.map((name, node) => {
    let found = at.get(name);
    if (found === undefined) {
      found = bands.push({ name, gpus: 0, rows: 0 }) - 1;
      at.set(name, found);
    }
    (bands[found] as Band).gpus += map.nodes.gpus[node] as number;
    return found;
  });
  const nodeAt = new Map(map.nodes.name.map((name, node) => [name, node]));
  const pieces = [
    ...running(map, domainOf, bands.length),
    ...past(events, nodeAt, domainOf),
    ...planned(reservations, at),
  ];
  stack(pieces, bands);
  return { bands, pieces };
}

function running(map: MapGiven, domainOf: number[], domains: number): Piece[] {
  const found = new Map<number, Piece>();
  const { node, gpus, lease } = map.held;
  lease.forEach((each, row) => {
    const domain = domainOf[node[row] as number] as number;
    const key = each * domains + domain;
    const known = found.get(key);
    if (known) {
      known.gpus += gpus[row] as number;
      return;
    }
    found.set(key, {
      run: map.leases.run[each] as string,
      owner: map.leases.owner[each] as string,
      kind: "running",
      isSpare: map.leases.role[each] === "Spare",
      from: map.leases.startMs[each] as number,
      until: map.leases.untilMs[each] as number,
      gpus: gpus[row] as number,
      domain,
      row: 0,
    });
  });
  return [...found.values()];
}

/** Leases of which the start and the end are among the events. */
function past(events: LedgerEvent[], nodeAt: Map<string, number>, domainOf: number[]): Piece[] {
  const begun = new Map<string, LedgerEvent>();
  const owners = new Map<string, string>();
  const found: Piece[] = [];
  for (const event of events) {
    if (event.tag.startsWith("run-submitted")) {
      const run = event.run as { name: string; owner: string };
      owners.set(run.name, run.owner);
    } else if (event.tag.startsWith("lease-started")) {
      begun.set(String(event.lease), event);
    } else if (event.tag.startsWith("lease-ended")) {
      const start = begun.get(String(event.lease));
      if (!start) continue;
      const widths = new Map<number, number>();
      for (const { node, slots } of start.slots as { node: string; slots: number[] }[]) {
        const domain = domainOf[nodeAt.get(node) ?? -1];
        if (domain !== undefined) widths.set(domain, (widths.get(domain) ?? 0) + slots.length);
      }
      for (const [domain, gpus] of widths) {
        found.push({
          run: String(start.run),
          owner: owners.get(String(start.run)) ?? "",
          kind: "past",
          isSpare: start.role === "Spare",
          from: Number(start.start_ms),
          until: Number(event.end_ms),
          gpus,
          domain,
          row: 0,
        });
      }
    }
  }
  return found;
}

function planned(reservations: Reservation[], at: Map<string, number>): Piece[] {
  return reservations.flatMap(({ spec, status }) => {
    if (status.plannedStart === null) return [];
    const from = Date.parse(status.plannedStart);
    const holds = status.payers.map((payer) => payer.holdMsPerGPU);
    return status.slice.domains.flatMap(({ domain, gpus }) => {
      const found = at.get(domain);
      if (found === undefined) return [];
      return [
        {
          run: spec.runRef.name,
          owner: "",
          kind: "planned" as const,
          isSpare: false,
          from,
          until: from + Math.max(HOUR_MS / 60, ...holds),
          gpus,
          domain: found,
          row: 0,
        },
      ];
    });
  });
}

/** Returns the bar of `pieces` that shows what `old` showed in earlier ones; null where it is gone. */
export function sameBar(pieces: Piece[], old: Piece): Piece | null {
  // Planned work begins, and work that runs ends: only its run and its domain stay.
  const alike = pieces.filter((each) => each.run === old.run && each.isSpare === old.isSpare);
  const there = alike.filter((each) => each.domain === old.domain);
  const away = (each: Piece): number => Math.abs(each.from - old.from);
  return (there.length ? there : alike).sort((one, other) => away(one) - away(other))[0] ?? null;
}

/**
 * Gives each piece the lowest rows of its band that are free for as long as it takes.
 *
 * Planned work often begins before what runs there has to end. It then lies in rows of its own below
 * the GPUs of its domain, so that neither hides the other.
 */
export function stack(pieces: Piece[], bands: Band[]): void {
  const lanes = bands.map((): Lanes => ({ busyUntil: [], full: 0, fullUntil: Infinity }));
  for (const band of bands) band.rows = band.gpus;
  for (const piece of pieces.sort((one, other) => one.from - other.from || other.gpus - one.gpus)) {
    const taken = lanes[piece.domain] as Lanes;
    const { busyUntil } = taken;
    const band = bands[piece.domain] as Band;
    const own = Math.max(band.gpus, piece.gpus);
    let row = freeRow(busyUntil, piece, fullRows(taken, piece.from), own);
    if (row === null && piece.kind === "planned") {
      row = freeRow(busyUntil, piece, band.gpus, Math.max(band.gpus, busyUntil.length) + piece.gpus);
    }
    piece.row = row ?? own - piece.gpus;
    band.rows = Math.max(band.rows, piece.row + piece.gpus);
    for (let lane = piece.row; lane < piece.row + piece.gpus; lane += 1) {
      busyUntil[lane] = Math.max(busyUntil[lane] ?? 0, piece.until);
    }
  }
}

/** The rows of a band; the first `full` of them are taken until `fullUntil` at least. */
interface Lanes {
  busyUntil: number[];
  full: number;
  fullUntil: number;
}

/** Returns how many rows from the first one on are taken at `from`, looking at few of them again. */
function fullRows(lanes: Lanes, from: number): number {
  if (from >= lanes.fullUntil) {
    lanes.full = 0;
    lanes.fullUntil = Infinity;
  }
  for (;;) {
    const until = lanes.busyUntil[lanes.full] ?? 0;
    if (until <= from) return lanes.full;
    lanes.full += 1;
    lanes.fullUntil = Math.min(lanes.fullUntil, until);
  }
}

/** Returns the first of as many free rows from `low` on as the piece takes; null where `high` is before. */
function freeRow(busyUntil: number[], piece: Piece, low: number, high: number): number | null {
  let free = 0;
  for (let lane = low; lane < high; lane += 1) {
    free = (busyUntil[lane] ?? 0) <= piece.from ? free + 1 : 0;
    if (free === piece.gpus) return lane - free + 1;
  }
  return null;
}
