/** The fleet in arrays: which lease has which GPU, kept up by events; and where each node is drawn. */

import type { MapGiven } from "./api_types.ts";
import type { LedgerEvent } from "./live.ts";

/** The size of one GPU is 1: a node is a block of GPUs, a domain a block of nodes. */
const NODE_COLUMNS = 4;
const NODE_GAP = 0.6;
const DOMAIN_GAP = 2.2;
/** The room for the title of a domain, above its nodes. */
export const TITLE = 1.5;
const FREE = -1;

export interface Domain {
  name: string;
  flavor: string;
  pool: string;
  nodes: number[];
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Slot {
  node: number;
  ordinal: number;
  lease: number;
}

export class FleetModel {
  readonly names: string[];
  readonly gpus: Uint16Array;
  readonly statuses: string[];
  readonly domains: Domain[] = [];
  readonly domainOf: Uint32Array;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly leaseNames: string[];
  readonly runs: string[];
  readonly owners: string[];
  readonly roles: string[];
  /** The lease of each GPU, node after node; less than 0 where it is free. */
  readonly slots: Int32Array;
  readonly first: Uint32Array;
  sequence: number;
  width = 0;
  height = 0;
  private readonly leaseAt = new Map<string, number>();
  private readonly nodeAt = new Map<string, number>();
  private readonly held = new Map<number, number[]>();

  constructor(map: MapGiven, aspect: number) {
    const { nodes, leases, held } = map;
    this.sequence = map.sequence;
    this.names = nodes.name;
    this.gpus = Uint16Array.from(nodes.gpus);
    this.statuses = nodes.status;
    this.leaseNames = leases.name;
    this.runs = leases.run;
    this.owners = leases.owner;
    this.roles = leases.role;
    const count = nodes.name.length;
    this.first = new Uint32Array(count + 1);
    for (let at = 0; at < count; at += 1) {
      this.first[at + 1] = (this.first[at] as number) + (this.gpus[at] as number);
      this.nodeAt.set(this.names[at] as string, at);
    }
    this.slots = new Int32Array(this.first[count] as number).fill(FREE);
    for (let at = 0; at < held.node.length; at += 1) {
      const from = (this.first[held.node[at] as number] as number) + (held.first[at] as number);
      this.take(held.lease[at] as number, from, held.gpus[at] as number);
    }
    leases.name.forEach((name, at) => this.leaseAt.set(name, at));
    this.domainOf = new Uint32Array(count);
    this.x = new Float32Array(count);
    this.y = new Float32Array(count);
    this.group(map);
    this.place(aspect);
  }

  private take(lease: number, from: number, gpus: number): void {
    this.slots.fill(lease, from, from + gpus);
    const mine = this.held.get(lease) ?? [];
    for (let slot = from; slot < from + gpus; slot += 1) mine.push(slot);
    this.held.set(lease, mine);
  }

  private group({ nodes }: MapGiven): void {
    const known = new Map<string, number>();
    nodes.domain.forEach((name, at) => {
      const [flavor, pool] = [nodes.flavor[at] as string, nodes.pool[at] as string];
      const key = `${name}\0${flavor}\0${pool}`;
      let found = known.get(key);
      if (found === undefined) {
        found = this.domains.push({ name, flavor, pool, nodes: [], x: 0, y: 0, width: 0, height: 0 }) - 1;
        known.set(key, found);
      }
      this.domains[found]?.nodes.push(at);
      this.domainOf[at] = found;
    });
  }

  /** Places nodes in domains, and domains in rows that together are about as wide as the view. */
  private place(aspect: number): void {
    for (const domain of this.domains) this.fold(domain);
    const area = this.domains.reduce(
      (sum, each) => sum + (each.width + DOMAIN_GAP) * (each.height + DOMAIN_GAP + TITLE),
      0,
    );
    const widest = Math.max(0, ...this.domains.map((each) => each.width));
    const most = Math.max(widest, Math.sqrt(area * aspect));
    let [x, y, tallest] = [0, 0, 0];
    for (const domain of this.domains) {
      if (x > 0 && x + domain.width > most) {
        [x, y, tallest] = [0, y + tallest + DOMAIN_GAP, 0];
      }
      for (const node of domain.nodes) {
        this.x[node] = (this.x[node] as number) + x;
        this.y[node] = (this.y[node] as number) + y + TITLE;
      }
      [domain.x, domain.y] = [x, y];
      x += domain.width + DOMAIN_GAP;
      tallest = Math.max(tallest, domain.height);
      this.width = Math.max(this.width, x - DOMAIN_GAP);
    }
    this.height = y + tallest;
  }

  private fold(domain: Domain): void {
    const sizes = domain.nodes.map((node) => this.sizeOf(node));
    const [wide, tall] = [0, 1].map((at) => Math.max(...sizes.map((size) => size[at] as number)) + NODE_GAP) as [
      number,
      number,
    ];
    const columns = Math.max(1, Math.round(Math.sqrt((domain.nodes.length * tall * 1.5) / wide)));
    domain.nodes.forEach((node, at) => {
      this.x[node] = (at % columns) * wide;
      this.y[node] = Math.floor(at / columns) * tall;
    });
    domain.width = Math.max(Math.min(columns, domain.nodes.length) * wide - NODE_GAP, 10);
    domain.height = TITLE + Math.ceil(domain.nodes.length / columns) * tall;
  }

  /** Returns how many GPUs wide and high a node is drawn. */
  sizeOf(node: number): [number, number] {
    const gpus = this.gpus[node] as number;
    return [Math.min(gpus, NODE_COLUMNS), Math.ceil(gpus / NODE_COLUMNS)];
  }

  /** Returns the GPU that is drawn at a place; nothing between nodes. */
  at(x: number, y: number): Slot | null {
    const domain = this.domains.find(
      (each) => x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height,
    );
    for (const node of domain?.nodes ?? []) {
      const [column, row] = [x - (this.x[node] as number), y - (this.y[node] as number)];
      const [wide, tall] = this.sizeOf(node);
      if (column < 0 || row < 0 || column >= wide || row >= tall) continue;
      const ordinal = Math.floor(row) * NODE_COLUMNS + Math.floor(column);
      if (ordinal >= (this.gpus[node] as number)) return null;
      return { node, ordinal, lease: this.slots[(this.first[node] as number) + ordinal] as number };
    }
    return null;
  }

  /** Enters an event; returns whether the map has changed, or null where it must be asked anew. */
  enter(event: LedgerEvent): boolean | null {
    if (event.seq <= this.sequence) return false;
    this.sequence = event.seq;
    const kind = event.tag.split("/")[0];
    if (kind === "lease-started") return this.start(event);
    if (kind === "lease-ended") return this.end(String(event.lease));
    if (kind === "node-marked") return this.mark(String(event.node), String(event.status));
    const isOfFleet = ["node-applied", "node-removed", "pool-applied", "pool-removed", "spare-filled"];
    return isOfFleet.includes(kind ?? "") ? null : false;
  }

  private start(event: LedgerEvent): boolean | null {
    const owner = this.ownerOf(String(event.run));
    if (owner === null) return null;
    const lease = this.leaseNames.push(String(event.lease)) - 1;
    this.leaseAt.set(String(event.lease), lease);
    this.runs.push(String(event.run));
    this.roles.push(String(event.role));
    this.owners.push(owner);
    for (const { node, slots } of event.slots as { node: string; slots: number[] }[]) {
      const at = this.nodeAt.get(node);
      if (at === undefined) return null;
      for (const ordinal of slots) this.take(lease, (this.first[at] as number) + ordinal, 1);
    }
    return true;
  }

  private end(name: string): boolean {
    const lease = this.leaseAt.get(name);
    if (lease === undefined) return false;
    for (const slot of this.held.get(lease) ?? []) {
      if (this.slots[slot] === lease) this.slots[slot] = FREE;
    }
    this.held.delete(lease);
    this.leaseAt.delete(name);
    return true;
  }

  private mark(name: string, status: string): boolean | null {
    const at = this.nodeAt.get(name);
    if (at === undefined) return null;
    this.statuses[at] = status;
    return true;
  }

  /** The owner of a run, learnt as runs are submitted, or from a lease that it has already. */
  readonly submitted = new Map<string, string>();

  private ownerOf(run: string): string | null {
    const known = this.submitted.get(run);
    if (known !== undefined) return known;
    const at = this.runs.indexOf(run);
    return at < 0 ? null : (this.owners[at] as string);
  }

  /** Returns how many GPUs each owner has, most first. */
  shares(): { owner: string; gpus: number; spare: number }[] {
    const found = new Map<string, { owner: string; gpus: number; spare: number }>();
    for (const lease of this.slots) {
      if (lease < 0) continue;
      const owner = this.owners[lease] as string;
      const share = found.get(owner) ?? { owner, gpus: 0, spare: 0 };
      share.gpus += 1;
      if (this.roles[lease] === "Spare") share.spare += 1;
      found.set(owner, share);
    }
    return [...found.values()].sort((one, other) => other.gpus - one.gpus || (one.owner < other.owner ? -1 : 1));
  }

  /** Returns how many GPUs of a domain are held, free, and on nodes that are not ready. */
  count(domain: Domain): { held: number; free: number; out: number } {
    const found = { held: 0, free: 0, out: 0 };
    for (const node of domain.nodes) {
      const isReady = this.statuses[node] === "Ready";
      for (let slot = this.first[node] as number; slot < (this.first[node + 1] as number); slot += 1) {
        if ((this.slots[slot] as number) >= 0) found.held += 1;
        else if (isReady) found.free += 1;
        else found.out += 1;
      }
    }
    return found;
  }
}
