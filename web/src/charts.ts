// The charts: each returns the figures of one kind, as a title and the options that Plot draws.

import * as Plot from "@observablehq/plot";
import { baselineOf, isPrimary, metricName, numericAxis, series, type Report } from "./data";

export interface Chart { title: string; options: Plot.PlotOptions }

/** Okabe and Ito's palette, which most colour-blind readers can tell apart. */
const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];
const range = (domain: string[]) => domain.map((_, i) => PALETTE[i % PALETTE.length] as string);
const color = (domain: string[]): Plot.ScaleOptions & { legend: boolean } =>
  ({ type: "categorical", domain, range: range(domain), legend: true });
const unique = (values: string[]) => [...new Set(values)];
const base: Plot.PlotOptions = { marginLeft: 60, marginBottom: 40, height: 320, grid: true };

/** Metrics with their intervals, over the numeric axis or, without one, arm by arm. */
export function curves(report: Report): Chart[] {
  const charts: Chart[] = [];
  const rank = (m: Report["metrics"][number]) => (isPrimary(report, m.workload, m.metric.id) ? 0 : 1);
  for (const { workload, metric } of [...report.metrics].sort((a, b) => rank(a) - rank(b))) {
    // The other percentiles have a chart of their own; here they would only push it out of sight.
    if (!isPrimary(report, workload, metric.id) && !/^(latency|acquire)_(mean|p99)_/.test(metric.id)) continue;
    const axis = numericAxis(report, workload);
    const points = report.arms.filter((a) => a.workload === workload).flatMap((arm) => {
      const of = report.arm_summaries.find((s) => s.arm === arm.id)?.metrics.find((m) => m.metric === metric.id);
      if (of?.value == null) return [];
      const name = series(arm, axis);
      const x = axis === null ? name : (arm.axes[axis]?.value as number);
      return [{ x, y: of.value, low: of.mean?.low, high: of.mean?.high, name }];
    });
    if (points.length === 0) continue;
    const domain = unique(points.map((p) => p.name));
    const banded = points.filter((p) => p.low !== undefined);
    const numbers = axis === null ? [] : points.map((p) => p.x as number);
    const log = numbers.length > 0 && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) > 8;
    const ticks = axis === null ? undefined : [...new Set(numbers)];
    const title = (p: (typeof points)[number]) =>
      `${p.name}\n${axis === null ? "" : `${axis} ${p.x}\n`}${p.y.toPrecision(5)} ${metric.unit}` +
      (p.low === undefined ? "\nno interval" : `\n${p.low.toPrecision(5)} to ${p.high?.toPrecision(5)}`);
    charts.push({
      title: `${workload}: ${metricName(metric)}`,
      options: {
        ...base,
        x: axis === null ? { type: "point", label: null, axis: null }
          : { type: log ? "log" : "linear", label: axis, ticks, tickFormat: (d: number) => String(d) },
        y: { label: metricName(metric), zero: true, tickFormat: "~s" },
        color: color(domain),
        marks: [
          axis === null
            ? Plot.ruleX(banded, { x: "x", y1: "low", y2: "high", stroke: "name", strokeWidth: 2 })
            : Plot.areaY(banded, { x: "x", y1: "low", y2: "high", fill: "name", fillOpacity: 0.2 }),
          axis === null ? null : Plot.lineY(points, { x: "x", y: "y", stroke: "name" }),
          Plot.dot(points, { x: "x", y: "y", fill: "name", r: 3.5 }),
          Plot.tip(points, Plot.pointer({ x: "x", y: "y", title })),
        ],
      },
    });
  }
  return charts;
}

function quantiles(report: Report) {
  return report.arm_summaries.flatMap((s) => {
    const arm = report.arms.find((a) => a.id === s.arm);
    const values = s.quantiles["latency"];
    if (!arm || !values) return [];
    const reference = baselineOf(report, arm);
    const of = report.arm_summaries.find((o) => o.arm === reference?.id)?.quantiles["latency"];
    return values.filter((q) => q.quantile < 1 && q.value_ns > 0).map((q) => {
      const against = of?.find((o) => o.quantile === q.quantile)?.value_ns;
      return {
        workload: arm.workload, name: arm.label, odds: 1 / (1 - q.quantile), quantile: q.quantile, ms: q.value_ns / 1e6,
        thin: q.thin, shift: against && reference?.id !== arm.id ? q.value_ns / against : null,
      };
    });
  });
}

// A point 1 - 1/x of the way to 100 %: 1 is p0, 10 is p90, 100 is p99.
const percentile = (odds: number) => `p${Number((100 * (1 - 1 / odds)).toFixed(4))}`;
const odds: Plot.ScaleOptions = {
  type: "log", label: "percentile", ticks: [2, 10, 100, 1000, 10000], tickFormat: percentile,
};

/** Latency at each percentile, an arm a line; hollow dots are thin. */
export function percentiles(report: Report): Chart[] {
  const all = quantiles(report);
  return unique(all.map((q) => q.workload)).map((workload) => {
    const points = all.filter((q) => q.workload === workload);
    const title = (p: (typeof points)[number]) =>
      `${p.name}\n${percentile(p.odds)}: ${p.ms.toPrecision(4)} ms${p.thin ? "\nfewer than 10 samples beyond" : ""}`;
    return {
      title: `${workload}: latency at each percentile (ms)`,
      options: {
        ...base, x: odds, y: { type: "log", label: "latency (ms)", tickFormat: "~g", ticks: 5 },
        color: color(unique(points.map((p) => p.name))),
        marks: [
          Plot.lineY(points, { x: "odds", y: "ms", stroke: "name" }),
          Plot.dot(points, { x: "odds", y: "ms", stroke: "name", fill: (p) => (p.thin ? "var(--bg)" : p.name), r: 2.5 }),
          Plot.tip(points, Plot.pointer({ x: "odds", y: "ms", title })),
        ],
      },
    };
  });
}

/** Each percentile of a level divided by that of the baseline at the same axes. No interval is known for it. */
export function shift(report: Report): Chart[] {
  const all = quantiles(report).flatMap((q) => (q.shift === null ? [] : [{ ...q, shift: q.shift }]));
  return unique(all.map((q) => q.workload)).map((workload) => {
    const points = all.filter((q) => q.workload === workload);
    const title = (p: (typeof points)[number]) =>
      `${p.name}\n${percentile(p.odds)}: ×${p.shift.toFixed(3)}${p.thin ? "\nfewer than 10 samples beyond" : ""}`;
    return {
      title: `${workload}: latency against the baseline (ratio at each percentile, without interval)`,
      options: {
        ...base, x: odds, y: { label: "ratio", tickFormat: (d: number) => `×${d}` },
        color: color(unique(points.map((p) => p.name))),
        marks: [
          Plot.ruleY([1], { strokeDasharray: "4 3" }),
          Plot.lineY(points, { x: "odds", y: "shift", stroke: "name" }),
          Plot.dot(points, { x: "odds", y: "shift", stroke: "name", fill: (p) => (p.thin ? "var(--bg)" : p.name), r: 2.5 }),
          Plot.tip(points, Plot.pointer({ x: "odds", y: "shift", title })),
        ],
      },
    };
  });
}

/** The primary metric of each trial in the order run, relative to its arm's mean; lines part the blocks. */
export function order(report: Report): Chart[] {
  return unique(report.arms.map((a) => a.workload)).flatMap((workload) => {
    const metric = report.metrics.find((m) => m.workload === workload && isPrimary(report, workload, m.metric.id))?.metric;
    if (!metric) return [];
    const points = report.trials.flatMap((t) => {
      const arm = report.arms.find((a) => a.id === t.arm);
      const value = t.measurements.find((m) => m.metric === metric.id)?.value;
      const mean = report.arm_summaries.find((s) => s.arm === t.arm)?.metrics.find((m) => m.metric === metric.id)?.value;
      if (arm?.workload !== workload || t.void !== null || value == null || !mean) return [];
      return [{ seq: t.seq, block: t.block, value, share: value / mean, name: arm.label }];
    });
    if (points.length === 0) return [];
    const edges = report.trials.filter((t, i) => i > 0 && t.block !== report.trials[i - 1]?.block).map((t) => t.seq - 0.5);
    const voids = report.trials.filter((t) => t.void !== null).map((t) => t.seq);
    const title = (p: (typeof points)[number]) =>
      `trial ${p.seq}, block ${p.block}\n${p.name}\n${p.value.toPrecision(5)} ${metric.unit} (×${p.share.toFixed(3)} of its arm)`;
    return [{
      title: `${workload}: ${metricName(metric)} of each trial against its arm's mean (void trials: crosses)`,
      options: {
        ...base, x: { label: "trial, in the order run" }, y: { label: "share of the arm's mean" },
        color: color(unique(points.map((p) => p.name))),
        marks: [
          Plot.ruleX(edges, { strokeOpacity: 0.15 }), Plot.ruleY([1], { strokeDasharray: "4 3" }),
          Plot.dot(points, { x: "seq", y: "share", fill: "name", r: 3.5 }),
          Plot.dot(voids, { x: (d: number) => d, frameAnchor: "bottom", symbol: "times", stroke: "currentColor", r: 4 }),
          Plot.tip(points, Plot.pointer({ x: "seq", y: "share", title })),
        ],
      },
    }];
  });
}
