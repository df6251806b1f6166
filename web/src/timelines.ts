// Timelines: a row for each CPU, coloured by what it does for which task; above them all CPUs together. Mouse, wheel, keyboard.

import { time } from "./format";

/** Slices of a row, or holds, in columns. `after`: ns since the end of the one before. Words are counted from 1. */
interface Columns { after: number[]; length: number[]; task: number[]; lock: number[] }
interface Row { cpu: number; slices: Columns & { what: number[]; left: number[] }; held: Columns }
export interface Timeline {
  end: number; tasks: [name: string, tid: number][]; words: string[]; rows: Row[];
  /** Holds whose task was off its CPU. */
  off: Columns;
}

/** What a CPU does, in the order of the numbers in the data; the colours stand in the style sheet. */
const KINDS: { name: string; words: string; mark: "none" | "line" | "slash" | "cross" | "low" }[] = [
  { name: "runs", words: "runs", mark: "none" },
  { name: "user", words: "runs its own code", mark: "none" },
  { name: "kernel", words: "is in the kernel", mark: "line" },
  { name: "fault", words: "is in a page fault", mark: "cross" },
  { name: "spin", words: "spins", mark: "slash" },
  { name: "switch", words: "switched in: context switch", mark: "low" },
  { name: "interrupt", words: "is interrupted", mark: "low" },
];
const LEGEND = ["task", "its own code", "kernel", "page fault", "spins for a lock", "switch", "interrupt"];
const GUTTER = 58;
const AXIS = 22;
const OVERVIEW = 54;
const SHORTEST_NS = 100;

/** `reach`: the latest end up to here, because holds can lie in one another. */
interface Slice { begin: number; end: number; reach: number; task: number; what: number; lock: number; left: number }

function slices(columns: Columns & { what?: number[]; left?: number[] }): Slice[] {
  let [at, reach] = [0, 0];
  return columns.after.map((after, i) => {
    const begin = at + after;
    at = begin + (columns.length[i] ?? 0);
    reach = Math.max(reach, at);
    return { begin, end: at, reach, task: columns.task[i] ?? 0, what: columns.what?.[i] ?? 0, lock: columns.lock[i] ?? 0, left: columns.left?.[i] ?? 0 };
  });
}

/** The place of the first slice that can end after a time. */
function after(all: Slice[], ns: number): number {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((all[middle] as Slice).reach > ns) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** All slices that lie over a time. */
function over(all: Slice[], ns: number): Slice[] {
  const found = [];
  for (let i = after(all, ns); i < all.length && (all[i] as Slice).begin <= ns; i++) {
    if ((all[i] as Slice).end > ns) found.push(all[i] as Slice);
  }
  return found;
}

function make<K extends keyof HTMLElementTagNameMap>(name: K, properties: Partial<HTMLElementTagNameMap[K]>): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(name), properties);
}

/** A drawing area with as many dots as the screen has. */
function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const dots = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * dots), Math.round(height * dots)];
  [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
  const pen = canvas.getContext("2d");
  pen?.setTransform(dots, 0, 0, dots, 0, 0);
  return pen;
}

type Colors = Record<string, string>;
function colors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const names = [...KINDS.map((k) => `t-${k.name}`), "t-held", "t-off", "t-ink", "fg", "bg", "soft", "line", "panel", "link"];
  return Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
}

/** A slice: its colour, and a mark that does without colour where there is room. */
function bar(pen: CanvasRenderingContext2D, c: Colors, what: number, x: number, y: number, wide: number, high: number): void {
  const kind = KINDS[what] ?? KINDS[0];
  if (!kind) return;
  const low = kind.mark === "low" ? Math.max(2, Math.round(high * 0.45)) : high;
  pen.fillStyle = c[`t-${kind.name}`] ?? "";
  pen.fillRect(x, y + high - low, wide, low);
  if (wide < 7 || high < 9 || kind.mark === "none" || kind.mark === "low") return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide, high);
  pen.clip();
  pen.strokeStyle = c["t-ink"] ?? "";
  pen.globalAlpha = 0.32;
  pen.lineWidth = 1;
  pen.beginPath();
  if (kind.mark === "line") {
    pen.moveTo(x, y + 1);
    pen.lineTo(x + wide, y + 1);
    pen.lineWidth = 2;
  } else {
    for (let i = Math.floor(x / 7) * 7 - 7; i < x + wide; i += 7) {
      pen.moveTo(i, y + high);
      pen.lineTo(i + high, y);
      if (kind.mark === "cross") {
        pen.moveTo(i, y);
        pen.lineTo(i + high, y + high);
      }
    }
  }
  pen.stroke();
  pen.restore();
}

class Drawing {
  private readonly rows: { cpu: number; slices: Slice[]; held: Slice[] }[];
  private readonly off: Slice[];
  private view: [number, number];
  private width = 0;
  private row = 0;
  private at: { row: number; ns: number } | null = null;
  private readonly strip = make("canvas", {});
  private readonly overview = make("canvas", { className: "overview" });
  private readonly canvas = make("canvas", { className: "cpus", tabIndex: 0 });
  private readonly said = make("p", { className: "said" });
  private readonly tip = make("div", { className: "tip", hidden: true });
  private readonly swatches: { canvas: HTMLCanvasElement; what: number | "held" | "off" }[] = [];
  private readonly kinds: number[];

  constructor(private readonly stage: HTMLElement, private readonly data: Timeline, title: string) {
    this.rows = data.rows.map((r) => ({ cpu: r.cpu, slices: slices(r.slices), held: slices(r.held) }));
    this.off = slices(data.off);
    this.kinds = KINDS.map((_, i) => i).filter((i) => this.rows.some((r) => r.slices.some((s) => s.what === i)));
    this.view = [0, data.end];
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `${title}: timeline; left and right move, plus and minus zoom, up and down choose a CPU, 0 shows all`);
    this.overview.setAttribute("aria-hidden", "true");
    this.said.setAttribute("aria-live", "polite");
    const box = make("div", { className: "cpus-box" });
    box.append(this.canvas);
    const hint = make("p", { className: "note", textContent: "Above: all CPUs together. Drag to move; double-click, the buttons, or the wheel after a click zoom. Keys: ← → + − 0, and ↑ ↓ for a CPU." });
    stage.replaceChildren(this.legend(), this.buttons(), this.overview, box, this.said, hint, this.tip);
    this.listen();
  }

  private legend(): HTMLElement {
    const place = make("div", { className: "legend" });
    const add = (what: number | "held" | "off", words: string) => {
      const canvas = make("canvas", {});
      this.swatches.push({ canvas, what });
      const entry = document.createElement("span");
      entry.append(canvas, words);
      place.append(entry);
    };
    this.kinds.forEach((kind) => add(kind, LEGEND[kind] ?? ""));
    if (this.rows.some((r) => r.held.length > 0)) add("held", "holds a lock meanwhile");
    if (this.off.length > 0) add("off", "a lock's holder is off its CPU");
    place.append(make("span", { textContent: "blank: idle, or not watched" }));
    return place;
  }

  private buttons(): HTMLElement {
    const bar = make("div", { className: "bar" });
    const add = (text: string, label: string, does: () => void) => {
      const button = make("button", { type: "button", className: "save", textContent: text });
      button.setAttribute("aria-label", label);
      button.addEventListener("click", does);
      bar.append(button);
    };
    add("zoom in", "zoom in", () => this.zoom(0.5));
    add("zoom out", "zoom out", () => this.zoom(2));
    add("◀", "earlier", () => this.move(-0.4));
    add("▶", "later", () => this.move(0.4));
    add("whole", "the whole timeline", () => this.show(0, this.data.end));
    const longest = (all: Slice[]) => all.reduce<Slice | undefined>((a, b) => (a && a.end - a.begin >= b.end - b.begin ? a : b), undefined);
    const goTo = (s: Slice | undefined) => {
      if (s) this.show(s.begin - (s.end - s.begin), s.end + (s.end - s.begin));
    };
    const spins = () => this.rows.flatMap((r) => r.slices.filter((s) => s.what === 4));
    if (spins().length > 0) add("longest spin", "go to the longest stretch of spinning", () => goTo(longest(spins())));
    if (this.off.length > 0) add("longest absence of a holder", "go to where a holder is off its CPU for longest", () => goTo(longest(this.off)));
    return bar;
  }

  private listen(): void {
    const c = this.canvas;
    c.addEventListener("wheel", (e) => {
      // The page scrolls until the reader has chosen the timeline.
      if (!e.ctrlKey && document.activeElement !== c) return;
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.move(e.deltaX / this.plot());
      else this.zoom(Math.exp(Math.max(-80, Math.min(80, e.deltaY)) * 0.004), this.ns(e.offsetX));
    }, { passive: false });
    let from: { x: number; view: [number, number] } | null = null;
    c.addEventListener("pointerdown", (e) => {
      from = { x: e.offsetX, view: this.view };
      c.setPointerCapture(e.pointerId);
      this.tip.hidden = true;
    });
    c.addEventListener("pointermove", (e) => {
      if (!from) return this.hover(e);
      const by = ((from.x - e.offsetX) / this.plot()) * (from.view[1] - from.view[0]);
      this.show(from.view[0] + by, from.view[1] + by);
    });
    c.addEventListener("pointerup", () => (from = null));
    c.addEventListener("pointercancel", () => (from = null));
    c.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
      this.at = null;
      this.drawRows(colors());
    });
    c.addEventListener("dblclick", (e) => this.zoom(0.4, this.ns(e.offsetX)));
    c.addEventListener("keydown", (e) => this.key(e));
    const center = (e: PointerEvent) => {
      const ns = ((e.offsetX - GUTTER) / this.plot()) * this.data.end;
      const half = (this.view[1] - this.view[0]) / 2;
      this.show(ns - half, ns + half);
    };
    this.overview.addEventListener("pointerdown", (e) => {
      this.overview.setPointerCapture(e.pointerId);
      center(e);
    });
    this.overview.addEventListener("pointermove", (e) => e.buttons > 0 && center(e));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  private key(e: KeyboardEvent): void {
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.move(-0.15), ArrowRight: () => this.move(0.15), "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6),
      "0": () => this.show(0, this.data.end), Home: () => this.show(0, this.view[1] - this.view[0]),
      End: () => this.show(this.data.end - (this.view[1] - this.view[0]), this.data.end),
      ArrowUp: () => this.choose(this.row - 1), ArrowDown: () => this.choose(this.row + 1),
    };
    const does = keys[e.key];
    if (!does || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    does();
  }

  /** Chooses a CPU and says what it does in the middle of what is shown. */
  private choose(row: number): void {
    this.row = Math.max(0, Math.min(this.rows.length - 1, row));
    const ns = (this.view[0] + this.view[1]) / 2;
    this.at = { row: this.row, ns };
    this.drawRows(colors());
    this.said.textContent = this.words(this.row, ns).join("; ");
  }

  private plot(): number {
    return Math.max(1, this.width - GUTTER);
  }

  private ns(x: number): number {
    return this.view[0] + ((x - GUTTER) / this.plot()) * (this.view[1] - this.view[0]);
  }

  private zoom(by: number, around = (this.view[0] + this.view[1]) / 2): void {
    const [begin, end] = this.view;
    this.show(around - (around - begin) * by, around + (end - around) * by);
  }

  private move(by: number): void {
    const span = this.view[1] - this.view[0];
    this.show(this.view[0] + by * span, this.view[1] + by * span);
  }

  private show(begin: number, end: number): void {
    const span = Math.max(Math.min(SHORTEST_NS, this.data.end), Math.min(end - begin, this.data.end));
    const from = Math.max(0, Math.min((begin + end - span) / 2, this.data.end - span));
    this.view = [from, from + span];
    this.redraw();
    this.say();
  }

  private say(): void {
    const [begin, end] = this.view;
    this.said.textContent = `Shown: ${time(begin)} to ${time(end)}, that is ${time(end - begin)} of ${time(this.data.end)}, on ${this.rows.length} CPUs.`;
  }

  /** At first as much as can be distinguished: in the busiest row slices of some seven dots. */
  private first(): void {
    const busiest = Math.max(1, ...this.rows.map((r) => r.slices.length));
    const share = this.plot() / 7 / busiest;
    this.view = [0, share > 0.6 ? this.data.end : Math.max(SHORTEST_NS, this.data.end * share)];
    this.say();
  }

  private high(): number {
    return Math.max(5, Math.min(24, Math.floor(700 / Math.max(1, this.rows.length))));
  }

  /** The band above the rows: holders that are off their CPUs. */
  private band(): number {
    return this.off.length > 0 ? 20 : 0;
  }

  /** Draws all of it, in the width and the colours of now. */
  draw(): void {
    const width = Math.floor(this.stage.clientWidth);
    if (width < 120) return;
    const isFirst = this.width === 0;
    this.width = width;
    if (isFirst) this.first();
    const c = colors();
    this.drawLegend(c);
    this.drawStrip(c);
    this.redraw();
  }

  /** Draws what is shown. */
  private redraw(): void {
    const c = colors();
    this.drawOverview(c);
    this.drawRows(c);
  }

  private drawRows(c: Colors): void {
    const width = this.width;
    const high = this.high();
    const top = AXIS + this.band();
    const pen = prepare(this.canvas, width, top + high * this.rows.length + 2);
    if (!pen) return;
    pen.font = "11px system-ui, sans-serif";
    this.drawAxis(pen, c, top + high * this.rows.length);
    const scale = this.plot() / (this.view[1] - this.view[0]);
    const x = (ns: number) => GUTTER + (ns - this.view[0]) * scale;
    if (this.band() > 0) this.label(pen, c, "off CPU", AXIS + 7);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, this.plot(), 1e5);
    pen.clip();
    pen.fillStyle = c["t-off"] ?? "";
    this.each(this.off, (s) => pen.fillRect(x(s.begin), AXIS + 2, Math.max(0.7, (s.end - s.begin) * scale), 11));
    this.rows.forEach((row, i) => this.drawRow(pen, c, row, top + i * high, high, x));
    if (this.at) this.outline(pen, c, top, high, x);
    pen.restore();
    const every = Math.ceil(13 / high);
    this.rows.forEach((row, i) => {
      if (i % every === 0) this.label(pen, c, `CPU ${row.cpu}`, top + i * high + high / 2, i === this.at?.row);
    });
  }

  private each(all: Slice[], does: (s: Slice) => void): void {
    for (let i = after(all, this.view[0]); i < all.length; i++) {
      const slice = all[i] as Slice;
      if (slice.begin >= this.view[1]) break;
      does(slice);
    }
  }

  private label(pen: CanvasRenderingContext2D, c: Colors, text: string, y: number, isBold = false): void {
    pen.fillStyle = (isBold ? c["fg"] : c["soft"]) ?? "";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(text, GUTTER - 7, y + 0.5);
  }

  private drawRow(
    pen: CanvasRenderingContext2D, c: Colors, row: { slices: Slice[]; held: Slice[] }, y: number, high: number, x: (ns: number) => number,
  ): void {
    const inner = high >= 8 ? high - 2 : high - 1;
    const foot = Math.max(2, Math.round(inner * 0.26));
    const clip = (s: Slice): [number, number] => {
      const from = Math.max(GUTTER - 20, x(s.begin));
      return [from, Math.min(GUTTER + this.plot() + 20, x(s.end)) - from];
    };
    pen.fillStyle = c["panel"] ?? "";
    pen.fillRect(GUTTER, y, this.plot(), inner);
    this.each(row.slices, (s) => {
      const [from, wide] = clip(s);
      const gap = wide > 4 ? 0.6 : 0;
      bar(pen, c, s.what, from, y, wide - gap, inner);
    });
    pen.fillStyle = c["t-held"] ?? "";
    this.each(row.held, (s) => {
      const [from, wide] = clip(s);
      pen.fillRect(from, y + inner - foot, Math.max(0.5, wide), foot);
    });
    if (high < 15) return;
    this.each(row.slices, (s) => {
      const [from, wide] = clip(s);
      if (wide < 34 || s.what > 4) return;
      const name = this.data.tasks[s.task]?.[0] ?? "";
      const begin = Math.max(from, GUTTER) + 4;
      const room = from + wide - begin - 3;
      const text = pen.measureText(name).width <= room ? name : name.replace(/^.* (?=\S+$)/, "");
      if (pen.measureText(text).width > room) return;
      pen.fillStyle = c["t-ink"] ?? "";
      pen.textAlign = "left";
      pen.textBaseline = "middle";
      pen.fillText(text, begin, y + (inner - foot) / 2 + 0.5);
    });
  }

  /** A frame around the selected slice, and around the holder that it waits for. */
  private outline(pen: CanvasRenderingContext2D, c: Colors, top: number, high: number, x: (ns: number) => number): void {
    if (!this.at) return;
    const { row, ns } = this.at;
    const frame = (i: number, s: Slice) => {
      pen.strokeStyle = c["fg"] ?? "";
      pen.lineWidth = 2;
      pen.strokeRect(x(s.begin), top + i * high - 0.5, Math.max(2, x(s.end) - x(s.begin)), high - 1);
    };
    const slice = over(this.rows[row]?.slices ?? [], ns)[0];
    if (!slice) return;
    frame(row, slice);
    const holder = slice.what === 4 ? this.holder(slice.lock, ns) : undefined;
    if (holder && holder.row >= 0) frame(holder.row, holder.slice);
  }

  /** Who holds a lock at a time: on a CPU, or off it (row -1). */
  private holder(lock: number, ns: number): { row: number; slice: Slice } | undefined {
    for (const [i, r] of this.rows.entries()) {
      const held = over(r.held, ns).find((s) => s.lock === lock);
      if (held) return { row: i, slice: held };
    }
    const off = over(this.off, ns).find((s) => s.lock === lock);
    return off && { row: -1, slice: off };
  }

  private drawAxis(pen: CanvasRenderingContext2D, c: Colors, bottom: number): void {
    const span = this.view[1] - this.view[0];
    const rough = (span / this.plot()) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = ([1, 2, 5, 10].find((s) => s * power >= rough) ?? 10) * power;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (let tick = Math.ceil(this.view[0] / step) * step; tick <= this.view[1]; tick += step) {
      const place = GUTTER + ((tick - this.view[0]) / span) * this.plot();
      pen.strokeStyle = c["line"] ?? "";
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(place, AXIS - 5);
      pen.lineTo(place, bottom);
      pen.stroke();
      const text = tick === 0 ? "0" : time(tick, Math.max(4, Math.ceil(Math.log10(tick / step)) + 1));
      const half = pen.measureText(text).width / 2;
      pen.fillStyle = c["soft"] ?? "";
      pen.fillText(text, Math.min(Math.max(place, GUTTER + half), this.width - half), AXIS / 2 - 1);
    }
  }

  /** All CPUs together, as shares. It is drawn once: sums over all slices take longer than a frame. */
  private drawStrip(c: Colors): void {
    const pen = prepare(this.strip, this.width, OVERVIEW);
    if (!pen) return;
    const columns = Math.max(1, Math.floor(this.plot()));
    const each = this.data.end / columns;
    const sums = this.kinds.map(() => new Float64Array(columns));
    for (const row of this.rows) {
      for (const s of row.slices) {
        const of = sums[this.kinds.indexOf(s.what)];
        for (let i = Math.floor(s.begin / each); of && i <= Math.min(columns - 1, Math.floor(s.end / each)); i++) {
          of[i] = (of[i] ?? 0) + Math.min(s.end, (i + 1) * each) - Math.max(s.begin, i * each);
        }
      }
    }
    const high = OVERVIEW - 8;
    pen.fillStyle = c["panel"] ?? "";
    pen.fillRect(GUTTER, 0, this.plot(), high);
    for (let i = 0; i < columns; i++) {
      let y = high;
      this.kinds.forEach((kind, k) => {
        const tall = ((sums[k]?.[i] ?? 0) / (each * Math.max(1, this.rows.length))) * high;
        pen.fillStyle = c[`t-${KINDS[kind]?.name}`] ?? "";
        pen.fillRect(GUTTER + i, y - tall, 1, tall);
        y -= tall;
      });
    }
    pen.font = "11px system-ui, sans-serif";
    this.label(pen, c, "all CPUs", high / 2);
  }

  /** All CPUs together; what is shown below stands out. */
  private drawOverview(c: Colors): void {
    const pen = prepare(this.overview, this.width, OVERVIEW);
    if (!pen || this.width < 1) return;
    pen.drawImage(this.strip, 0, 0, this.width, OVERVIEW);
    const high = OVERVIEW - 8;
    const x = (ns: number) => GUTTER + (ns / this.data.end) * this.plot();
    const [from, to] = [x(this.view[0]), Math.max(x(this.view[1]), x(this.view[0]) + 3)];
    pen.fillStyle = c["bg"] ?? "";
    pen.globalAlpha = 0.62;
    pen.fillRect(GUTTER, 0, from - GUTTER, high);
    pen.fillRect(to, 0, this.width - to, high);
    pen.globalAlpha = 1;
    pen.strokeStyle = c["fg"] ?? "";
    pen.lineWidth = 1.5;
    pen.strokeRect(from, 0.75, Math.max(2, Math.min(to, this.width - 1) - from), high - 1.5);
  }

  private drawLegend(c: Colors): void {
    for (const { canvas, what } of this.swatches) {
      const pen = prepare(canvas, 26, 14);
      if (!pen) continue;
      if (typeof what === "number") {
        bar(pen, c, what, 0, 0, 26, 14);
        continue;
      }
      pen.fillStyle = (what === "held" ? c["panel"] : c["t-off"]) ?? "";
      pen.fillRect(0, what === "held" ? 0 : 1, 26, what === "held" ? 14 : 11);
      pen.fillStyle = c["t-held"] ?? "";
      if (what === "held") pen.fillRect(0, 10, 26, 4);
    }
  }

  private task(i: number): string {
    return this.data.tasks[i]?.[0] ?? "a task";
  }

  private word(i: number): string {
    return this.data.words[i - 1] ?? "";
  }

  /** All that is known of a CPU at a time. */
  private words(row: number, ns: number): string[] {
    const r = this.rows[row];
    const slice = r && over(r.slices, ns)[0];
    if (!r || !slice) return [`CPU ${r?.cpu ?? ""}: idle, or not watched`];
    const lock = slice.lock > 0 ? this.word(slice.lock) : "";
    const what = `${KINDS[slice.what]?.words ?? ""}${slice.what === 4 && lock ? ` for ${lock}` : lock ? ` (${lock})` : ""}`;
    const lines = [`CPU ${r.cpu}: ${this.task(slice.task)} ${what}`, `${time(slice.end - slice.begin)}, from ${time(slice.begin, 7)} on`];
    for (const held of over(r.held, ns)) lines.push(`it holds ${this.word(held.lock)}, here for ${time(held.end - held.begin)}`);
    if (slice.what === 4) {
      const holder = this.holder(slice.lock, ns);
      const where = holder && (holder.row < 0 ? `off its CPU for ${time(holder.slice.end - holder.slice.begin)}` : `on CPU ${this.rows[holder.row]?.cpu}`);
      lines.push(holder ? `held by ${this.task(holder.slice.task)}, ${where}` : "no task holds it now");
    }
    if (slice.left > 0 && this.word(slice.left)) lines.push(`then it leaves: ${this.word(slice.left)}`);
    return lines;
  }

  private hover(e: PointerEvent): void {
    const y = e.offsetY - AXIS - this.band();
    const row = Math.floor(y / this.high());
    const ns = this.ns(e.offsetX);
    const isOff = y < 0 && y > -this.band();
    const off = isOff ? over(this.off, ns)[0] : undefined;
    const isRow = row >= 0 && row < this.rows.length && e.offsetX >= GUTTER;
    const lines = off ? [`${this.task(off.task)} holds ${this.word(off.lock)} and is off its CPU`, `for ${time(off.end - off.begin)}, from ${time(off.begin, 7)} on`] : isRow ? this.words(row, ns) : [];
    this.at = isRow ? { row, ns } : null;
    this.drawRows(colors());
    this.tip.hidden = lines.length === 0;
    this.tip.replaceChildren(...lines.map((line) => make("div", { textContent: line })));
    const place = this.stage.getBoundingClientRect();
    const room = place.width - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(e.clientX - place.left + 14, room))}px`;
    this.tip.style.top = `${e.clientY - place.top + 18}px`;
  }
}

/** Draws every timeline of the page; all but the first of a cell are shut at first. */
export function draw(timelines: Record<string, Timeline>): void {
  for (const figure of document.querySelectorAll<HTMLElement>("figure.timeline")) {
    const stage = figure.querySelector<HTMLElement>(".stage");
    const data = timelines[figure.dataset["timeline"] ?? ""];
    const caption = figure.querySelector("figcaption");
    if (!stage || !data || !caption) continue;
    const title = caption.textContent?.trim() ?? "";
    const outer = make("details", { open: !("shut" in figure.dataset) });
    outer.append(make("summary", { textContent: title }), ...[...figure.childNodes].filter((n) => n !== caption));
    caption.hidden = true;
    figure.append(outer);
    let drawing: Drawing | undefined;
    let width = 0;
    // It fires when the timeline is opened, too: until then it has no width, and nothing is made.
    new ResizeObserver(() => {
      if (stage.clientWidth < 120 || stage.clientWidth === width) return;
      width = stage.clientWidth;
      drawing ??= new Drawing(stage, data, title);
      drawing.draw();
    }).observe(stage);
  }
}
