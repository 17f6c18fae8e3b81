/** Draws the fleet: as blocks from afar, as single GPUs from near, and only what is in sight. */

import { type Domain, type FleetModel, NODE_GAP, type Place, REGION_TITLE_PX, type Region, TITLE } from "./fleet_model.ts";
import { number } from "./format.ts";
import { COLORS, colorOf, hasColor } from "./owner_colors.ts";

export interface View {
  /** Pixels for one GPU. */
  scale: number;
  x: number;
  y: number;
}

export interface Chosen {
  owner: string;
  run: string;
}

/** How the map is shown: colours of owners by name, what is chosen, GPUs promised by domain. */
export interface Shown {
  colors: Map<string, string>;
  chosen: Chosen;
  reserved: Map<string, number>;
}

export interface Paint {
  accent: string;
  free: string;
  bad: string;
  wait: string;
  text: string;
  quiet: string;
  line: string;
  card: string;
  other: string;
  onOwner: string;
  owners: string[];
}

const NEAR = 4;
const TITLE_PX_MIN = 9;
/** From how many pixels for a GPU on nodes have their names, and GPUs their numbers. */
const NAMED = 17;
const NUMBERED = 24;
const DIM = 0.15;

/** Returns the colours of the page, as they are now. */
export function paintOf(): Paint {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    accent: read("--accent"),
    free: read("--free"),
    bad: read("--bad"),
    wait: read("--wait"),
    text: read("--text"),
    quiet: read("--quiet"),
    line: read("--line"),
    card: read("--card"),
    other: read("--owner-other"),
    onOwner: read("--on-owner"),
    owners: Array.from({ length: COLORS }, (_, at) => read(`--owner-${at}`)),
  };
}

/** Returns the colour in which GPUs of an owner are painted. */
export function paintFor(owner: string, paint: Paint): string {
  return hasColor(owner) ? (paint.owners[colorOf(owner)] as string) : paint.other;
}

/** Returns the view in which the whole fleet is in sight. */
export function fitted(model: FleetModel, width: number, height: number): View {
  const scale = Math.min((width - 24) / Math.max(model.width, 1), (height - 24) / Math.max(model.height, 1), 22);
  return { scale, x: (width - model.width * scale) / 2, y: Math.max(12, (height - model.height * scale) / 2) };
}

/** Returns the view in which `place` is as large as may be. */
export function closeTo(place: Place, width: number, height: number): View {
  const scale = Math.min((width - 48) / place.width, (height - 48) / place.height, 30);
  return {
    scale,
    x: width / 2 - (place.x + place.width / 2) * scale,
    y: height / 2 - (place.y + place.height / 2) * scale,
  };
}

/** Draws `model` as it is. */
export function drawFleet(
  canvas: HTMLCanvasElement,
  model: FleetModel,
  view: View,
  shown: Shown,
): void {
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const paint = paintOf();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const pen = new Pen(context, model, view, shown, paint);
  const isSeen = (place: Place): boolean => {
    const [x, y] = [view.x + place.x * view.scale, view.y + place.y * view.scale];
    return x <= width && y <= height && x + place.width * view.scale >= 0 && y + place.height * view.scale >= 0;
  };
  for (const region of model.regions) {
    if (!isSeen(region)) continue;
    if (region.name) pen.border(region);
    for (const domain of region.domains) {
      if (!isSeen(domain)) continue;
      pen.title(domain, view.x + domain.x * view.scale, view.y + domain.y * view.scale);
      for (const node of domain.nodes) pen.node(node, width, height);
    }
    // Last, because it stays in sight while its region goes on under it.
    if (region.name) pen.heading(region);
  }
}

/** Returns how large the title of a domain is, in pixels. */
function titleSize(view: View): number {
  return Math.min(13, view.scale * 1.3);
}

class Pen {
  private readonly context: CanvasRenderingContext2D;
  private readonly model: FleetModel;
  private readonly view: View;
  private readonly shown: Shown;
  private readonly paint: Paint;

  constructor(
    context: CanvasRenderingContext2D,
    model: FleetModel,
    view: View,
    shown: Shown,
    paint: Paint,
  ) {
    this.context = context;
    this.model = model;
    this.view = view;
    this.shown = shown;
    this.paint = paint;
  }

  border(region: Region): void {
    const { context, view } = this;
    context.strokeStyle = this.paint.line;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(
      view.x + region.x * view.scale,
      view.y + region.y * view.scale,
      region.width * view.scale,
      region.height * view.scale,
      6,
    );
    context.stroke();
  }

  /** The name of a region and how much of it is held: at its top, or at that of the view. */
  heading(region: Region): void {
    const { context, model, view } = this;
    const held = region.domains.reduce((sum, domain) => sum + model.count(domain).held, 0);
    const left = Math.max(0, view.x + region.x * view.scale) + 6;
    const right = view.x + (region.x + region.width) * view.scale;
    const bottom = view.y + (region.y + region.height) * view.scale;
    const top = Math.min(Math.max(0, view.y + region.y * view.scale) + 1, bottom - REGION_TITLE_PX);
    const room = right - left - 6;
    if (room < 20) return;
    context.textBaseline = "top";
    context.font = "600 13px system-ui, sans-serif";
    const wide = context.measureText(region.name).width;
    const amount = `${number(held)} of ${number(region.gpus)} GPUs held`;
    context.font = "12px system-ui, sans-serif";
    const more = wide + 8 + context.measureText(amount).width;
    const isWhole = more <= room;
    context.fillStyle = this.paint.card;
    context.globalAlpha = 0.9;
    context.fillRect(left - 4, top, Math.min(room, isWhole ? more : wide) + 8, REGION_TITLE_PX);
    context.globalAlpha = 1;
    if (isWhole) {
      context.fillStyle = this.paint.quiet;
      context.fillText(amount, left + wide + 8, top + 4);
    }
    context.font = "600 13px system-ui, sans-serif";
    context.fillStyle = this.paint.text;
    context.fillText(region.name, left, top + 3, room);
  }

  title(domain: Domain, x: number, y: number): void {
    this.reserved(domain, x, y);
    const size = titleSize(this.view);
    if (size < TITLE_PX_MIN) return;
    this.context.font = `600 ${size}px system-ui, sans-serif`;
    this.context.fillStyle = this.paint.text;
    this.context.textBaseline = "top";
    const most = domain.width * this.view.scale;
    // Its region is written above it already.
    const name = domain.name.slice(domain.name.indexOf("/") + 1);
    this.context.fillText(`${name}  ${domain.flavor}`, x, y + size * 0.15, most);
  }

  /** What is promised of a domain: a dashed line under its title, as long as its part of it. */
  private reserved(domain: Domain, x: number, y: number): void {
    const gpus = this.shown.reserved.get(`${domain.name} ${domain.flavor}`);
    if (!gpus) return;
    const { context, model, view } = this;
    const all = domain.nodes.reduce((sum, node) => sum + (model.gpus[node] as number), 0);
    const line = Math.max(1.5, Math.min(3, view.scale * 0.2));
    // Right below the title, where it has one: the names of nodes are under it.
    const size = titleSize(view);
    const bottom = y + TITLE * view.scale - line;
    const top = size < TITLE_PX_MIN ? bottom : Math.min(bottom, y + size * 1.4);
    context.strokeStyle = this.paint.accent;
    context.lineWidth = line;
    context.setLineDash([2 * line, line]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x + domain.width * view.scale * Math.min(1, gpus / Math.max(all, 1)), top);
    context.stroke();
    context.setLineDash([]);
  }

  node(node: number, width: number, height: number): void {
    const { model, view } = this;
    const x = view.x + (model.x[node] as number) * view.scale;
    const y = view.y + (model.y[node] as number) * view.scale;
    const [wide, tall] = model.sizeOf(node);
    if (x > width || y > height || x + wide * view.scale < 0 || y + tall * view.scale < 0) return;
    if (view.scale < NEAR) this.block(node, x, y, wide, tall);
    else this.cells(node, x, y);
    this.frame(node, x, y, wide, tall);
    if (view.scale >= NAMED) this.name(node, x, y, wide);
  }

  /** A node from afar: as many rows of colour as it has different leases. */
  private block(node: number, x: number, y: number, wide: number, tall: number): void {
    const { model, context, view } = this;
    const gpus = model.gpus[node] as number;
    const whole = wide * view.scale;
    let from = 0;
    while (from < gpus) {
      const lease = model.slots[(model.first[node] as number) + from] as number;
      let to = from + 1;
      while (to < gpus && model.slots[(model.first[node] as number) + to] === lease) to += 1;
      this.fill(lease);
      context.fillRect(x + (whole * from) / gpus, y, (whole * (to - from)) / gpus, tall * view.scale);
      from = to;
    }
    context.globalAlpha = 1;
  }

  private cells(node: number, x: number, y: number): void {
    const { model, context, view } = this;
    const gap = Math.max(1, view.scale * 0.12);
    for (let ordinal = 0; ordinal < (model.gpus[node] as number); ordinal += 1) {
      const lease = model.slots[(model.first[node] as number) + ordinal] as number;
      const left = x + (ordinal % 4) * view.scale;
      const top = y + Math.floor(ordinal / 4) * view.scale;
      const side = view.scale - gap;
      this.fill(lease);
      context.fillRect(left, top, side, side);
      context.globalAlpha = 1;
      const isSpare = lease >= 0 && model.roles[lease] === "Spare";
      if (isSpare) this.spare(left, top, side);
      if (view.scale >= NUMBERED) {
        context.font = `${Math.min(12, side * 0.5)}px system-ui, sans-serif`;
        context.textBaseline = "middle";
        context.textAlign = "center";
        context.fillStyle = lease < 0 || isSpare ? this.paint.quiet : this.paint.onOwner;
        context.fillText(String(ordinal), left + side / 2, top + side / 2);
        context.textAlign = "left";
      }
    }
  }

  private name(node: number, x: number, y: number, wide: number): void {
    const { context, view } = this;
    const size = Math.min(11, view.scale * NODE_GAP - 1);
    context.font = `${size}px system-ui, sans-serif`;
    context.textBaseline = "bottom";
    context.fillStyle = this.paint.quiet;
    context.fillText(this.model.names[node] as string, x, y - 0.5, wide * view.scale);
  }

  private fill(lease: number): void {
    const { model, context } = this;
    const { chosen, colors } = this.shown;
    if (lease < 0) {
      context.globalAlpha = 1;
      context.fillStyle = this.paint.free;
      return;
    }
    const isDim =
      (chosen.owner !== "" && model.owners[lease] !== chosen.owner) ||
      (chosen.run !== "" && model.runs[lease] !== chosen.run);
    context.globalAlpha = isDim ? DIM : 1;
    context.fillStyle = colors.get(model.owners[lease] as string) ?? this.paint.other;
  }

  /** A spare is hollow: it is paid for, and does not work. */
  private spare(left: number, top: number, side: number): void {
    const inset = Math.max(1.5, side * 0.2);
    this.context.fillStyle = this.paint.free;
    this.context.fillRect(left + inset, top + inset, side - 2 * inset, side - 2 * inset);
  }

  private frame(node: number, x: number, y: number, wide: number, tall: number): void {
    const status = this.model.statuses[node];
    if (status === "Ready") return;
    const { context, view } = this;
    context.strokeStyle = status === "Failed" ? this.paint.bad : this.paint.wait;
    context.lineWidth = Math.max(1, Math.min(2.5, view.scale * 0.15));
    const [w, h] = [wide * view.scale, tall * view.scale];
    context.strokeRect(x - 1, y - 1, w, h);
    if (status !== "Failed") return;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + w - 2, y + h - 2);
    context.moveTo(x + w - 2, y);
    context.lineTo(x, y + h - 2);
    context.stroke();
  }
}
