// Flame graphs: the outermost call on top, one row for each call below it, as wide as its share. Mouse and keyboard.

import { number, time } from "./format";

/** Name, module, and where it runs: user, inlined, kernel; task for the outermost row, other for what is not drawn. */
type Function = [name: string, module: string, kind: string];

export interface Graph {
  unit: string;
  /** For each call the caller's place and one; 0 for the outermost. */
  parent: number[];
  function: number[];
  /** The weight of the stacks that end here. */
  own: number[];
}
export interface Flames { functions: Function[]; graphs: Record<string, Graph> }

const SVG = "http://www.w3.org/2000/svg";
const ROW = 19;
const KINDS: [kind: string, words: string][] = [
  ["task", "task"], ["user", "program or library"], ["inlined", "put into its caller by the compiler"], ["kernel", "kernel"],
];

/** A call: its place in the columns and, once laid out, where it is drawn. */
interface Call { at: number; parent: Call | null; children: Call[]; weight: number; own: number; begin: number; depth: number; function: Function }

function tree(flames: Flames, graph: Graph): Call {
  const root: Call = { at: -1, parent: null, children: [], weight: 0, own: 0, begin: 0, depth: 0, function: ["all", "", "task"] };
  const calls = graph.parent.map((_, at): Call => ({
    at, parent: null, children: [], weight: 0, own: graph.own[at] ?? 0, begin: 0, depth: 0,
    function: flames.functions[graph.function[at] ?? 0] ?? ["[unknown]", "", "user"],
  }));
  calls.forEach((call, i) => {
    call.parent = calls[(graph.parent[i] ?? 0) - 1] ?? root;
    call.parent.children.push(call);
    call.depth = call.parent.depth + 1;
  });
  // A caller always stands before what it calls.
  for (const call of calls.slice().reverse()) {
    call.weight += call.own;
    if (call.parent) call.parent.weight += call.weight;
  }
  const place = (call: Call) => {
    let begin = call.begin;
    // By name, so that the same call stands in the same order in each arm.
    call.children.sort((a, b) => Number(a.function[2] === "other") - Number(b.function[2] === "other") || (a.function[0] < b.function[0] ? -1 : 1));
    for (const child of call.children) {
      child.begin = begin;
      begin += child.weight;
    }
  };
  place(root);
  calls.forEach(place);
  return root;
}

function element<K extends keyof SVGElementTagNameMap>(name: K, attributes: Record<string, string | number>): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

function make<K extends keyof HTMLElementTagNameMap>(name: K, properties: Partial<HTMLElementTagNameMap[K]>): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(name), properties);
}

/** How a kind is drawn: colour, and a mark that does without colour. */
function bar(kind: string, x: number, y: number, width: number): SVGElement[] {
  const rect = element("rect", { x, y, width, height: ROW - 1, class: `call ${kind}` });
  if (kind === "kernel") return [rect, element("rect", { x, y: y + ROW - 3, width, height: 2, class: "mark" })];
  if (kind === "inlined" && width > 6) {
    return [rect, element("line", { x1: x + 1, x2: x + width - 1, y1: y + ROW - 2, y2: y + ROW - 2, class: "mark dashed" })];
  }
  return [rect];
}

function legend(): HTMLElement {
  const place = make("div", { className: "legend" });
  for (const [kind, words] of KINDS) {
    const swatch = element("svg", { width: 26, height: ROW, "aria-hidden": "true" });
    swatch.append(...bar(kind, 0, 0, 26));
    const entry = document.createElement("span");
    entry.append(swatch, words);
    place.append(entry);
  }
  return place;
}

class Drawing {
  private readonly root: Call;
  private top: Call;
  private at: Call;
  private wanted = "";
  private readonly svg = element("svg", { role: "application", tabindex: 0 });
  private readonly said = make("p", { className: "said" });
  private readonly matched = make("span", { className: "soft" });
  private readonly out = make("button", { type: "button", className: "save", textContent: "whole graph", disabled: true });
  private readonly tip = make("div", { className: "tip", hidden: true });
  private readonly drawn = new Map<SVGElement, Call>();
  private readonly title: string;

  constructor(private readonly stage: HTMLElement, flames: Flames, private readonly graph: Graph, title: string) {
    this.title = title;
    this.root = this.top = this.at = tree(flames, graph);
    const search = make("input", { type: "search", placeholder: "find a function" });
    search.setAttribute("aria-label", `find a function in: ${title}`);
    search.addEventListener("input", () => {
      this.wanted = search.value.trim().toLowerCase();
      this.draw();
    });
    this.out.addEventListener("click", () => this.zoom(this.root));
    const bar = make("div", { className: "bar" });
    bar.append(search, this.out, this.matched);
    this.said.setAttribute("aria-live", "polite");
    this.said.textContent = "Click a call to fill the width with it. With the keyboard: arrows move, Enter fills, Escape goes back.";
    this.svg.setAttribute("aria-label", `${title}: flame graph; arrow keys move through its calls`);
    const box = make("div", { className: "flame-box" });
    box.append(this.svg);
    stage.replaceChildren(legend(), bar, box, this.said, this.tip);
    this.svg.addEventListener("click", (e) => this.under(e, (call) => this.zoom(call)));
    this.svg.addEventListener("mousemove", (e) => this.hover(e));
    this.svg.addEventListener("mouseleave", () => (this.tip.hidden = true));
    this.svg.addEventListener("keydown", (e) => this.key(e));
  }

  private under(e: MouseEvent, then: (call: Call) => void): void {
    const call = this.drawn.get((e.target as Element).closest<SVGElement>("g") as SVGElement);
    if (call) then(call);
  }

  private zoom(call: Call): void {
    this.top = this.at = call;
    this.say(call);
    this.draw();
  }

  private amount(weight: number): string {
    return this.graph.unit === "ns" ? time(weight) : `${number(weight).replace(/\.0+$/, "")} ${this.graph.unit}`;
  }

  private share(weight: number): string {
    return `${((100 * weight) / Math.max(1, this.root.weight)).toFixed(2)}\u00a0%`;
  }

  /** All that is known of a call. */
  private words(call: Call): string {
    const [name, module, kind] = call.function;
    const where = kind === "task" ? (module ? ` (${module})` : "") : ` [${[module, kind].filter(Boolean).join(", ")}]`;
    const own = call.own > 0 && kind !== "other" ? `; itself ${this.share(call.own)}` : "";
    return `${name}${where}: ${this.share(call.weight)}, ${this.amount(call.weight)}${own}`;
  }

  private say(call: Call): void {
    this.said.textContent = this.words(call);
  }

  private hover(e: MouseEvent): void {
    this.tip.hidden = true;
    this.under(e, (call) => {
      this.tip.textContent = this.words(call);
      this.tip.hidden = false;
      const at = this.stage.getBoundingClientRect();
      const room = at.width - this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, Math.min(e.clientX - at.left + 12, room))}px`;
      this.tip.style.top = `${e.clientY - at.top + 16}px`;
    });
  }

  private key(e: KeyboardEvent): void {
    const beside = (step: number) => {
      const all = this.at.parent?.children ?? [];
      return all[all.indexOf(this.at) + step];
    };
    const inside = (call: Call | null | undefined) => (call && call.depth >= this.top.depth ? call : undefined);
    const heaviest = this.at.children.reduce<Call | undefined>((a, b) => (a && a.weight >= b.weight ? a : b), undefined);
    const moves: Record<string, Call | null | undefined> = {
      ArrowDown: heaviest, ArrowUp: inside(this.at.parent),
      ArrowLeft: this.at === this.top ? undefined : beside(-1), ArrowRight: this.at === this.top ? undefined : beside(1),
      Home: this.top,
    };
    if (e.key in moves) {
      this.at = moves[e.key] ?? this.at;
      this.say(this.at);
      this.draw();
    } else if (e.key === "Enter" || e.key === " ") this.zoom(this.at);
    else if (e.key === "Escape") this.zoom(this.top.parent ?? this.root);
    else return;
    e.preventDefault();
  }

  private matches(call: Call): boolean {
    return this.wanted !== "" && call.function[2] !== "task" && `${call.function[0]} ${call.function[1]}`.toLowerCase().includes(this.wanted);
  }

  /** The weight of all calls that match, a call inside another one counted once. */
  private found(call: Call): number {
    return this.matches(call) ? call.weight : call.children.reduce((sum, c) => sum + this.found(c), 0);
  }

  /** Draws what is wide enough to be seen. */
  draw(): void {
    const width = Math.floor(this.stage.clientWidth);
    if (width < 40) return;
    const scale = width / Math.max(1, this.top.weight);
    const above: Call[] = [];
    for (let call: Call | null = this.top; call; call = call.parent) above.unshift(call);
    const groups: SVGGElement[] = [];
    this.drawn.clear();
    let deepest = 0;
    const add = (call: Call) => {
      const isAbove = call.depth < this.top.depth;
      const x = isAbove ? 0 : (call.begin - this.top.begin) * scale;
      const wide = isAbove ? width : call.weight * scale;
      if (wide < 0.6) return;
      deepest = Math.max(deepest, call.depth);
      groups.push(this.group(call, x, wide, isAbove));
      if (!isAbove) call.children.forEach(add);
    };
    above.slice(0, -1).forEach(add);
    add(this.top);
    const height = (deepest + 1) * ROW;
    for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.svg.setAttribute(key, String(value));
    this.svg.replaceChildren(...groups);
    this.out.disabled = this.top === this.root;
    this.matched.textContent = this.wanted ? `${this.share(this.found(this.root))} in calls that match` : "";
  }

  private group(call: Call, x: number, wide: number, isAbove: boolean): SVGGElement {
    const kind = call.function[2];
    const classes = [isAbove && "above", this.matches(call) && "match", call === this.at && "here"];
    const group = element("g", { class: classes.filter(Boolean).join(" ") });
    const y = call.depth * ROW;
    group.append(...bar(kind, x, y, Math.max(0.6, wide - 0.6)));
    const letters = Math.floor((wide - 6) / 6.6);
    if (letters >= 3) {
      const name = call.depth === 0 ? `all: ${this.amount(call.weight)}` : kind === "task" && call.function[1] ? `${call.function[0]} (${call.function[1]})` : call.function[0];
      const text = element("text", { x: x + 3, y: y + 12 });
      text.textContent = name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
      group.append(text);
    }
    this.drawn.set(group, call);
    return group;
  }
}

/** Draws every flame graph of the page; all but the first of a cell are shut at first. */
export function draw(flames: Flames): void {
  for (const figure of document.querySelectorAll<HTMLElement>("figure.flame")) {
    const stage = figure.querySelector<HTMLElement>(".stage");
    const graph = flames.graphs[figure.dataset["flame"] ?? ""];
    const caption = figure.querySelector("figcaption");
    if (!stage || !graph || !caption) continue;
    const title = caption.textContent?.trim() ?? "";
    const outer = make("details", { open: !("shut" in figure.dataset) });
    const summary = make("summary", { textContent: title });
    outer.append(summary, ...[...figure.childNodes].filter((n) => n !== caption));
    caption.hidden = true;
    figure.append(outer);
    let drawing: Drawing | undefined;
    let width = 0;
    // It fires when the graph is opened, too: until then it has no width, and nothing is made.
    new ResizeObserver(() => {
      if (stage.clientWidth < 40 || stage.clientWidth === width) return;
      width = stage.clientWidth;
      drawing ??= new Drawing(stage, flames, graph, title);
      drawing.draw();
    }).observe(stage);
  }
}
