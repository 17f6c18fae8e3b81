/** The parts that pages are made of. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { save, wordsOf } from "./api.ts";
import { fullTime, number, time, piecesOf } from "./format.ts";
import { type Loaded, useConnection, useNow } from "./live.ts";
import { useModal } from "./modal.ts";

export type Tone = "good" | "wait" | "bad" | "quiet" | "plan";

const TONES: Record<string, Tone> = {
  Running: "good",
  Completed: "quiet",
  Pending: "wait",
  Failed: "bad",
  Cancelled: "quiet",
  Stopping: "wait",
  firm: "plan",
  tentative: "wait",
  Cleared: "good",
  Ready: "good",
  Cordoned: "wait",
};

/** A word in the colour of what it means. */
export function Badge({ word, tone }: { word: string; tone?: Tone }) {
  return <span class={`badge ${tone ?? TONES[word] ?? "quiet"}`}>{word}</span>;
}

/** A titled part of a page. */
export function Card(props: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      <header>
        <h2>{props.title}</h2>
        {props.aside && <div class="aside">{props.aside}</div>}
      </header>
      {props.children}
    </section>
  );
}

/** The head of a page. */
export function Title(props: { title: string; sub?: ComponentChildren; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${props.title} · Quorate`;
  }, [props.title]);
  return (
    <div class="title">
      <div>
        <h1>{props.title}</h1>
        {props.sub && <p>{props.sub}</p>}
      </div>
      {props.children && <div class="actions">{props.children}</div>}
    </div>
  );
}

/** What there is none of, and what to type so that there is. */
export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <code>{command}</code>}
    </div>
  );
}

/** What was loaded, or that it is loading, or why it could not be. */
export function Await<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  const isAway = useConnection() === "away";
  if (of.value === null && of.error === null) return <div class="loading" role="status">Loading…</div>;
  // While the service is away, one line over the page says so for all its parts.
  return (
    <>
      {of.error && !(isAway && of.value !== null) && (
        <p class="fault" role="alert">
          {of.error}
        </p>
      )}
      {of.value !== null && children(of.value)}
    </>
  );
}

/** An instant: short, with the whole of it on hover. */
export function When({ at }: { at: string | number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={fullTime(at)} class="num">
      {time(at)}
    </time>
  );
}

/** What depends on the time: drawn anew every so often, and nothing around it. */
export function Ticking({ everyMs, children }: { everyMs: number; children: (now: number) => ComponentChildren }) {
  return <>{children(useNow(everyMs))}</>;
}

/** A sentence of the service, with its instants in the viewer's zone. */
export function Words({ of }: { of: string }) {
  return <>{piecesOf(of).map((each) => ("at" in each ? <When at={each.at} /> : each.text))}</>;
}

/** Returns how a note is placed beside a point of `around`, inside it where it is near an edge. */
export function besidePoint(x: number, y: number, around: HTMLElement | null): {
  class: string;
  style: { left: string; top: string };
} {
  const isRight = around !== null && x > around.clientWidth / 2;
  const isLow = around !== null && y > around.clientHeight - 80;
  return {
    class: `tip${isRight ? " leftwards" : ""}${isLow ? " upwards" : ""}`,
    style: { left: `${x + TIP_PX}px`, top: `${y + TIP_PX}px` },
  };
}

/** How far a note is from what it is about; style.css has it too. */
const TIP_PX = 14;

export interface Part {
  name: string;
  value: number;
  kind: string;
}

/** A bar of parts that add up to `total`; `label` says it to those who do not see it. */
export function Bar({ parts, total, label }: { parts: Part[]; total: number; label: string }) {
  return (
    <div class="bar" role="img" aria-label={label} title={label}>
      {parts
        .filter((part) => part.value > 0)
        .map((part) => (
          <span class={part.kind} style={{ width: `${(100 * part.value) / Math.max(total, 1)}%` }} />
        ))}
    </div>
  );
}

export interface Column<Row> {
  title: string;
  /** The cell, as it is shown. */
  show: (row: Row) => ComponentChildren;
  /** What the column is sorted, filtered and saved by. */
  value: (row: Row) => string | number;
  right?: boolean;
  wide?: boolean;
  /** Never broken into two lines. */
  whole?: boolean;
}

interface TableProps<Row> {
  name: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  empty: ComponentChildren;
  filter?: string;
  /** Whether the service has more rows than these. */
  hasMore?: boolean;
  /** Saves all rows, where the service has more than are shown. */
  onSave?: () => Promise<void>;
  /** What is inside a row and shown below it on demand, and what that is called; null for nothing. */
  inside?: (row: Row) => { label: string; show: () => ComponentChildren } | null;
}

/** How many rows are drawn before the viewer asks for all of them. */
const DRAWN_MAX = 200;

/** A table that sorts by any column, filters, and is saved as CSV. */
export function Table<Row>(props: TableProps<Row>) {
  const { name, columns, rows, keyOf, empty, filter, hasMore, onSave, inside } = props;
  const [sort, setSort] = useState<{ at: number; down: boolean } | null>(null);
  const [needle, setNeedle] = useState("");
  const [fault, setFault] = useState("");
  const [hasAll, setAll] = useState(false);
  const shown = useMemo(() => chosen(columns, rows, needle, sort), [columns, rows, needle, sort]);
  const saveAll = async (): Promise<void> => {
    try {
      await (onSave ? onSave() : saveRows(name, columns, shown));
      setFault("");
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  if (rows.length === 0) return <>{empty}</>;
  return (
    <div class="table">
      <div class="tools">
        <input
          type="search"
          placeholder={filter ?? "Filter these rows"}
          aria-label={`Filter ${name}`}
          value={needle}
          onInput={(event) => setNeedle(event.currentTarget.value)}
        />
        <span class="count num">
          {shown.length === rows.length ? "" : `${number(shown.length)} of `}
          {hasMore ? `the first ${number(rows.length)}` : number(rows.length)}
        </span>
        <button type="button" class="plain" onClick={() => void saveAll()}>
          Save CSV
        </button>
      </div>
      {fault && <p class="fault">{fault}</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label={name} onKeyDown={moveByKey}>
        <table>
          <thead>
            <tr>
              {columns.map((column, at) => (
                <th
                  class={classOf(column)}
                  aria-sort={sort?.at === at ? (sort.down ? "descending" : "ascending") : "none"}
                >
                  <button
                    type="button"
                    onClick={() => setSort({ at, down: sort?.at === at ? !sort.down : false })}
                  >
                    {column.title}
                    <i aria-hidden="true">{sort?.at === at ? (sort.down ? "▾" : "▴") : ""}</i>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(hasAll ? shown : shown.slice(0, DRAWN_MAX)).map((row) => (
              <Line key={keyOf(row)} columns={columns} row={row} inside={inside?.(row) ?? null} />
            ))}
          </tbody>
        </table>
      </div>
      {!hasAll && shown.length > DRAWN_MAX && (
        <button type="button" class="plain" onClick={() => setAll(true)}>
          Show all {shown.length}
        </button>
      )}
    </div>
  );
}

interface LineProps<Row> {
  columns: Column<Row>[];
  row: Row;
  inside: { label: string; show: () => ComponentChildren } | null;
}

/** A row of a table, and below it what is inside it, once the viewer has opened it. */
function Line<Row>({ columns, row, inside }: LineProps<Row>) {
  const [isOpen, setOpen] = useState(false);
  const named = columns.findIndex((column) => !column.right);
  return (
    <>
      <tr tabIndex={-1}>
        {columns.map((column, at) => (
          <td class={classOf(column)} data-label={column.title}>
            {column.show(row)}
            {at === named && inside && (
              <button
                type="button"
                class="plain opens"
                aria-expanded={isOpen}
                onClick={() => setOpen(!isOpen)}
              >
                <i aria-hidden="true">{isOpen ? "▾" : "▸"}</i> {inside.label}
              </button>
            )}
          </td>
        ))}
      </tr>
      {isOpen && inside && (
        <tr class="inside">
          <td colSpan={columns.length}>{inside.show()}</td>
        </tr>
      )}
    </>
  );
}

const BY_KEY: Record<string, (at: number, rows: number) => number> = {
  ArrowDown: (at, rows) => Math.min(at + 1, rows - 1),
  ArrowUp: (at) => Math.max(at - 1, 0),
  Home: () => 0,
  End: (_, rows) => rows - 1,
};

/** Moves between the rows of a table by arrows, Home and End; Enter opens what the row is about. */
function moveByKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const rows = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("tbody tr")];
  const row = target.closest<HTMLElement>("tbody tr");
  const move = BY_KEY[event.key];
  if (move && rows.length > 0 && !event.metaKey && !event.ctrlKey && !event.altKey) {
    event.preventDefault();
    event.stopPropagation(); // A table inside a row moves within itself.
    rows[move(row ? rows.indexOf(row) : -1, rows.length)]?.focus();
  } else if (event.key === "Enter" && target === row) {
    event.preventDefault();
    row.querySelector<HTMLElement>("a, summary, button")?.click();
  }
}

function classOf<Row>(column: Column<Row>): string {
  return `${column.right ? "right num" : ""} ${column.wide ? "wide" : ""} ${column.whole ? "whole" : ""}`.trim();
}

function chosen<Row>(
  columns: Column<Row>[],
  rows: Row[],
  needle: string,
  sort: { at: number; down: boolean } | null,
): Row[] {
  const wanted = needle.trim().toLowerCase();
  const kept = wanted
    ? rows.filter((row) =>
        columns.some((column) => String(column.value(row)).toLowerCase().includes(wanted)),
      )
    : rows;
  const by = sort && columns[sort.at];
  if (!by) return kept;
  const sign = sort.down ? -1 : 1;
  return [...kept].sort((one, other) => sign * compare(by.value(one), by.value(other)));
}

function compare(one: string | number, other: string | number): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

/** Saves rows as CSV; a cell that a spreadsheet would take for a formula is made a text. */
export function saveRows<Row>(name: string, columns: Column<Row>[], rows: Row[]): void {
  const quote = (cell: string | number): string => {
    const text = typeof cell === "string" && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [
    columns.map((column) => quote(column.title)),
    ...rows.map((row) => columns.map((column) => quote(column.value(row)))),
  ];
  const text = `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
  save(new Blob([text], { type: "text/csv" }), `${name}.csv`);
}

interface ConfirmProps {
  title: string;
  action: string;
  children: ComponentChildren;
  danger?: boolean;
  onDo: () => Promise<void>;
  onClose: () => void;
}

/** Asks before something is changed; it stays open while that is under way, and says why not. */
export function Confirm({ title, action, children, danger, onDo, onClose }: ConfirmProps) {
  const modal = useModal(onClose);
  const [fault, setFault] = useState("");
  const [isBusy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    try {
      await onDo();
      modal.close();
    } catch (error) {
      setFault(wordsOf(error));
      setBusy(false);
    }
  };
  return (
    <dialog {...modal.props} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{title}</h2>
      {children}
      {fault && (
        <p class="fault" role="alert">
          {fault}
        </p>
      )}
      <div class="buttons">
        <button type="button" class="plain" onClick={modal.close}>
          Close
        </button>
        <button
          type="button"
          class={danger ? "danger" : "primary"}
          disabled={isBusy}
          onClick={() => void act()}
        >
          {action}
        </button>
      </div>
    </dialog>
  );
}
