/** The fleet in arrays: which lease has which GPU, kept up by events; and where each node is drawn. */

import type { MapGiven } from "./api_types.ts";
import type { LedgerEvent } from "./live.ts";

/** The size of one GPU is 1: a node is a block of GPUs, a domain of nodes, a region of domains. */
const NODE_COLUMNS = 4;
export const NODE_GAP = 0.6;
const DOMAIN_GAP = 2.2;
/** The room for the name and the flavor of a domain. */
const DOMAIN_WIDTH_MIN = 9;
const REGION_GAP = 2;
/** The room between the frame of a region and its domains. */
const REGION_PAD = 0.9;
/** How much wider than the view a region may be laid out, the best one to look at from near first. */
const SHAPES = [1, 2, 0.5, 4];
/** How much larger than the smallest map one may be whose regions are better to look at. */
const LARGER_MAX = 1.25;
/** How tall the title of a region is in pixels, when the whole fleet is in sight. */
export const REGION_TITLE_PX = 18;
/** The room for the title of a domain, above its nodes. */
export const TITLE = 1.5;
const FREE = -1;
/** How many numbers of rows are tried. */
const ROWS_MAX = 60;

/** A rectangle of the map, in GPUs. */
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Domain extends Place {
  name: string;
  flavor: string;
  pool: string;
  nodes: number[];
}

/** The domains whose names begin alike: `us-west/c1/A` lies in `us-west`. */
export interface Region extends Place {
  name: string;
  gpus: number;
  domains: Domain[];
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
  readonly regions: Region[] = [];
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

  /** Lays `map` out for a view that is `widthPx` wide, and `aspect` times as wide as high. */
  constructor(map: MapGiven, aspect: number, widthPx: number) {
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
    this.gather();
    this.place(aspect, widthPx);
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

  private gather(): void {
    const known = new Map<string, Region>();
    for (const domain of this.domains) {
      const name = domain.name.includes("/") ? (domain.name.split("/")[0] as string) : "";
      let found = known.get(name);
      if (!found) {
        found = { name, gpus: 0, domains: [], x: 0, y: 0, width: 0, height: 0 };
        known.set(name, found);
        this.regions.push(found);
      }
      found.domains.push(domain);
      for (const node of domain.nodes) found.gpus += this.gpus[node] as number;
    }
  }

  /** Places nodes in domains, domains in regions, and these in rows about as wide as the view. */
  private place(aspect: number, widthPx: number): void {
    for (const domain of this.domains) this.fold(domain);
    this.arrange(aspect, TITLE);
    // A title has a size in pixels: from afar it takes the room of more GPUs.
    const titlePx = (TITLE * widthPx) / Math.max(this.width, this.height * aspect, 1);
    if (titlePx < REGION_TITLE_PX) this.arrange(aspect, (TITLE * REGION_TITLE_PX) / titlePx);
    for (const domain of this.domains) {
      for (const node of domain.nodes) {
        this.x[node] = (this.x[node] as number) + domain.x;
        this.y[node] = (this.y[node] as number) + domain.y + TITLE;
      }
    }
  }

  private arrange(aspect: number, title: number): void {
    const tried = SHAPES.map((shape) => {
      this.shape(aspect, title, shape);
      return { shape, size: Math.max(this.width, this.height * aspect) };
    });
    const most = LARGER_MAX * Math.min(...tried.map((each) => each.size));
    const best = tried.find((each) => each.size <= most);
    this.shape(aspect, title, best?.shape ?? 1);
    for (const region of this.regions) {
      for (const domain of region.domains) {
        domain.x += region.x + REGION_PAD;
        domain.y += region.y + title;
      }
    }
  }

  /** Lays out domains in their regions, and regions in the map. */
  private shape(aspect: number, title: number, shape: number): void {
    for (const region of this.regions) {
      const { width, height } = inRows(region.domains, aspect * shape, DOMAIN_GAP);
      region.width = width + 2 * REGION_PAD;
      region.height = height + title + REGION_PAD;
    }
    const { width, height } = inRows(this.regions, aspect, REGION_GAP);
    [this.width, this.height] = [width, height];
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
    domain.width = Math.max(Math.min(columns, domain.nodes.length) * wide - NODE_GAP, DOMAIN_WIDTH_MIN);
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

interface Size {
  width: number;
  height: number;
}

/** Puts places beside each other in as many rows as fit `aspect` best; returns their size. */
function inRows(places: Place[], aspect: number, gap: number): Size {
  const whole = places.reduce((sum, each) => sum + each.width + gap, -gap);
  const widest = Math.max(0, ...places.map((each) => each.width));
  let best = { most: whole, size: Number.POSITIVE_INFINITY };
  for (let rows = 1; rows <= Math.min(places.length, ROWS_MAX); rows += 1) {
    // A little more than an even part: the last place of a row is not to begin another one.
    const most = Math.max(widest, (whole / rows) * 1.02 + (rows > 1 ? widest / 2 : 0));
    const { width, height } = filled(places, most, gap);
    const size = Math.max(width, height * aspect);
    if (size < best.size) best = { most, size };
  }
  return filled(places, best.most, gap);
}

/** Fills rows that are `most` wide at most. */
function filled(places: Place[], most: number, gap: number): Size {
  let [x, y, tallest, width] = [0, 0, 0, 0];
  for (const each of places) {
    if (x > 0 && x + each.width > most) [x, y, tallest] = [0, y + tallest + gap, 0];
    [each.x, each.y] = [x, y];
    x += each.width + gap;
    tallest = Math.max(tallest, each.height);
    width = Math.max(width, x - gap);
  }
  return { width, height: y + tallest };
}
