// A figure as one SVG file that needs no page around it: title, legend, drawing, colours as they are seen.

import type { Page } from "./data";

const XMLNS = "http://www.w3.org/2000/svg";

/** Every `var(--name)` as the colour that it stands for now. */
function resolve(text: string): string {
  const style = getComputedStyle(document.documentElement);
  return text.replace(/var\((--[\w-]+)\)/g, (whole, name: string) => style.getPropertyValue(name).trim() || whole);
}

function element(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(XMLNS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

/** Lines of at most `width` letters. */
function wrapped(text: string, letters: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= letters) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The file's text. `legend` holds the numbers of the series that the figure shows. */
export function figure(page: Page, title: string, drawing: SVGSVGElement, legend: number[], swatch: (page: Page, i: number) => Element): string {
  const width = Number(drawing.getAttribute("width"));
  const height = Number(drawing.getAttribute("height"));
  const file = element("svg", { xmlns: XMLNS, width, "font-family": "system-ui, sans-serif", "font-size": 12, color: "var(--fg)", fill: "var(--fg)" });
  let y = 12;
  file.append(element("rect", { width: "100%", height: "100%", fill: "var(--bg)" }));
  for (const line of wrapped(title, width / 8)) {
    y += 18;
    file.append(element("text", { x: 12, y, "font-size": 14, "font-weight": 600 }, line));
  }
  let x = 12;
  y += 12;
  for (const i of legend) {
    const name = page.series[i]?.name ?? "";
    const needs = 44 + name.length * 7;
    if (x > 12 && x + needs > width) [x, y] = [12, y + 18];
    const mark = swatch(page, i);
    mark.setAttribute("x", String(x));
    mark.setAttribute("y", String(y));
    file.append(mark, element("text", { x: x + 40, y: y + 11 }, name));
    x += needs + 14;
  }
  if (legend.length > 0) y += 22;
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("y", String(y));
  // A tip that hangs in the figure belongs to the mouse.
  copy.querySelectorAll('[aria-label="tip"]').forEach((tip) => tip.remove());
  file.append(copy);
  file.setAttribute("height", String(y + height + 8));
  file.setAttribute("viewBox", `0 0 ${width} ${y + height + 8}`);
  return resolve(new XMLSerializer().serializeToString(file));
}

/** Hands a text to the reader as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: `${name.replace(/[^\w.-]+/g, "-").replace(/^-|-$/g, "")}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
