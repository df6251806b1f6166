// Drives a rendered page (HOLDUP_PAGE) in Chromium: charts, tips, saved files, widths, contrast, no script, no network.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

assert.ok(process.env.HOLDUP_PAGE, "HOLDUP_PAGE must name a page that holdup report --html wrote");
assert.ok(process.env.HOLDUP_STACKS_PAGE, "HOLDUP_STACKS_PAGE must name such a page of a bundle with call stacks");
assert.ok(process.env.HOLDUP_TIMELINE_PAGE, "HOLDUP_TIMELINE_PAGE must name such a page of a simulated bundle with timelines");
const href = (path) => pathToFileURL(resolve(path)).href;
const [PAGE, STACKS_PAGE] = [href(process.env.HOLDUP_PAGE), href(process.env.HOLDUP_STACKS_PAGE)];
const TIMELINE_PAGE = href(process.env.HOLDUP_TIMELINE_PAGE);
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-quic",
];
let browser;
before(async () => {
  // Each launch has a fresh profile.
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
});
after(() => browser?.close());

/** The page in its own context, with all that it should not do. */
async function open(options = {}, url = PAGE) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { errors: [], requests: [] };
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && seen.errors.push(m.text()));
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  page.on("request", (r) => !/^(data|blob):/.test(r.url()) && r.url() !== url && seen.requests.push(r.url()));
  await page.goto(url);
  return { page, seen, close: () => context.close() };
}

const MARKS = '[aria-label="rect"] rect, [aria-label="dot"] path, [aria-label="dot"] circle, [aria-label="bar"] rect, [aria-label="line"] path';

test("every chart is drawn, and there is no error and no request", async () => {
  const { page, seen, close } = await open();
  const charts = await page.locator("figure.chart").all();
  assert.ok(charts.length > 0, "the page has no chart");
  const declared = await page.evaluate(() => Object.keys(JSON.parse(document.getElementById("data").textContent).charts).length);
  assert.equal(charts.length, declared, "each chart's data belong to a figure");
  for (const chart of charts) {
    const name = await chart.getAttribute("data-chart");
    assert.ok((await chart.locator(".plot svg").locator(MARKS).count()) > 0, `chart ${name} has no marks`);
    assert.ok((await chart.locator("table tbody tr").count()) > 0, `chart ${name} has no table`);
    const broken = await chart.locator(".plot svg").evaluateAll((all) => all.some((svg) => /NaN|undefined/.test(svg.outerHTML)));
    assert.ok(!broken, `chart ${name} has places that are no numbers`);
  }
  assert.ok((await page.locator(".legend svg").count()) > 0, "no legend is drawn");
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

test("hovering over a point shows a tip with a value", async () => {
  const { page, seen, close } = await open();
  for (const chart of await page.locator("figure.chart").all()) {
    await chart.scrollIntoViewIfNeeded();
    const kind = await chart.getAttribute("data-kind");
    const marks = kind === "account" ? '[aria-label="rect"] rect' : '[aria-label="dot"] path, [aria-label="dot"] circle, [aria-label="bar"] rect';
    const mark = chart.locator(".plot").locator(marks).first();
    const box = await mark.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.move(box.x + box.width / 2 + 1, box.y + box.height / 2);
    const tip = chart.locator('[aria-label="tip"] text');
    await tip.first().waitFor({ timeout: 5000 });
    assert.match(await tip.first().textContent(), /\d/, `chart ${await chart.getAttribute("data-chart")}`);
    await page.mouse.move(0, 0);
  }
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

test("every chart can be saved as an SVG file that stands alone", async () => {
  const { page, close } = await open();
  const names = [];
  for (const chart of await page.locator("figure.chart").all()) {
    const [download] = await Promise.all([page.waitForEvent("download"), chart.getByRole("button", { name: /^save as SVG/ }).click()]);
    // Without a pause Chromium loses one of many downloads in a row, which no reader could click so fast.
    await page.waitForTimeout(250);
    names.push(download.suggestedFilename());
    const text = await readFile(await download.path(), "utf8");
    assert.match(text, /^<svg[^>]*xmlns=/);
    assert.match(text, /<(circle|path|rect)/);
    assert.ok(!text.includes("var(--"), "a colour is still a name that only the page knows");
    const errors = await page.evaluate((svg) => new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("parsererror").length, text);
    assert.equal(errors, 0, "the file is not well-formed");
    assert.ok(text.includes((await chart.locator("figcaption").textContent()).trim().split(" ")[0]), "the file has no title");
  }
  assert.ok(names.every((n) => n.endsWith(".svg")));
  assert.equal(new Set(names).size, names.length, "two charts have the same file name");
  await close();
});

for (const [name, url] of [["charts", PAGE], ["stacks", STACKS_PAGE], ["timelines", TIMELINE_PAGE]]) {
  test(`the policy lets the page's own script run and no other: ${name}`, async () => {
    const { page, seen, close } = await open({}, url);
    const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute("content");
    assert.match(policy, /^default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}='; /);
    assert.ok((await page.locator(".plot svg, figure svg").count()) > 0, "its own script does not run");
    assert.deepEqual(seen, { errors: [], requests: [] });
    await page.evaluate(async () => {
      document.body.append(Object.assign(document.createElement("script"), { textContent: "window.ran = 'a script'" }));
      document.body.insertAdjacentHTML("beforeend", '<img src="data:," onerror="window.ran = \'a handler\'"><img src="http://127.0.0.1:9/x">');
      const failed = (image) => new Promise((done) => image.addEventListener("error", done));
      await Promise.all([...document.images].filter((image) => !image.complete).map(failed));
    });
    assert.equal(await page.evaluate(() => window.ran), undefined, "what was injected runs");
    assert.ok(seen.errors.length >= 3 && seen.errors.every((e) => /Content Security Policy|ERR_/.test(e)), `${seen.errors}`);
    assert.deepEqual(seen.requests.filter((url) => !url.startsWith("http://127.0.0.1:9/")), []);
    await close();
  });
}

for (const width of [400, 800, 1600]) {
  test(`nothing sticks out of the page at ${width} px`, async () => {
    const { page, close } = await open({ viewport: { width, height: 900 } });
    for (const details of [false, true]) {
      await page.evaluate((o) => document.querySelectorAll("details").forEach((d) => (d.open = o)), details);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} px of ${width}, tables ${details ? "open" : "shut"}`);
    }
    const out = await page.evaluate(() =>
      [...document.querySelectorAll(".plot > svg, .plot > figure > svg")].filter((s) => s.getBoundingClientRect().right > innerWidth + 1).length,
    );
    assert.equal(out, 0, "a drawing is wider than the page");
    await close();
  });
}

/** Contrast after WCAG 2: at least 4.5 for text. */
function contrasts() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const f = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const bad = [];
  for (const element of document.querySelectorAll("h1,h2,h3,p,a,td,th,li,dt,dd,summary,button,figcaption,code,small,.kind,.plot svg text")) {
    if (!element.textContent.trim()) continue;
    const style = getComputedStyle(element);
    const inSvg = element instanceof SVGElement;
    const filled = inSvg && style.fill !== "none" ? style.fill : style.color;
    const [a, b] = [light(rgb(filled)), light(behind(inSvg ? element.ownerSVGElement : element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) bad.push(`${element.tagName} "${element.textContent.trim().slice(0, 30)}" ${contrast.toFixed(2)}`);
  }
  return bad;
}

for (const colorScheme of ["light", "dark"]) {
  test(`text can be read on a ${colorScheme} page`, async () => {
    const { page, close } = await open({ colorScheme });
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const sum = ground.match(/\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b, 0);
    assert.ok(colorScheme === "dark" ? sum < 150 : sum > 600, `the ground is ${ground}`);
    assert.deepEqual(await page.evaluate(contrasts), []);
    await close();
  });
}

/** A graph that is open, scrolled to, and its figure. */
async function flame(page) {
  const figure = page.locator("figure.flame").first();
  await figure.scrollIntoViewIfNeeded();
  await figure.locator(".flame-box g").first().waitFor({ timeout: 5000 });
  return figure;
}

test("every flame graph is drawn when it is opened, with its heaviest functions", async () => {
  const { page, seen, close } = await open({}, STACKS_PAGE);
  const figures = await page.locator("figure.flame").all();
  assert.ok(figures.length > 0, "the page has no flame graph");
  const declared = await page.evaluate(() => Object.keys(JSON.parse(document.getElementById("data").textContent).flames.graphs).length);
  assert.equal(figures.length, declared, "each graph's data belong to a figure");
  for (const figure of figures) {
    await figure.evaluate((f) => (f.querySelector("details").open = true));
    await figure.locator(".flame-box g").first().waitFor({ timeout: 5000 });
    assert.ok((await figure.locator(".flame-box g").count()) > 3, "a graph has no calls");
    assert.ok((await figure.locator("table tbody tr").count()) > 0, "a graph has no table");
    assert.ok(!(await figure.locator(".flame-box svg").evaluate((svg) => /NaN|undefined/.test(svg.outerHTML))));
  }
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

test("a flame graph describes, fills, finds and goes back, by mouse and by keyboard", async () => {
  const { page, seen, close } = await open({}, STACKS_PAGE);
  const figure = await flame(page);
  const calls = figure.locator(".flame-box g");
  const width = async (call) => (await call.locator(".call").boundingBox()).width;
  const all = await width(calls.first());
  const inner = calls.nth(await calls.count() - 1);
  await inner.hover();
  assert.match(await figure.locator(".tip").textContent(), /: \d+\.\d+\s%, \d/);
  await inner.click();
  assert.ok(Math.abs((await width(figure.locator(".flame-box .here"))) - all) < 2, "a click fills the width");
  await figure.getByRole("button", { name: "whole graph" }).click();
  const whole = await calls.count();

  await figure.locator(".flame-box svg").focus();
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  assert.match(await figure.locator(".said").textContent(), /\[.+\]: \d+\.\d+\s%/);
  assert.ok((await figure.locator(".above").count()) >= 2, "what is above stays in sight");
  for (const key of ["Escape", "Escape"]) await page.keyboard.press(key);
  assert.equal(await calls.count(), whole, "back at the whole graph");

  const name = await figure.locator("tbody td").first().textContent();
  await figure.getByRole("searchbox").fill(name);
  assert.ok((await figure.locator(".match").count()) > 0, `${name} is not found`);
  assert.match(await figure.locator(".bar .soft").textContent(), /%/);
  await figure.getByRole("searchbox").fill("no such function");
  assert.equal(await figure.locator(".match").count(), 0);
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`each kind of call can be read and distinguished without colour on a ${colorScheme} page`, async () => {
    const { page, close } = await open({ colorScheme }, STACKS_PAGE);
    const figure = await flame(page);
    const kinds = await figure.locator(".stage .legend svg").evaluateAll((all) =>
      all.map((svg) => ({ fill: getComputedStyle(svg.querySelector(".call")).fill, marks: [...svg.querySelectorAll(".mark")].map((m) => m.tagName).join() })),
    );
    const text = await figure.locator(".flame-box text").first().evaluate((t) => getComputedStyle(t).fill);
    const light = (color) => {
      const [r, g, b] = color.match(/\d+/g).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    for (const { fill } of kinds) {
      const [a, b] = [light(fill), light(text)].sort((x, y) => y - x);
      assert.ok((a + 0.05) / (b + 0.05) >= 4.5, `${text} on ${fill}`);
    }
    const [, user, inlined, kernel] = kinds.map((k) => k.marks);
    assert.equal(new Set([user, inlined, kernel]).size, 3, "kinds differ in colour alone");
    await close();
  });
}

/** A timeline that is open and drawn, and its figure. */
async function timeline(page) {
  const figure = page.locator("figure.timeline").first();
  await figure.scrollIntoViewIfNeeded();
  await figure.locator("canvas.cpus").waitFor({ timeout: 5000 });
  return figure;
}

/** How many different colours a canvas shows. */
const colorsOf = (canvas) =>
  canvas.evaluate((c) => {
    const dots = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
    return new Set(dots).size;
  });

test("every timeline is drawn when it is opened, with its sums", async () => {
  const { page, seen, close } = await open({}, TIMELINE_PAGE);
  const figures = await page.locator("figure.timeline").all();
  assert.ok(figures.length > 0, "the page has no timeline");
  const declared = await page.evaluate(() => Object.keys(JSON.parse(document.getElementById("data").textContent).timelines).length);
  assert.equal(figures.length, declared, "each timeline's data belong to a figure");
  for (const figure of figures) {
    await figure.evaluate((f) => (f.querySelector("details").open = true));
    await figure.locator("canvas.cpus").waitFor({ timeout: 5000 });
    for (const canvas of ["canvas.cpus", "canvas.overview"]) {
      assert.ok((await colorsOf(figure.locator(canvas))) > 4, `${canvas} shows nothing`);
    }
    assert.match(await figure.locator(".said").textContent(), /^Shown: 0 ns to \d.* on \d+ CPUs\.$/);
    assert.match(await figure.locator("p.note").first().textContent(), /own code/);
    assert.ok((await figure.locator("table tbody tr").count()) > 3, "a timeline has no table");
  }
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

test("a timeline zooms, moves, goes back and describes, by mouse, wheel, buttons and keyboard", async () => {
  const { page, seen, close } = await open({}, TIMELINE_PAGE);
  const figure = await timeline(page);
  const canvas = figure.locator("canvas.cpus");
  const said = figure.locator(".said");
  const shown = async () => await said.textContent();
  const units = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const span = async () => {
    const [, n, unit] = /that is ([\d.,]+) (ns|µs|ms|s) of/.exec(await shown());
    return Number(n.replaceAll(",", "")) * units[unit];
  };
  const press = (name) => figure.getByRole("button", { name, exact: true }).click();
  await press("the whole timeline");
  const whole = await span();
  await press("zoom in");
  assert.ok(Math.abs((await span()) / whole - 0.5) < 0.01, "a button halves it");
  const before = await shown();
  await press("later");
  assert.notEqual(await shown(), before, "a button moves it");

  const box = await canvas.boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  const still = await span();
  await page.mouse.wheel(0, -60);
  assert.equal(await span(), still, "the wheel is the page's until the timeline is chosen");
  await canvas.scrollIntoViewIfNeeded();
  await canvas.click();
  const unmoved = await shown();
  await page.mouse.wheel(0, -60);
  const other = (text) => document.querySelector("figure.timeline .said").textContent !== text;
  await page.waitForFunction(other, unmoved, { timeout: 5000 });
  assert.ok((await span()) < still, "the wheel zooms");
  const zoomed = await shown();
  const again = await canvas.boundingBox();
  await page.mouse.move(again.x + 500, again.y + 60);
  await page.mouse.down();
  await page.mouse.move(again.x + 300, again.y + 60, { steps: 4 });
  await page.mouse.up();
  assert.notEqual(await shown(), zoomed, "a drag moves it");

  await canvas.focus();
  const wide = await span();
  await page.keyboard.press("+");
  assert.ok((await span()) < wide, "plus zooms in");
  await page.keyboard.press("ArrowDown");
  assert.match(await shown(), /^CPU \d+/, "arrows choose a CPU and show what it does");
  await page.keyboard.press("0");
  assert.equal(await span(), whole, "0 shows all");

  let tip = "";
  const place = await canvas.boundingBox();
  for (let step = 1; step < 40 && !/, from /.test(tip); step++) {
    await page.mouse.move(place.x + 60 + step * 23, place.y + 40 + (step % 7) * 20);
    tip = await figure.locator(".tip").textContent();
  }
  assert.match(tip, /^CPU \d+: .+ \d+.*, from \d/, "hovering shows task and length");
  await press("go to the longest stretch of spinning");
  assert.ok((await span()) < whole, "it goes to the longest stretch");
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`the colours of a timeline can be distinguished on a ${colorScheme} page`, async () => {
    const { page, close } = await open({ colorScheme }, TIMELINE_PAGE);
    const figure = await timeline(page);
    const seen = await figure.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const light = (name) => {
        const hex = style.getPropertyValue(name).trim();
        const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const kinds = ["runs", "user", "kernel", "fault", "spin"];
      return { ink: light("--t-ink"), held: light("--t-held"), panel: light("--panel"), kinds: kinds.map((k) => [k, light(`--t-${k}`)]) };
    });
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    for (const [kind, fill] of seen.kinds) {
      assert.ok(contrast(fill, seen.ink) >= 4.5, `text on ${kind}: ${contrast(fill, seen.ink)}`);
      assert.ok(contrast(fill, seen.held) >= 3, `a hold's bar on ${kind}`);
      assert.ok(contrast(fill, seen.panel) >= 1.4, `${kind} beside idle: ${contrast(fill, seen.panel)}`);
    }
    await close();
  });
}

test("a page with timelines fits on a narrow screen, and its numbers are there without a script", async () => {
  const { page, close } = await open({ viewport: { width: 400, height: 900 } }, TIMELINE_PAGE);
  await timeline(page);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 400);
  await close();
  const plain = await open({ javaScriptEnabled: false }, TIMELINE_PAGE);
  for (const figure of await plain.page.locator("figure.timeline").all()) {
    assert.ok(await figure.locator("table").first().isVisible(), "a timeline's table is shut away");
  }
  await plain.close();
});

test("a verdict leads to the trials behind it", async () => {
  const { page, close } = await open();
  const rests = page.locator(".verdict .rests").first();
  // With a chart of many results the sentences are folded.
  if (!(await rests.isVisible())) await page.locator("#verdicts > details > summary").click();
  await rests.locator("summary").click();
  const link = rests.locator("a").first();
  const target = (await link.getAttribute("href")).slice(1);
  await link.click();
  await page.locator(`[id="${target}"]`).waitFor({ state: "visible", timeout: 5000 });
  await close();
});

test("headings go down by one level and have no gaps", async () => {
  const { page, close } = await open();
  const levels = await page.locator("h1,h2,h3").evaluateAll((all) => all.map((h) => Number(h.tagName[1])));
  assert.equal(levels.filter((l) => l === 1).length, 1);
  levels.forEach((level, i) => assert.ok(i === 0 || level - levels[i - 1] <= 1, `heading ${i} jumps to h${level}`));
  const ids = await page.locator("[id]").evaluateAll((all) => all.map((e) => e.id));
  assert.equal(new Set(ids).size, ids.length, "an id stands twice");
  const dead = await page.locator('a[href^="#"]').evaluateAll((all) => all.filter((a) => !document.getElementById(a.getAttribute("href").slice(1))).length);
  assert.equal(dead, 0, "a link within the page leads nowhere");
  await close();
});

test("without a script the verdicts and the numbers of every chart are there", async () => {
  const { page, seen, close } = await open({ javaScriptEnabled: false });
  assert.ok((await page.locator(".verdict").first().isVisible()));
  for (const chart of await page.locator("figure.chart").all()) {
    assert.ok(await chart.locator("table").first().isVisible(), "a chart's table is shut away");
  }
  for (const figure of await page.locator("figure.flame").all()) {
    assert.ok(await figure.locator("table").first().isVisible(), "a graph's table is shut away");
  }
  assert.deepEqual(seen, { errors: [], requests: [] });
  await close();
});
