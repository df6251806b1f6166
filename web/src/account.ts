// The account: states over the windows, one above the other, with their names beside them.

import * as Plot from "@observablehq/plot";
import type { Account, Page } from "./data";

type State = Account["states"][number];
interface Part { state: State; begin: number; end: number; from: number; to: number }
interface Column { trial: number; middle: number; all: number; parts: Part[] }
interface Label { name: string; text: string; from: number; at: number; isThere: boolean }

const HEIGHT = 300;
const [ABOVE, BELOW, LEFT, RIGHT] = [26, 42, 56, 16];
/** Between two names, px. */
const LINE = 14;
/** Narrower drawings have a legend above, not names at the side. */
const NAMES_FROM = 640;
const SIDE = 250;

const WAITS = 8;
const colorOf = (state: State): string =>
  state.class === "on_cpu" ? "var(--cpu)"
  : state.class === "runnable" ? `var(--r${state.place})`
  : state.class === "asleep" ? `var(--w${state.place % WAITS})` : "var(--rest)";
const percent = (share: number): string => (share > 0 && share < 0.0005 ? "<0.1 %" : `${(share * 100).toFixed(1)} %`);
const sessions = (n: number): string => String(+n.toPrecision(3));

/** The states of each window, one above the other. */
function columns(data: Account): Column[] {
  return data.windows.map(({ trial, begin, end }, at) => {
    let all = 0;
    const parts = data.states.map((state) => {
      const from = all;
      all += state.sessions[at] ?? 0;
      return { state, begin, end, from, to: all };
    });
    return { trial, middle: (begin + end) / 2, all, parts };
  });
}

/** Names beside the last window, at least a line apart, all of them inside the drawing. */
function labels(last: Part[], top: number): Label[] {
  const line = (LINE / (HEIGHT - ABOVE - BELOW)) * top;
  const placed = last.map(({ state, from, to }) => ({
    text: `${state.name.length > 27 ? `${state.name.slice(0, 26)}…` : state.name} ${percent(state.share)}`,
    name: state.name, from: (from + to) / 2, at: (from + to) / 2, isThere: to > from,
  }));
  placed.forEach((label, i) => (label.at = Math.max(label.at, i === 0 ? line / 2 : (placed[i - 1]?.at ?? 0) + line)));
  for (let i = placed.length - 1, below = top; i >= 0; i--) {
    const label = placed[i] as Label;
    label.at = Math.min(label.at, below);
    below = label.at - line;
  }
  return placed;
}

export function account(_page: Page, data: Account, width: number): Plot.PlotOptions {
  const all = columns(data);
  const top = Math.max(...all.map((c) => c.all)) * 1.04 || 1;
  const end = data.windows.at(-1)?.end ?? 1;
  const isWide = width >= NAMES_FROM && data.states.length * LINE <= HEIGHT - ABOVE - BELOW;
  const inside = width - LEFT - (isWide ? SIDE : RIGHT);
  const beside = isWide ? labels(all.at(-1)?.parts ?? [], top) : [];
  const seen = (column: Column) => column.parts.filter((p) => p.to > p.from);
  const title = (column: Column) => `window ${column.trial}: ${sessions(column.all)} ${data.of} at work` +
    seen(column).reverse().map((p) => `\n${percent((p.to - p.from) / column.all)} ${p.state.name}`).join("");
  return {
    width, height: HEIGHT, marginLeft: LEFT, marginRight: isWide ? SIDE : RIGHT, marginTop: ABOVE, marginBottom: BELOW,
    style: { background: "none", fontSize: "12px", color: "var(--fg)" },
    x: { domain: [0, end], label: "time watched (s)", labelAnchor: "center" },
    y: { domain: [0, top], label: `${data.of} at work`, ticks: 5 },
    color: { type: "categorical", domain: data.states.map((s) => s.name), range: data.states.map(colorOf), legend: !isWide },
    marks: [
      Plot.gridY({ stroke: "var(--grid)", strokeOpacity: 1, ticks: 5 }),
      Plot.rectY(all.flatMap(seen), {
        x1: "begin", x2: "end", y1: "from", y2: "to", fill: (p: Part) => p.state.name, stroke: "var(--bg)", strokeWidth: inside / all.length < 8 ? 0 : 0.6,
      }),
      Plot.link(beside.filter((l) => l.isThere), { x1: end, x2: end + (12 / inside) * end, y1: "from", y2: "at", stroke: "var(--soft)", strokeWidth: 0.8 }),
      Plot.dot(beside, { x: end, y: "at", dx: 18, r: 4.5, symbol: "square", fill: "name" }),
      Plot.text(beside, { x: end, y: "at", text: "text", textAnchor: "start", dx: 28, fill: "var(--fg)", fontSize: 12 }),
      Plot.tip(all, Plot.pointerX({
        x: "middle", y: (c: Column) => c.all / 2, title, maxRadius: width, preferredAnchor: "left",
        fill: "var(--bg)", stroke: "var(--soft)", textPadding: 9, fontSize: 12.5, lineHeight: 1.25,
      } as Plot.TipOptions)),
    ],
  };
}
