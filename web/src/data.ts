// What the page's data hold: made by the Rust side of the report, one entry of `charts` for each figure.

import type { Flames } from "./flames";
import type { Timeline } from "./timelines";

export interface Series { name: string; replica: boolean }
export interface Page { series: Series[]; charts: Record<string, unknown>; flames: Flames; timelines: Record<string, Timeline> }

export interface Effects {
  rows: {
    workload: string; name: string; metric: string; better: "higher" | "lower"; value: number; low: number; high: number;
    verdict: string; margin: number; noise_floor: number | null; text: string;
  }[];
}
export interface Curve {
  axis: string | null; numeric: boolean; name: string; unit: string;
  /** Whether the values are times; then they are in ns. */
  time: boolean;
  points: {
    series: number; x: number | null; label: string; value: number; low: number | null; high: number | null; n: number;
  }[];
}
export interface Percentiles {
  domain_ns: [number, number];
  points: { series: number; quantile: number; value_ns: number; thin: boolean }[];
}
export interface Shift {
  domain: [number, number];
  points: {
    series: number; quantile: number; ratio: number; low: number | null; high: number | null; thin: boolean;
  }[];
}
export interface Order {
  unit: string;
  blocks: { block: number; first: number; last: number }[];
  points: {
    seq: number; block: number; session: number; series: number; cell: string; place: number; share: number | null;
    void: string | null; text: string | null;
  }[];
}
export interface Cpu { kinds: string[]; bars: { cell: string; name: string; kind: string; share: number }[] }
/** The sessions in each state, on average in each window; null where a window has no length. */
export interface Account {
  of: string;
  windows: { trial: number; begin: number; end: number }[];
  states: { name: string; class: "on_cpu" | "runnable" | "asleep" | "other"; place: number; share: number; sessions: (number | null)[] }[];
}

export function read(): Page | null {
  const text = document.getElementById("data")?.textContent;
  return text ? (JSON.parse(text) as Page) : null;
}
