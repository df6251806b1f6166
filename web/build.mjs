// Bundles src/ into the script of the report page. `--check` only says whether the committed one is stale.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const web = dirname(fileURLToPath(import.meta.url));
const out = join(web, "../crates/holdup-report/assets/report.js");

function sources() {
  const under = readdirSync(join(web, "src"), { recursive: true, withFileTypes: true })
    .filter((e) => e.isFile())
    .map((e) => relative(web, join(e.parentPath ?? e.path, e.name)).split(sep).join("/"));
  return [...under, "package.json", "package-lock.json", "build.mjs"].sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
}

function digest() {
  const hash = createHash("sha256");
  for (const path of sources()) {
    const content = readFileSync(join(web, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

const head = `/* holdup-web-sources: ${digest()} */\n`;
if (process.argv.includes("--check")) {
  const stale = !existsSync(out) || !readFileSync(out, "utf8").startsWith(head);
  if (stale) {
    console.error("crates/holdup-report/assets/report.js is stale\nhint: cd web && npm ci && node build.mjs");
  }
  process.exit(stale ? 1 : 0);
}

/** The licence notices of what is bundled: each text once, with the packages that it holds for. */
function notices(inputs) {
  const packages = new Set();
  for (const path of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (found) packages.add(found[1]);
  }
  const texts = new Map();
  for (const name of [...packages].sort()) {
    const folder = join(web, "node_modules", name);
    const file = readdirSync(folder).find((f) => /^licen[cs]e(\.|$)/i.test(f));
    if (!file) throw new Error(`${name} has no licence file`);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const text = readFileSync(join(folder, file), "utf8").replace(/\r/g, "").replaceAll("*/", "* /").trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
  }
  return `/*\n${[...texts].map(([text, names]) => `${names.join(", ")}:\n\n${text}`).join("\n\n----\n\n")}\n*/\n`;
}

const { build } = await import("esbuild");
const result = await build({
  entryPoints: [join(web, "src/main.ts")],
  bundle: true, minify: true, write: false, format: "iife", target: "es2022", charset: "ascii", legalComments: "inline", metafile: true,
});
// The script stands inside a page, where these would end it or start a comment.
const text = result.outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const [output] = Object.values(result.metafile.outputs);
const bundled = Object.entries(output.inputs).filter(([, input]) => input.bytesInOutput > 0).map(([path]) => path);
writeFileSync(out, head + notices(bundled) + text);
