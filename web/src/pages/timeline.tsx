/** The timeline: leases that were, are, and will be, domain by domain. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask } from "../api.ts";
import { paintFor, paintOf } from "../fleet_canvas.ts";
import { duration, number, time } from "../format.ts";
import { type Band, type Piece, type Reservation, sameBar, timeline } from "../gantt.ts";
import { type LedgerEvent, useLive } from "../live.ts";
import { colorClass, useOwnerColors } from "../owner_colors.ts";
import { go, pageOf } from "../router.tsx";
import { Await, Empty, Title, besidePoint } from "../ui.tsx";

const EVENTS = 1_000;
const LABEL = 150;
const NARROW = 600;
const NARROW_LABEL = 92;
const AXIS = 26;
const GAP = 10;
const ROW_MAX = 6;
const BAND_MIN = 26;
const BAND_MAX = 150;
const HOUR_MS = 3_600_000;
const STEPS = [60_000, 300_000, 900_000, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS, 168 * HOUR_MS];

async function load(signal: AbortSignal): Promise<{ bands: Band[]; pieces: Piece[] }> {
  const [map, events, reservations] = await Promise.all([
    ask("/map", {}, {}, signal),
    ask("/ledger/events", {}, { limit: EVENTS }, signal),
    ask("/reservations", {}, {}, signal),
  ]);
  return timeline(
    map,
    events.items as unknown as LedgerEvent[],
    reservations.items as unknown as Reservation[],
  );
}

export function TimelinePage() {
  const found = useLive("timeline", load, (event) => /^(lease|reservation|node|hold)/.test(event.tag));
  return (
    <>
      <Title
        title="Timeline"
        sub="One band per domain, as tall as it has GPUs; the red line is now. Pale bars have ended or are spare, hollow ones are planned: below the band where its work may still run by then. Double-click a bar to open its run."
      />
      <Await of={found}>
        {({ bands, pieces }) =>
          bands.length === 0 ? (
            <Empty command="quorate apply -f fleet.yaml">The fleet has no nodes yet.</Empty>
          ) : (
            <>
              <Gantt bands={bands} pieces={pieces} />
            </>
          )
        }
      </Await>
    </>
  );
}

/** Whose bar has which colour. */
function Owners({ pieces }: { pieces: Piece[] }) {
  useOwnerColors();
  const names = [...new Set(pieces.map((piece) => piece.owner).filter(Boolean))].sort();
  return (
    <ul class="legend owners">
      {names.map((name) => (
        <li key={name}>
          <i class={colorClass(name)} /> {name}
        </li>
      ))}
    </ul>
  );
}

interface Span {
  from: number;
  until: number;
}

/** Returns a span around now in which the work that runs, and what comes next, is in sight. */
function usual(pieces: Piece[]): Span {
  const now = Date.now();
  const first = Math.min(now - HOUR_MS / 12, ...pieces.map((piece) => piece.from));
  const last = Math.max(now + HOUR_MS / 4, ...pieces.map((piece) => piece.until));
  const [from, until] = [Math.max(first, now - 24 * HOUR_MS), Math.min(last, now + 48 * HOUR_MS)];
  return { from: from - (until - from) * 0.03, until: until + (until - from) * 0.03 };
}

/** How tall a row is: a GPU of the domain, or one of the planned work below them. */
function rowOf(band: Band): number {
  return Math.min(BAND_MAX, Math.max(BAND_MIN, band.gpus * ROW_MAX)) / Math.max(band.gpus, 1);
}

function heightOf(band: Band): number {
  return rowOf(band) * Math.max(band.rows, 1);
}

/** The bar that is spoken of: the one under the pointer, or the one chosen by keys. */
interface Tip {
  x: number;
  y: number;
  piece: Piece;
  isChosen: boolean;
}

function Gantt({ bands, pieces }: { bands: Band[]; pieces: Piece[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const span = useRef<Span | null>(null);
  /** How wide it was drawn: asking the page for each bar would take longer than drawing them. */
  const drawnWidth = useRef(0);
  const [tip, setTip] = useState<Tip | null>(null);
  const chosen = tip?.isChosen ? tip.piece : null;
  /** Where the bars begin, right of the names of domains. */
  const start = (): number => (drawnWidth.current < NARROW ? NARROW_LABEL : LABEL);
  const tops = useMemo(() => {
    let top = AXIS;
    return bands.map((band) => {
      const at = top;
      top += heightOf(band) + GAP;
      return at;
    });
  }, [bands]);
  const height = (tops.at(-1) ?? 0) + heightOf(bands.at(-1) as Band) + GAP;
  const given = useOwnerColors();
  const x = (at: number): number => {
    const { from, until } = span.current as Span;
    const width = drawnWidth.current - start();
    return start() + ((at - from) / (until - from)) * width;
  };
  const box = (piece: Piece): [number, number, number, number] => {
    const band = bands[piece.domain] as Band;
    const row = rowOf(band);
    const left = x(piece.from);
    const top = (tops[piece.domain] as number) + piece.row * row;
    return [left, top, Math.max(1.5, x(piece.until) - left - 1), Math.max(1.5, piece.gpus * row - 1)];
  };
  const draw = useRef(() => undefined as void);
  draw.current = () => {
    const at = canvas.current;
    if (!at) return;
    span.current ??= usual(pieces);
    const ratio = devicePixelRatio;
    const whole = at.clientWidth;
    drawnWidth.current = whole;
    const label = start();
    at.width = whole * ratio;
    at.height = at.clientHeight * ratio;
    const context = at.getContext("2d") as CanvasRenderingContext2D;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const paint = paintOf();
    drawAxis(context, span.current, x, [label, whole], height, paint.quiet, paint.free);
    // The GPUs of each domain; below them is planned work that begins before others have to end.
    context.fillStyle = paint.free;
    context.globalAlpha = 0.4;
    bands.forEach((band, order) => {
      context.fillRect(label, tops[order] as number, whole - label, band.gpus * rowOf(band) - 1);
    });
    context.globalAlpha = 1;
    context.save();
    context.beginPath();
    context.rect(label, 0, whole - label, height);
    context.clip();
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const piece of pieces) {
      const [left, top, width, tall] = box(piece);
      if (left > whole || left + width < label) continue;
      const isPale = piece.kind === "past" || piece.isSpare;
      if (isPale) context.globalAlpha = piece.kind === "past" ? 0.35 : 0.55;
      if (piece.kind === "planned") {
        context.strokeStyle = paint.text;
        context.setLineDash([4, 3]);
        context.strokeRect(left + 0.5, top + 0.5, Math.max(2, width - 1), Math.max(2, tall - 1));
        context.setLineDash([]);
      } else {
        context.fillStyle = paintFor(piece.owner, paint);
        context.fillRect(left, top, width, tall);
      }
      if (isPale) context.globalAlpha = 1;
      if (tall >= 13 && width > 50) {
        context.fillStyle = piece.kind === "running" ? paint.onOwner : paint.text;
        const visible = Math.min(left + width, whole) - Math.max(left, label);
        if (visible > 40) {
          context.fillText(piece.run, Math.max(left, label) + 6, top + tall / 2, visible - 10);
        }
      }
    }
    if (chosen) {
      const [left, top, width, tall] = box(chosen);
      context.strokeStyle = paint.text;
      context.lineWidth = 2;
      context.strokeRect(left - 1, top - 1, width + 2, tall + 2);
      context.lineWidth = 1;
    }
    const now = x(Date.now());
    context.fillStyle = paint.bad;
    context.fillRect(now, AXIS - 6, 1.5, height);
    context.restore();
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "top";
    context.fillStyle = paint.text;
    bands.forEach((band, row) => context.fillText(band.name, 10, tops[row] as number, label - 20));
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = paint.quiet;
    bands.forEach((band, row) =>
      context.fillText(`${number(band.gpus)} GPUs`, 10, (tops[row] as number) + 15, label - 20),
    );
  };
  useLayoutEffect(() => draw.current(), [pieces, given, chosen]);
  useLayoutEffect(() => {
    if (!tip || pieces.includes(tip.piece)) return;
    const piece = sameBar(pieces, tip.piece);
    setTip(piece && (tip.isChosen ? tipOf(piece) : { ...tip, piece }));
  }, [pieces]);
  useLayoutEffect(() => {
    const at = canvas.current as HTMLCanvasElement;
    const again = (): void => draw.current();
    const resized = new ResizeObserver(again);
    resized.observe(at);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      zoom(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX);
    };
    at.addEventListener("wheel", wheel, { passive: false });
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", again);
      at.removeEventListener("wheel", wheel);
    };
  }, []);
  const zoom = (by: number, at: number): void => {
    const old = span.current;
    if (!old) return;
    const share = Math.max(0, (at - start()) / (drawnWidth.current - start()));
    const middle = old.from + share * (old.until - old.from);
    const width = Math.min(90 * 24 * HOUR_MS, Math.max(60_000, (old.until - old.from) * by));
    span.current = { from: middle - share * width, until: middle + (1 - share) * width };
    draw.current();
  };
  const pan = (share: number): void => {
    const old = span.current;
    if (!old) return;
    const by = share * (old.until - old.from);
    span.current = { from: old.from + by, until: old.until + by };
    draw.current();
  };
  const pieceAt = (left: number, top: number): Piece | undefined =>
    pieces.findLast((piece) => {
      const [x0, y0, width, tall] = box(piece);
      return left >= x0 && left < x0 + width && top >= y0 && top < y0 + tall;
    });
  /** Chooses the bar that is `by` further on, and brings it into sight. */
  const choose = (by: number): void => {
    if (pieces.length === 0) return;
    const ordered = [...pieces].sort(
      (one, other) => one.domain - other.domain || one.row - other.row || one.from - other.from,
    );
    const at = tip ? ordered.indexOf(tip.piece) + by : by > 0 ? 0 : ordered.length - 1;
    const piece = ordered[(at + ordered.length) % ordered.length] as Piece;
    const old = span.current;
    if (old && (piece.until < old.from || piece.from > old.until)) {
      const from = piece.from - (old.until - old.from) / 4;
      span.current = { from, until: from + old.until - old.from };
      draw.current();
    }
    setTip(tipOf(piece));
  };
  const tipOf = (piece: Piece): Tip => {
    const [left, top] = box(piece);
    return { x: Math.max(start(), left), y: top, piece, isChosen: true };
  };
  const open = (piece: Piece | undefined): void => {
    if (piece) go(pageOf("runs", piece.run));
  };
  const fit = (): void => {
    span.current = null;
    draw.current();
  };
  /** The middle of the bars; how wide they are is known once they are drawn. */
  const zoomMiddle = (by: number): void => zoom(by, (start() + drawnWidth.current) / 2);
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(-0.1),
    ArrowRight: () => pan(0.1),
    ArrowDown: () => choose(1),
    ArrowUp: () => choose(-1),
    Enter: () => open(tip?.piece),
    "+": () => zoomMiddle(0.8),
    "=": () => zoomMiddle(0.8),
    "-": () => zoomMiddle(1.25),
    "0": fit,
  };
  return (
    <>
      <div class="above">
        <Owners pieces={pieces} />
        <div class="zoom flat">
          <button type="button" aria-label="Earlier" onClick={() => pan(-0.25)}>
            ‹
          </button>
          <button type="button" aria-label="Later" onClick={() => pan(0.25)}>
            ›
          </button>
          <button type="button" aria-label="Zoom in" onClick={() => zoomMiddle(0.6)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => zoomMiddle(1 / 0.6)}>
            −
          </button>
          <button type="button" aria-label="Show everything" onClick={fit}>
            ⤢
          </button>
        </div>
      </div>
      <div class="map gantt">
        <canvas
          ref={canvas}
          style={{ height: `${height}px` }}
          tabIndex={0}
          role="img"
          aria-label={`${pieces.length} leases and planned starts in ${bands.length} domains. Left and right move in time, up and down choose a bar, Enter opens its run, plus and minus zoom, 0 shows all.`}
          onPointerMove={(event) => {
            if (event.buttons === 1) {
              setTip(null);
              pan(-event.movementX / (drawnWidth.current - start()));
              return;
            }
            const piece = pieceAt(event.offsetX, event.offsetY);
            setTip(piece ? { x: event.offsetX, y: event.offsetY, piece, isChosen: false } : null);
          }}
          onPointerLeave={() => setTip(null)}
          onClick={(event) => {
            // By touch nothing is ever under the pointer: a bar is spoken of when it is touched.
            const piece = pieceAt(event.offsetX, event.offsetY);
            setTip(piece ? { x: event.offsetX, y: event.offsetY, piece, isChosen: true } : null);
          }}
          onDblClick={(event) => {
            open(pieceAt(event.offsetX, event.offsetY));
          }}
          onKeyDown={(event) => {
            const act = keys[event.key];
            if (!act) return;
            event.preventDefault();
            act();
          }}
        />
        {tip && (
          <div role="status" {...besidePoint(tip.x, tip.y, canvas.current)}>
            <div>
              {tip.piece.run}
              {tip.piece.owner && ` of ${tip.piece.owner}`} · {number(tip.piece.gpus)} GPUs
              {tip.piece.isSpare && " spare"}
            </div>
            <div>
              {tip.piece.kind === "planned" ? "planned" : tip.piece.kind} {time(tip.piece.from)} to{" "}
              {time(tip.piece.until)} ({duration(tip.piece.until - tip.piece.from)})
            </div>
          </div>
        )}
      </div>
    </>
  );
}

function drawAxis(
  context: CanvasRenderingContext2D,
  span: Span,
  x: (at: number) => number,
  [label, width]: [number, number],
  height: number,
  quiet: string,
  line: string,
): void {
  context.clearRect(0, 0, width, height);
  const step = STEPS.find((each) => (span.until - span.from) / each <= (width - label) / 90) ?? STEPS.at(-1);
  const offset = new Date().getTimezoneOffset() * 60_000;
  const every = step as number;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  for (let at = Math.ceil((span.from - offset) / every) * every + offset; at < span.until; at += every) {
    const left = x(at);
    context.fillStyle = line;
    context.fillRect(left, AXIS - 6, 1, height);
    context.fillStyle = quiet;
    context.fillText(time(at).replace(/:00$/, ""), left + 3, 6);
  }
}
