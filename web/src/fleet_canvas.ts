/** Draws the fleet: as blocks from afar, as single GPUs from near, and only what is in sight. */

import { type Domain, type FleetModel, TITLE } from "./fleet_model.ts";
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
  other: string;
  onOwner: string;
  owners: string[];
}

const NEAR = 4;
const TITLE_PX_MIN = 9;
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
  for (const domain of model.domains) {
    const [x, y] = [view.x + domain.x * view.scale, view.y + domain.y * view.scale];
    if (x > width || y > height) continue;
    if (x + domain.width * view.scale < 0 || y + domain.height * view.scale < 0) continue;
    pen.title(domain, x, y);
    for (const node of domain.nodes) pen.node(node, width, height);
  }
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

  title(domain: Domain, x: number, y: number): void {
    this.reserved(domain, x, y);
    const size = Math.min(13, this.view.scale * 1.3);
    if (size < TITLE_PX_MIN) return;
    this.context.font = `600 ${size}px system-ui, sans-serif`;
    this.context.fillStyle = this.paint.text;
    this.context.textBaseline = "top";
    const most = domain.width * this.view.scale;
    this.context.fillText(`${domain.name}  ${domain.flavor}`, x, y + size * 0.3, most);
  }

  /** What is promised of a domain: a dashed line under its title, as long as its part of it. */
  private reserved(domain: Domain, x: number, y: number): void {
    const gpus = this.shown.reserved.get(`${domain.name} ${domain.flavor}`);
    if (!gpus) return;
    const { context, model, view } = this;
    const all = domain.nodes.reduce((sum, node) => sum + (model.gpus[node] as number), 0);
    const line = Math.max(1.5, Math.min(3, view.scale * 0.2));
    const top = y + TITLE * view.scale - line;
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
      if (lease >= 0 && model.roles[lease] === "Spare") this.spare(left, top, side);
    }
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
