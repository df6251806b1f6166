// Draws the charts into the page, again whenever its width or colour scheme changes.

import * as Plot from "@observablehq/plot";
import { curves, order, percentiles, shift, type Chart } from "./charts";
import { read, type Report } from "./data";

const KINDS: Record<string, (report: Report) => Chart[]> = { curves, percentiles, shift, order };

function save(figure: Element, title: string) {
  const all = [...figure.querySelectorAll("svg")];
  const svg = all.reduce((a, b) => (b.clientWidth * b.clientHeight > a.clientWidth * a.clientHeight ? b : a));
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const style = getComputedStyle(document.body);
  // A file has no page around it that would give colours to text and tips.
  copy.setAttribute("style", `color:${style.color};background:${style.backgroundColor};--bg:${style.backgroundColor};` +
    "--plot-background:#fff;font-family:system-ui,sans-serif");
  const url = URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: `${title.replace(/[^\w.-]+/g, "-")}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function draw(report: Report) {
  for (const place of document.querySelectorAll<HTMLElement>("figure[data-chart]")) {
    const width = Math.max(280, place.parentElement?.clientWidth ?? 640);
    const charts = KINDS[place.dataset["chart"] ?? ""]?.(report) ?? [];
    place.replaceChildren(...charts.map(({ title, options }) => {
      const box = document.createElement("div");
      box.className = "chart";
      const caption = document.createElement("figcaption");
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: "save as SVG" });
      caption.append(`${title} `, button);
      const plot = Plot.plot({ ...options, width, ariaLabel: title, style: { background: "none", "--plot-background": "var(--bg)" } as never });
      button.addEventListener("click", () => save(box, title));
      box.append(caption, plot);
      return box;
    }));
  }
}

const report = read();
if (report) {
  let last = 0;
  const again = () => {
    if (document.body.clientWidth !== last) {
      last = document.body.clientWidth;
      draw(report);
    }
  };
  new ResizeObserver(() => requestAnimationFrame(again)).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(report));
  again();
}
