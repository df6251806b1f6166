// Draws the charts into the page, again whenever their width changes. Colours follow the page by style sheet.

import * as Plot from "@observablehq/plot";
import { KINDS, swatch } from "./charts";
import { read, type Page } from "./data";
import { draw as drawFlames } from "./flames";
import { download, figure } from "./save";
import { draw as drawTimelines } from "./timelines";

/** The series that a chart shows; none where colour means something else. */
function legendOf(data: unknown): number[] {
  const points = (data as { points?: { series?: number }[] }).points ?? [];
  return [...new Set(points.flatMap((p) => (p.series === undefined ? [] : [p.series])))].sort((a, b) => a - b);
}

/** The drawing itself among the figure's parts, which may have a legend with small ones. */
function drawingIn(place: Element): SVGSVGElement | null {
  const all = [...place.querySelectorAll("svg")];
  return all.sort((a, b) => Number(b.getAttribute("height")) - Number(a.getAttribute("height")))[0] ?? null;
}

function draw(page: Page, chart: HTMLElement): void {
  const place = chart.querySelector<HTMLElement>(".plot");
  const data = page.charts[chart.dataset["chart"] ?? ""];
  const kind = KINDS[chart.dataset["kind"] ?? ""];
  const title = chart.querySelector("figcaption > span")?.textContent ?? "";
  if (!place || !kind || data === undefined) return;
  const width = Math.max(260, Math.floor(place.clientWidth));
  if (place.dataset["width"] === String(width)) return;
  place.dataset["width"] = String(width);
  const plot = Plot.plot({ ...kind(page, data as never, width), ariaLabel: title });
  plot.style.margin = "0";
  place.replaceChildren(plot);
}

function prepare(page: Page, chart: HTMLElement): void {
  const caption = chart.querySelector("figcaption");
  if (!caption) return;
  const title = caption.textContent?.trim() ?? "";
  const button = Object.assign(document.createElement("button"), { type: "button", className: "save", textContent: "save as SVG" });
  button.setAttribute("aria-label", `save as SVG: ${title}`);
  const words = Object.assign(document.createElement("span"), { textContent: title });
  caption.replaceChildren(words);
  chart.querySelector(".foot")?.append(button);
  button.addEventListener("click", () => {
    const drawing = drawingIn(chart.querySelector(".plot") ?? chart);
    const whole = [chart.dataset["context"] ?? "", title].filter(Boolean).join(": ");
    if (drawing) download(whole, figure(page, whole, drawing, legendOf(page.charts[chart.dataset["chart"] ?? ""]), swatch));
  });
}

function legends(page: Page): void {
  for (const place of document.querySelectorAll<HTMLElement>(".legend")) {
    for (const i of (place.dataset["series"] ?? "").trim().split(/\s+/).filter(Boolean).map(Number)) {
      const entry = document.createElement("span");
      entry.append(swatch(page, i), page.series[i]?.name ?? "");
      place.append(entry);
    }
  }
}

/** Opens what holds the target of a link, and all for print. */
function openDetails(): void {
  const reveal = () => {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    for (let at = target?.closest("details"); at; at = at.parentElement?.closest("details")) at.open = true;
    target?.scrollIntoView({ block: "center" });
  };
  const shut = [...document.querySelectorAll<HTMLDetailsElement>("details.numbers")];
  shut.forEach((d) => (d.open = false));
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => shut.forEach((d) => (d.open = true)));
  if (location.hash) reveal();
}

const page = read();
if (page) {
  openDetails();
  legends(page);
  const charts = [...document.querySelectorAll<HTMLElement>("figure.chart")];
  charts.forEach((chart) => prepare(page, chart));
  const all = () => charts.forEach((chart) => draw(page, chart));
  new ResizeObserver(() => requestAnimationFrame(all)).observe(document.body);
  all();
  drawFlames(page.flames);
  drawTimelines(page.timelines);
}
