// Drives a rendered page (HOLDUP_PAGE) in Chromium: charts, tips, saved files, widths, no script, no network.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

assert.ok(process.env.HOLDUP_PAGE, "HOLDUP_PAGE must name a page that holdup report --html wrote");
const url = pathToFileURL(resolve(process.env.HOLDUP_PAGE)).href;
let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function open(options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const seen = { errors: [], requests: [] };
  page.on("console", (m) => m.type() === "error" && seen.errors.push(m.text()));
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  page.on("request", (r) => !/^(data|blob):/.test(r.url()) && r.url() !== url && seen.requests.push(r.url()));
  await page.goto(url);
  return { page, seen };
}

test("every chart has marks, and there is no error and no request", async () => {
  const { page, seen } = await open();
  for (const place of await page.locator("figure[data-chart]").all()) {
    const kind = await place.getAttribute("data-chart");
    assert.ok((await place.locator("svg circle, svg path").count()) > 2, `chart ${kind} has no marks`);
  }
  assert.deepEqual(seen, { errors: [], requests: [] });
  await page.close();
});

test("hovering shows a tip with a value", async () => {
  const { page } = await open();
  for (const chart of await page.locator(".chart").all()) {
    await chart.scrollIntoViewIfNeeded();
    const box = await chart.locator("svg circle, svg [aria-label=dot] path").first().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.move(box.x + box.width / 2 + 3, box.y + box.height / 2);
    await chart.locator('[aria-label="tip"] text').first().waitFor({ timeout: 5000 });
    assert.match(await chart.locator('[aria-label="tip"]').textContent(), /\d/);
  }
  await page.close();
});

test("every chart can be saved as SVG", async () => {
  const first = await open();
  const buttons = await first.page.getByRole("button", { name: "save as SVG" }).count();
  await first.page.close();
  assert.ok(buttons > 0, "there is no button");
  for (let nth = 0; nth < buttons; nth += 1) {
    // A page of its own for each: the browser holds back the tenth download or so of one page.
    const { page } = await open();
    const button = page.getByRole("button", { name: "save as SVG" }).nth(nth);
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    const text = await readFile(await download.path(), "utf8");
    assert.match(text, /^<svg[^>]*xmlns=/);
    assert.match(text, /<(circle|path)/);
    await page.close();
  }
});

test("nothing sticks out of the page", async () => {
  const { page } = await open();
  for (const width of [400, 800, 1600]) {
    await page.setViewportSize({ width, height: 900 });
    await page.waitForTimeout(300);
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
    const [wide, view] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= view, `${wide} px at ${view}`);
  }
  await page.close();
});

test("without a script the verdicts and tables are there", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(url);
  assert.ok((await page.locator(".verdict").count()) > 0);
  assert.ok(await page.locator("table").first().isVisible());
  await context.close();
});
