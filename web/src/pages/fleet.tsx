/** The fleet as a live map: who has which GPU, what is spare, free and lost. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, wordsOf } from "../api.ts";
import { type Chosen, type View, closeTo, drawFleet, fitted, paintFor, paintOf } from "../fleet_canvas.ts";
import { FleetModel, type Place } from "../fleet_model.ts";
import { number } from "../format.ts";
import type { Reservation } from "../gantt.ts";
import { type LedgerEvent, stream, useLive } from "../live.ts";
import { colorClass, useOwnerColors } from "../owner_colors.ts";
import { Link, useParam } from "../router.tsx";
import { Badge, Bar, Card, type Column, Empty, Table, Title, besidePoint } from "../ui.tsx";
import { oversees, useViewer } from "../viewer.ts";

const ANEW_MS = 60_000;
const ASPECT = 2.1;
const NARROW_ASPECT = 0.8;
const NAV_PX = 260;
const ZOOM = 1.25;
const PAN_PX = 60;

/** Returns whether the screen is that of a phone. */
function isNarrow(): boolean {
  return innerWidth < 700;
}

/** Returns the map, kept up by events; `version` changes with it. */
function useFleet(): { model: FleetModel | null; version: number; fault: string } {
  const who = useViewer();
  const [model, setModel] = useState<FleetModel | null>(null);
  const [version, setVersion] = useState(0);
  const [fault, setFault] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let held: FleetModel | null = null;
    let early: LedgerEvent[] = [];
    let isAsking = false;
    let frame = 0;
    async function load(): Promise<void> {
      if (isAsking || document.hidden) return;
      isAsking = true;
      try {
        const map = await ask("/map", {}, {}, stop.signal);
        const submitted = held?.submitted;
        held = isNarrow()
          ? new FleetModel(map, NARROW_ASPECT, innerWidth)
          : new FleetModel(map, ASPECT, innerWidth - NAV_PX);
        submitted?.forEach((owner, run) => held?.submitted.set(run, owner));
        for (const event of early) enter(event);
        early = [];
        setModel(held);
        setFault("");
      } catch (error) {
        if (!stop.signal.aborted) setFault(wordsOf(error));
      }
      isAsking = false;
    }
    function enter(event: LedgerEvent): void {
      if (event.tag.startsWith("run-submitted")) {
        const run = event.run as { name: string; owner: string };
        held?.submitted.set(run.name, run.owner);
      }
      const changed = held?.enter(event);
      if (changed === null) later();
      else if (changed && !frame) {
        frame = requestAnimationFrame(() => {
          frame = 0;
          setVersion((old) => old + 1);
        });
      }
    }
    let timer = 0;
    function later(): void {
      if (!timer) {
        timer = window.setTimeout(() => {
          timer = 0;
          void load();
        }, 5_000);
      }
    }
    void load();
    const off = stream.on((event) => (isAsking ? early.push(event) : enter(event)));
    // Who does not see everything hears nothing of the leases of others.
    const again = oversees(who) ? 0 : setInterval(() => void load(), ANEW_MS);
    return () => {
      stop.abort();
      off();
      clearTimeout(timer);
      clearInterval(again);
      cancelAnimationFrame(frame);
    };
  }, []);
  return { model, version, fault };
}

/** Returns how many GPUs of each domain and flavor are promised to firm starts. */
function useReserved(): { reserved: Map<string, number>; error: string | null } {
  const found = useLive(
    "reserved",
    (signal) => ask("/reservations", {}, {}, signal),
    (event) => event.tag.startsWith("reservation"),
  );
  const reserved = useMemo(() => {
    const sums = new Map<string, number>();
    for (const each of (found.value?.items ?? []) as unknown as Reservation[]) {
      if (each.status.state !== "Firm") continue;
      for (const { domain, gpus } of each.status.slice.domains) {
        const key = `${domain} ${each.status.slice.flavor}`;
        sums.set(key, (sums.get(key) ?? 0) + gpus);
      }
    }
    return sums;
  }, [found.value]);
  return { reserved, error: found.error };
}

export function FleetPage() {
  const { model, version, fault } = useFleet();
  const { reserved, error } = useReserved();
  const [owner, setOwner] = useParam("owner");
  const [run, setRun] = useParam("run");
  const shares = useMemo(() => model?.shares() ?? [], [model, version]);
  const given = useOwnerColors();
  const colors = useMemo(() => {
    const paint = paintOf();
    return new Map(shares.map(({ owner }) => [owner, paintFor(owner, paint)]));
  }, [shares, given]);
  return (
    <>
      <Title
        title="Fleet"
        sub={model && `${number(model.names.length)} nodes, ${number(model.slots.length)} GPUs`}
      >
        {(owner || run) && (
          <button
            type="button"
            onClick={() => {
              setOwner("");
              setRun("");
            }}
          >
            Show all
          </button>
        )}
      </Title>
      {(fault || error) && <p class="fault" role="alert">{fault || error}</p>}
      {!model && !fault && <div class="loading" role="status">Loading…</div>}
      {model && model.names.length === 0 && (
        <Empty command="quorate apply -f fleet.yaml">The fleet has no nodes yet.</Empty>
      )}
      {model && model.names.length > 0 && (
        <>
          <ul class="legend owners">
            {shares.map((share) => (
              <li key={share.owner}>
                <button
                  type="button"
                  class="plain"
                  aria-pressed={owner === share.owner}
                  onClick={() => setOwner(owner === share.owner ? "" : share.owner)}
                >
                  <i class={colorClass(share.owner)} /> {share.owner}{" "}
                  <span class="num">{number(share.gpus)}</span>
                  {share.spare > 0 && <small class="num"> {number(share.spare)} spare</small>}
                </button>
              </li>
            ))}
            <li>
              <i class="free" /> free
            </li>
            <li>
              <i class="hollow" /> spare
            </li>
            <li>
              <i class="lost" /> lost
            </li>
            <li>
              <i class="cordoned" /> cordoned
            </li>
            <li title="Promised to firm starts. Which GPUs of a domain a run gets is decided when it starts.">
              <i class="reserved" /> reserved in its domain
            </li>
          </ul>
          <MapView
            model={model}
            version={version}
            colors={colors}
            chosen={{ owner, run }}
            reserved={reserved}
          />
          <Domains model={model} version={version} reserved={reserved} />
        </>
      )}
    </>
  );
}

interface MapProps {
  model: FleetModel;
  version: number;
  colors: Map<string, string>;
  chosen: Chosen;
  reserved: Map<string, number>;
}

function MapView({ model, version, colors, chosen, reserved }: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<View | null>(null);
  const [tip, setTip] = useState<{ x: number; y: number; slot: string[] } | null>(null);
  const [picked, setPicked] = useState(-1);
  const redraw = useRef(() => undefined as void);
  redraw.current = () => {
    const at = canvas.current;
    if (!at) return;
    view.current ??= fitted(model, at.clientWidth, at.clientHeight);
    drawFleet(at, model, view.current, { colors, chosen, reserved });
  };
  const laidOut = useRef("");
  useLayoutEffect(() => {
    // What was asked for anew is mostly laid out as before: what the viewer looks at stays in sight.
    const size = `${model.width} ${model.height}`;
    if (laidOut.current !== size) view.current = null;
    laidOut.current = size;
    redraw.current();
  }, [model]);
  useLayoutEffect(() => redraw.current(), [version, colors, chosen.owner, chosen.run, reserved]);
  useLayoutEffect(() => {
    const at = canvas.current as HTMLCanvasElement;
    const again = (): void => redraw.current();
    const resized = new ResizeObserver(again);
    resized.observe(at);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    const wheel = (event: WheelEvent): void => {
      event.preventDefault();
      zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, event.offsetX, event.offsetY);
    };
    at.addEventListener("wheel", wheel, { passive: false });
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", again);
      at.removeEventListener("wheel", wheel);
    };
  }, []);
  const zoom = (by: number, x: number, y: number): void => {
    const old = view.current;
    if (!old) return;
    const scale = Math.min(60, Math.max(0.2, old.scale * by));
    const ratio = scale / old.scale;
    view.current = { scale, x: x - (x - old.x) * ratio, y: y - (y - old.y) * ratio };
    redraw.current();
  };
  const pan = (x: number, y: number): void => {
    const old = view.current;
    if (!old) return;
    view.current = { ...old, x: old.x + x, y: old.y + y };
    redraw.current();
  };
  const middle = (by: number): void =>
    zoom(by, (canvas.current?.clientWidth ?? 0) / 2, (canvas.current?.clientHeight ?? 0) / 2);
  const fit = (): void => {
    view.current = null;
    redraw.current();
  };
  const slotAt = (x: number, y: number) => {
    const now = view.current;
    return now && model.at((x - now.x) / now.scale, (y - now.y) / now.scale);
  };
  /** Opens a node, and brings it into the middle. */
  const show = (node: number): void => {
    const at = canvas.current;
    if (!at) return;
    const scale = Math.max(view.current?.scale ?? 0, 12);
    view.current = {
      scale,
      x: at.clientWidth / 2 - (model.x[node] as number) * scale,
      y: at.clientHeight / 2 - (model.y[node] as number) * scale,
    };
    redraw.current();
    setPicked(node);
  };
  const approach = (place: Place): void => {
    const at = canvas.current;
    if (!at) return;
    view.current = closeTo(place, at.clientWidth, at.clientHeight);
    redraw.current();
  };
  const moved = (event: PointerEvent): void => {
    if (event.buttons === 1) {
      setTip(null);
      pan(event.movementX, event.movementY);
      return;
    }
    const slot = slotAt(event.offsetX, event.offsetY);
    setTip(slot ? { x: event.offsetX, y: event.offsetY, slot: wordsOfSlot(model, slot) } : null);
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => pan(PAN_PX, 0),
    ArrowRight: () => pan(-PAN_PX, 0),
    ArrowUp: () => pan(0, PAN_PX),
    ArrowDown: () => pan(0, -PAN_PX),
    "+": () => middle(ZOOM),
    "=": () => middle(ZOOM),
    "-": () => middle(1 / ZOOM),
    "0": fit,
  };
  return (
    <>
      <div class="find-node">
        <ZoomTo model={model} onChoose={approach} onAll={fit} />
        <FindNode model={model} onFind={show} />
      </div>
      <div class="map">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label="Map of the fleet; the table below has the same numbers. Arrow keys move it, plus and minus zoom, 0 shows all."
          onPointerMove={moved}
          onPointerLeave={() => setTip(null)}
          onClick={(event) => setPicked(slotAt(event.offsetX, event.offsetY)?.node ?? -1)}
          onKeyDown={(event) => {
            const act = keys[event.key];
            if (!act) return;
            event.preventDefault();
            act();
          }}
        />
        <div class="zoom">
          <button type="button" aria-label="Zoom in" onClick={() => middle(ZOOM)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => middle(1 / ZOOM)}>
            −
          </button>
          <button type="button" aria-label="Show the whole fleet" onClick={fit}>
            ⤢
          </button>
        </div>
        {tip && (
          <div {...besidePoint(tip.x, tip.y, canvas.current)}>
            {tip.slot.map((line) => (
              <div>{line}</div>
            ))}
          </div>
        )}
        {picked >= 0 && <NodePanel model={model} node={picked} onClose={() => setPicked(-1)} />}
      </div>
    </>
  );
}

/** Goes from the whole fleet to a region or a domain. */
function ZoomTo(props: { model: FleetModel; onChoose: (place: Place) => void; onAll: () => void }) {
  const { model, onChoose, onAll } = props;
  const regions = model.regions.filter((region) => region.name);
  if (model.domains.length < 2) return null;
  const choose = (value: string): void => {
    const among: Place[] = value.startsWith("r") ? regions : model.domains;
    const place = value ? among[Number(value.slice(1))] : undefined;
    if (place) onChoose(place);
    else onAll();
  };
  return (
    <label class="choice">
      Zoom to{" "}
      <select onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">the whole fleet</option>
        {regions.length > 0 && (
          <optgroup label="Regions">
            {regions.map((region, at) => (
              <option value={`r${at}`}>{region.name}</option>
            ))}
          </optgroup>
        )}
        <optgroup label="Domains">
          {model.domains.map((domain, at) => (
            <option value={`d${at}`}>
              {domain.name} {domain.flavor}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}

/** Finds a node by its name, for those who do not use a mouse, and in fleets of thousands. */
function FindNode({ model, onFind }: { model: FleetModel; onFind: (node: number) => void }) {
  const [typed, setTyped] = useState("");
  const [isMissing, setMissing] = useState(false);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const node = model.names.indexOf(typed.trim());
        setMissing(node < 0);
        if (node >= 0) onFind(node);
      }}
    >
      <input
        type="search"
        aria-label="Find a node"
        placeholder="Find a node"
        aria-invalid={isMissing}
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setMissing(false);
        }}
      />
      {isMissing && <span role="alert">no such node</span>}
    </form>
  );
}

function wordsOfSlot(model: FleetModel, { node, ordinal, lease }: { node: number; ordinal: number; lease: number }): string[] {
  const status = model.statuses[node];
  const where = `${model.names[node]} · GPU ${ordinal}${status === "Ready" ? "" : ` · ${status}`}`;
  if (lease < 0) return [where, "free"];
  const role = model.roles[lease];
  return [where, `${model.runs[lease]} of ${model.owners[lease]}${role === "Active" ? "" : ` · ${role}`}`];
}

function NodePanel({ model, node, onClose }: { model: FleetModel; node: number; onClose: () => void }) {
  const held = new Map<number, number>();
  for (let slot = model.first[node] as number; slot < (model.first[node + 1] as number); slot += 1) {
    const lease = model.slots[slot] as number;
    if (lease >= 0) held.set(lease, (held.get(lease) ?? 0) + 1);
  }
  return (
    <Card
      class="panel"
      title={model.names[node] as string}
      aside={
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      }
    >
      <p>
        <Badge word={model.statuses[node] as string} />{" "}
        {model.domains[model.domainOf[node] as number]?.name} ·{" "}
        {model.domains[model.domainOf[node] as number]?.flavor} · {model.gpus[node]} GPUs
      </p>
      {held.size === 0 ? (
        <p class="quiet">No lease is on it.</p>
      ) : (
        <ul class="short">
          {[...held].map(([lease, gpus]) => (
            <li>
              <Link to={["runs", model.runs[lease] as string]}>{model.runs[lease]}</Link> of{" "}
              {model.owners[lease]} <span class="num">{gpus} GPUs</span>{" "}
              {model.roles[lease] !== "Active" && <small>{model.roles[lease]}</small>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

interface Row {
  name: string;
  flavor: string;
  pool: string;
  nodes: number;
  gpus: number;
  held: number;
  free: number;
  reserved: number;
  out: number;
}

const COLUMNS: Column<Row>[] = [
  { title: "Domain", value: (row) => row.name, show: (row) => row.name },
  { title: "Flavor", whole: true, value: (row) => row.flavor, show: (row) => row.flavor },
  { title: "Pool", wide: true, value: (row) => row.pool, show: (row) => row.pool },
  {
    title: "Use",
    value: (row) => row.held / row.gpus,
    show: (row) => (
      <Bar
        label={`${row.held} of ${row.gpus} GPUs held, ${row.out} out of service`}
        total={row.gpus}
        parts={[
          { name: "held", value: row.held, kind: "good" },
          { name: "out of service", value: row.out, kind: "bad" },
        ]}
      />
    ),
  },
  ...(["nodes", "gpus", "held", "free", "reserved", "out"] as const).map((name) => ({
    title: {
      nodes: "Nodes",
      gpus: "GPUs",
      held: "Held",
      free: "Free",
      reserved: "Reserved",
      out: "Out of service",
    }[name],
    right: true,
    value: (row: Row) => row[name],
    show: (row: Row) => number(row[name]),
  })),
];

interface DomainsProps {
  model: FleetModel;
  version: number;
  reserved: Map<string, number>;
}

function Domains({ model, version, reserved }: DomainsProps) {
  const rows = useMemo(
    () =>
      model.domains.map((domain) => ({
        name: domain.name,
        flavor: domain.flavor,
        pool: domain.pool,
        nodes: domain.nodes.length,
        gpus: domain.nodes.reduce((sum, node) => sum + (model.gpus[node] as number), 0),
        reserved: reserved.get(`${domain.name} ${domain.flavor}`) ?? 0,
        ...model.count(domain),
      })),
    [model, version, reserved],
  );
  return (
    <Card title="Domains">
      <Table
        name="domains"
        columns={COLUMNS}
        rows={rows}
        keyOf={(row) => `${row.name} ${row.flavor} ${row.pool}`}
        empty={<Empty>No domains.</Empty>}
      />
    </Card>
  );
}
