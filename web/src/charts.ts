// The charts: each kind turns the data of a figure into what Plot draws.

import * as Plot from "@observablehq/plot";
import { account } from "./account";
import type { Cpu, Curve, Effects, Order, Page, Percentiles, Series, Shift } from "./data";
import { number, percentile, ratioTicks, tick, time, timeTicks, times } from "./format";

/** Colours stand in the style sheet, one set for a light and one for a dark page: Okabe and Ito's, moved for contrast. */
const COLORS = 7;
const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross", "wye"] as const;

export const colorOf = (page: Page, i: number): string =>
  page.series[i]?.replica ? "var(--replica)" : `var(--s${i === 0 ? 0 : 1 + ((i - 1) % (COLORS - 1))})`;
export const symbolOf = (i: number) => SYMBOLS[i % SYMBOLS.length] ?? "circle";
export const dashOf = (series: Series | undefined): string => (series?.replica ? "2 4" : "none");

const nameOf = (page: Page, i: number): string => page.series[i]?.name ?? "";
const listed = (points: { series: number }[]): number[] => [...new Set(points.map((p) => p.series))].sort((a, b) => b - a);

/** What all charts share. The later of two series lies below, so that the baseline stays in sight. */
function base(width: number): Plot.PlotOptions {
  return {
    width, height: 300, marginLeft: 56, marginRight: 16, marginTop: 26, marginBottom: 42,
    style: { background: "none", fontSize: "12px", color: "var(--fg)" },
    symbol: { type: "identity" }, color: { type: "identity" },
  };
}
const grid = { stroke: "var(--grid)", strokeOpacity: 1 };

type TipOptions<T> = { x: unknown; y: unknown; title: (d: T) => string; fx?: unknown; fy?: unknown };

/** The words beside the nearest point. In a chart of rows the whole row belongs to its point: `Plot.pointerY`. */
function tip<T>(data: T[], options: TipOptions<T>, pointer: typeof Plot.pointer = Plot.pointer): Plot.Markish {
  return Plot.tip(data, pointer({
    ...(options as object), fill: "var(--bg)", stroke: "var(--soft)", textPadding: 9, fontSize: 12.5, lineHeight: 1.25, lineWidth: 26,
  }) as Plot.TipOptions);
}

/** Marks and labels at exactly these places: a logarithmic scale by itself leaves labels out. */
const axisX = (ticks: number[], text: (d: number) => string, label: string | null): Plot.Markish =>
  Plot.axisX(ticks, { x: (d: number) => d, text, label } as Plot.AxisXOptions);
const axisY = (ticks: number[], text: (d: number) => string, label: string | null): Plot.Markish =>
  Plot.axisY(ticks, { y: (d: number) => d, text, label } as Plot.AxisYOptions);
const ratioText = (d: number): string => `×${d}`;

/** Lines, bands and points of some series. `thin` points are hollow. */
function lines<T extends { series: number; low: number | null; high: number | null; thin?: boolean }>(
  page: Page, points: T[], x: (p: T) => unknown, y: (p: T) => number, r = 4,
): Plot.Markish[] {
  return listed(points).flatMap((s) => {
    const own = points.filter((p) => p.series === s);
    const banded = page.series[s]?.replica ? [] : own.filter((p) => p.low !== null && p.high !== null);
    const color = colorOf(page, s);
    return [
      Plot.areaY(banded, { x, y1: "low", y2: "high", fill: color, fillOpacity: 0.11 } as Plot.AreaYOptions),
      Plot.lineY(own, { x, y, stroke: color, strokeWidth: 1.8, strokeDasharray: dashOf(page.series[s]) } as Plot.LineYOptions),
      Plot.dot(own, {
        x, y, r, symbol: symbolOf(s), stroke: color, strokeWidth: 1.4, fill: (p: T) => (p.thin ? "var(--bg)" : color),
      } as Plot.DotOptions),
    ];
  });
}

function effects(_page: Page, data: Effects, width: number): Plot.PlotOptions {
  const room = Math.min(230, width * 0.42);
  const margin = Math.max(...data.rows.map((r) => r.margin));
  const low = Math.min(1 - 2 * margin, ...data.rows.map((r) => r.low)) / 1.02;
  const high = Math.max(1 + 2 * margin, ...data.rows.map((r) => r.high)) * 1.02;
  const domain: [number, number] = [Math.max(low, 0.05), Math.min(high, 20)];
  const rows = data.rows.map((r) => ({ ...r, key: `${r.workload}: ${r.name}` }));
  const keys = rows.map((r) => r.key);
  const better = (r: Effects["rows"][number]) => (r.better === "higher") === r.value > 1;
  const colorOfRow = (r: Effects["rows"][number]) =>
    r.verdict === "undecided" ? "var(--soft)" : r.verdict === "equivalent" ? "var(--fg)" : better(r) ? "var(--good)" : "var(--warn)";
  const signs: Record<string, string> = { different: "≠", equivalent: "=", undecided: "~" };
  const title = (r: (typeof rows)[number]) => `${r.key}\n${r.metric} ${r.text}\n${r.verdict}${r.verdict === "different" ? `, ${better(r) ? "better" : "worse"}` : ""}; margin ±${+(r.margin * 100).toPrecision(3)} %` +
    (r.noise_floor === null ? "" : `; noise floor ±${+(r.noise_floor * 100).toPrecision(2)} %`);
  return {
    ...base(width), height: 60 + 34 * rows.length, marginLeft: room, marginTop: 10, marginRight: 30,
    x: { type: "log", domain, clamp: true }, y: { domain: keys, label: null },
    marks: [
      axisX(aroundOne(ratioTicks(domain), width - room - 30), ratioText, "ratio to the baseline"),
      Plot.barX(rows, { x1: (r) => 1 / (1 + r.margin), x2: (r) => 1 + r.margin, y: "key", fill: "var(--margin)", inset: -3 }),
      Plot.ruleX([1], { stroke: "var(--soft)" }),
      Plot.axisY({ tickSize: 0, lineWidth: room / 13, fontSize: 12.5, label: null }),
      Plot.ruleY(rows, { x1: "low", x2: "high", y: "key", stroke: colorOfRow, strokeWidth: 2.4 }),
      Plot.dot(rows, { x: "value", y: "key", r: 5, fill: colorOfRow }),
      Plot.text(rows, { x: () => domain[1], y: "key", text: (r) => signs[r.verdict] ?? "", dx: 16, fontSize: 16, fill: colorOfRow }),
      tip(rows, { x: "value", y: "key", title }, Plot.pointerY),
    ],
  };
}

function curve(page: Page, data: Curve, width: number): Plot.PlotOptions {
  const { points } = data;
  const show = (v: number) => (data.time ? time(v) : `${number(v)} ${data.unit}`);
  const title = (p: Curve["points"][number]) =>
    `${nameOf(page, p.series)}\n${data.axis === null ? "" : `${p.label} ${data.axis}: `}${show(p.value)}\n` +
    (p.low === null || p.high === null ? "no interval" : `${show(p.low)} to ${show(p.high)}`) + `\n${p.n} trials`;
  const values = points.flatMap((p) => [p.value, p.low ?? p.value, p.high ?? p.value]).filter((v) => v > 0);
  const ends: [number, number] = [Math.min(...values), Math.max(...values)];
  const log = data.time && ends[1] / ends[0] > 4;
  const label = data.time ? data.name : `${data.name} (${data.unit})`;
  const domain: [number, number] = [ends[0] / 1.2, ends[1] * 1.2];
  const y: Plot.ScaleOptions = log ? { type: "log", label, domain } : { label, zero: true, nice: true, ticks: 5, tickFormat: data.time ? (d: number) => (d === 0 ? "0" : time(d)) : tick };
  const rulers = log ? [Plot.gridY(timeTicks(domain), grid), axisY(timeTicks(domain), (d) => time(d), label)] : [Plot.gridY({ ...grid, ticks: 5 })];
  if (data.axis === null || !data.numeric) return dots(page, data, width, y, rulers, title);
  const xs = [...new Set(points.map((p) => p.x as number))].sort((a, b) => a - b);
  const spread = (xs.at(-1) ?? 1) / (xs[0] ?? 1);
  const x: Plot.ScaleOptions = xs.every((v) => v > 0) && spread > 4 ? { type: "log", base: 2 } : { type: "linear" };
  return {
    ...base(width),
    x: { ...x, inset: 10 }, y,
    marks: [
      ...rulers,
      axisX(spaced(xs, width), tick, data.axis),
      ...lines(page, points, (p) => p.x, (p) => p.value),
      tip(points, { x: "x", y: "value", title }),
    ],
  };
}

/** At most as many places as have room, 1 among them. */
function aroundOne(ratios: number[], width: number): number[] {
  const every = Math.ceil((ratios.length * 46) / width);
  return ratios.filter((_, i) => (i - ratios.indexOf(1)) % every === 0);
}

/** At most as many places as have room, the first and the last among them. */
function spaced(xs: number[], width: number): number[] {
  const every = Math.ceil((xs.length * 42) / width);
  return xs.filter((_, i) => (xs.length - 1 - i) % every === 0 || i === 0);
}

/** Without numbers on an axis: points with their intervals, side by side. */
function dots(
  page: Page, data: Curve, width: number, y: Plot.ScaleOptions, rulers: Plot.Markish[], title: (p: Curve["points"][number]) => string,
): Plot.PlotOptions {
  const { points } = data;
  const banded = points.filter((p) => p.low !== null && p.high !== null);
  const fx = data.axis === null ? undefined : "label";
  const x = (p: Curve["points"][number]) => String(p.series);
  return {
    ...base(width),
    fx: { label: data.axis, domain: [...new Set(points.map((p) => p.label))] },
    x: { type: "point", axis: null, padding: 1, domain: listed(points).reverse().map(String) }, y,
    marks: [
      ...rulers,
      Plot.ruleX(banded, { fx, x, y1: "low", y2: "high", stroke: (p) => colorOf(page, p.series), strokeWidth: 2 }),
      Plot.dot(points, { fx, x, y: "value", r: 4.5, symbol: (p: { series: number }) => symbolOf(p.series), fill: (p: { series: number }) => colorOf(page, p.series) }),
      tip(points, { fx, x, y: "value", title }),
    ],
  };
}

// A point 1 - 1/x of the way to 100 %: 2 is the median, 10 is p90, 1000 is p99.9.
const odds = (p: { quantile: number }): number => 1 / (1 - p.quantile);
const percentiles: Plot.ScaleOptions = { type: "log", inset: 4 };
const percentileAxis = (): Plot.Markish => axisX([2, 10, 100, 1000], (d) => percentile(1 - 1 / d), "percentile");
const THIN = "\nthin: fewer than 10 samples beyond it";

function latency(page: Page, data: Percentiles, width: number): Plot.PlotOptions {
  const domain: [number, number] = [data.domain_ns[0] / 1.15, data.domain_ns[1] * 1.15];
  const points = data.points.map((p) => ({ ...p, low: null, high: null }));
  const title = (p: (typeof points)[number]) => `${nameOf(page, p.series)}\n${percentile(p.quantile)}: ${time(p.value_ns)}${p.thin ? THIN : ""}`;
  return {
    ...base(width), x: percentiles,
    y: { type: "log", domain },
    marks: [
      Plot.gridY(timeTicks(domain), grid), axisY(timeTicks(domain), (d) => time(d), "latency"), percentileAxis(),
      ...lines(page, points, odds, (p) => p.value_ns, 2.6),
      tip(points, { x: odds, y: "value_ns", title }),
    ],
  };
}

function shift(page: Page, data: Shift, width: number): Plot.PlotOptions {
  // One wild block of a thin tail must not press all else flat, so the scale follows the lines, and bands are cut.
  const domain: [number, number] = [Math.min(data.domain[0] / 1.08, 0.92), Math.max(data.domain[1] * 1.08, 1.09)];
  const title = (p: Shift["points"][number]) => `${nameOf(page, p.series)}\n${percentile(p.quantile)}: ${times(p.ratio)}` +
    (p.low === null || p.high === null ? "" : `\nblocks from ${times(p.low)} to ${times(p.high)}`) + (p.thin ? THIN : "");
  return {
    ...base(width), x: percentiles,
    y: { type: "log", domain, clamp: true },
    marks: [
      Plot.gridY(ratioTicks(domain), grid), axisY(ratioTicks(domain), ratioText, "ratio to the baseline"), percentileAxis(),
      Plot.ruleY([1], { stroke: "var(--soft)" }),
      ...lines(page, data.points, odds, (p) => p.ratio, 2.6),
      tip(data.points, { x: odds, y: "ratio", title }),
    ],
  };
}

function order(page: Page, data: Order, width: number): Plot.PlotOptions {
  const points = data.points.filter((p) => p.void === null && p.share !== null).map((p) => ({ ...p, share: p.share as number }));
  const spread = Math.max(0.03, ...points.map((p) => Math.abs(Math.log(p.share)))) * 1.15;
  const domain: [number, number] = [Math.exp(-spread), Math.exp(spread)];
  const voids = data.points.filter((p) => p.void !== null).map((p) => ({ ...p, share: domain[0] }));
  const all = [...points, ...voids];
  const title = (p: (typeof all)[number]) => `trial ${p.seq}, block ${p.block}\n${nameOf(page, p.series)}, ${p.cell}\n` +
    (p.void === null ? `${p.text ?? ""}, ${times(p.share)} of its arm's mean` : `void: ${p.void}`);
  const stripes = data.blocks.filter((_, i) => i % 2 === 0);
  return {
    ...base(width), height: 320, marginTop: 30,
    x: { label: "trial, in the order run", inset: 6, ticks: Math.max(3, width / 110), tickFormat: "d" },
    y: { type: "log", domain },
    marks: [
      Plot.rectX(stripes, { x1: (b) => b.first - 0.5, x2: (b) => b.last + 0.5, fill: "var(--panel)" }),
      Plot.text(data.blocks, {
        x: (b) => (b.first + b.last) / 2, frameAnchor: "top", dy: -12, fill: "var(--soft)", fontSize: 11,
        text: (b) => (width / data.blocks.length > 70 ? `block ${b.block}` : `${b.block}`),
      }),
      Plot.gridY(ratioTicks(domain), grid), axisY(ratioTicks(domain), ratioText, "ratio to the mean of its arm"),
      Plot.ruleY([1], { stroke: "var(--soft)" }),
      Plot.dot(points, {
        x: "seq", y: "share", r: 4.5, symbol: (p: { series: number }) => symbolOf(p.series), fill: (p: { series: number }) => colorOf(page, p.series),
        fillOpacity: 0.9, stroke: "var(--bg)", strokeWidth: 0.7,
      }),
      Plot.dot(voids, { x: "seq", y: "share", r: 5, dy: -7, symbol: "times", stroke: "var(--warn)", strokeWidth: 2 }),
      tip(all, { x: "seq", y: "share", title }),
    ],
  };
}

function cpu(_page: Page, data: Cpu, width: number): Plot.PlotOptions {
  const names = [...new Set(data.bars.map((b) => b.name))];
  const cells = [...new Set(data.bars.map((b) => b.cell))];
  const room = Math.min(190, width * 0.38);
  const kinds = data.kinds.filter((k) => data.bars.some((b) => b.kind === k));
  const title = (b: Cpu["bars"][number]) => `${b.cell}, ${b.name}\n${b.kind}: ${(b.share * 100).toFixed(1)} %`;
  const stack = (more: object) =>
    Plot.stackX({ order: kinds }, { x: "share", y: "name", fy: "cell", z: "kind", ...more } as never) as Plot.BarXOptions;
  return {
    ...base(width), height: 56 + cells.length * (30 + 19 * names.length), marginLeft: room, marginTop: 22, marginRight: 20,
    x: { domain: [0, 100], percent: true, ticks: 5, label: "share of all CPU time (%)" },
    y: { domain: names, label: null }, fy: { domain: cells, label: null, padding: 0.14, axis: null },
    color: { type: "categorical", domain: kinds, range: kinds.map((k) => `var(--k${data.kinds.indexOf(k)})`), legend: true },
    marks: [
      Plot.text(cells, { fy: (c) => c, text: (c) => c, frameAnchor: "top-left", dx: 2, dy: -13, fontWeight: 600, textAnchor: "start", fill: "var(--fg)" }),
      Plot.axisY({ tickSize: 0, label: null, lineWidth: room / 12, fontSize: 11.5 }),
      Plot.barX(data.bars, stack({ fill: "kind", insetTop: 1.5, insetBottom: 1.5 })),
      Plot.tip(data.bars, Plot.pointer(stack({
        title, fill: "var(--bg)", stroke: "var(--soft)", textPadding: 9, fontSize: 12.5, lineHeight: 1.25,
      }) as Plot.TipOptions)),
    ],
  };
}

type Draw = (page: Page, data: never, width: number) => Plot.PlotOptions;
export const KINDS: Record<string, Draw> = { account, effects, curve, percentiles: latency, shift, order, cpu } as Record<string, Draw>;

/** A short line with a series' mark, for legends. */
export function swatch(page: Page, i: number): Element {
  return Plot.plot({
    width: 34, height: 14, margin: 0, axis: null, x: { domain: [0, 1] }, y: { domain: [0, 1] }, color: { type: "identity" }, symbol: { type: "identity" },
    style: { background: "none" },
    marks: [
      Plot.line([[0, 0.5], [1, 0.5]], { stroke: colorOf(page, i), strokeWidth: 1.8, strokeDasharray: dashOf(page.series[i]) }),
      Plot.dot([[0.5, 0.5]], { fill: colorOf(page, i), stroke: colorOf(page, i), r: 4, symbol: symbolOf(i) }),
    ],
  });
}
