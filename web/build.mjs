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
const { build } = await import("esbuild");
const result = await build({
  entryPoints: [join(web, "src/main.ts")],
  bundle: true, minify: true, write: false, format: "iife", target: "es2022", charset: "ascii", legalComments: "inline",
});
// The script stands inside a page, where these would end it or start a comment.
const text = result.outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
writeFileSync(out, head + text);
