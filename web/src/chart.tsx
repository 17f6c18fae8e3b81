/** A line over steps or time, drawn by uPlot in the colours of the page. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { axisTime } from "./format.ts";

interface ChartProps {
  label: string;
  x: string;
  y: string;
  xs: number[];
  ys: (number | null)[];
  /** Further lines over the same steps, each with its name and the variable of its colour. */
  more?: { name: string; ys: (number | null)[]; color: string; isDashed?: boolean }[];
  isTime?: boolean;
  /** Whether a value holds until the next one. */
  isStepped?: boolean;
  height?: number;
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function Chart({ label, x, y, xs, ys, more = [], isTime = false, isStepped = false, height = 200 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = [xs, ys, ...more.map((each) => each.ys)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const shape = `${x} ${y} ${more.map((each) => each.name).join(" ")}`;
  useEffect(() => {
    const at = box.current as HTMLDivElement;
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 } };
    const paths = isStepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
    const marks = isTime
      ? {
          values: (_: uPlot, splits: number[], __: number, ___: number, everyS: number) =>
            splits.map((at) => axisTime(1_000 * at, everyS)),
        }
      : {};
    const stepped = paths ? { paths } : {};
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(
        {
          width: at.clientWidth,
          height,
          scales: { x: { time: isTime } },
          axes: [{ ...axis, ...marks }, { ...axis, size: 56 }],
          legend: {
            show: more.length > 0,
            live: false,
            // A sample of each line: one of the same colour may be told by its dashes alone.
            markers: {
              width: 2,
              fill: () => "transparent",
              dash: (_, series) => (more[series - 2]?.isDashed ? "dashed" : "solid"),
            },
          },
          cursor: { points: { size: 6 } },
          series: [
            { label: x },
            { label: y, stroke: color("--accent"), width: 2, spanGaps: true, ...stepped },
            ...more.map((each) => ({
              label: each.name,
              stroke: color(each.color),
              width: 1.5,
              spanGaps: true,
              ...(each.isDashed ? { dash: [6, 4] } : {}),
            })),
          ],
        },
        latest.current,
        at,
      );
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: at.clientWidth, height }));
    resized.observe(at);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, isTime]);
  useEffect(() => plot.current?.setData(data), [xs, ys]);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}
