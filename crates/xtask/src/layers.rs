//! Dependencies between our crates point down.

use crate::Repo;
use crate::repo::cargo;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// Libraries through which an engine would touch the host.
const HOST_LIBRARIES: [&str; 10] =
    ["libc", "rustix", "nix", "rusqlite", "postgres", "signal-hook", "tempfile", "indicatif", "tracing", "clap"];

/// The crates that tests of all layers may use, and nothing else.
const FOR_TESTS: [&str; 2] = ["holdup-testkit", "holdup-induce"];

/// A row of the code map in ARCHITECTURE.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeMapRow {
    /// The layer, from 0.
    pub layer: u32,
    /// True if it may touch the host although it is in a layer of engines.
    pub touches_host: bool,
    /// Crates that it may depend on although they are not below it.
    pub beside: Vec<String>,
}

/// Reads the code map: rows `| layer | crate | what | host | beside |`.
pub fn code_map(architecture: &str) -> BTreeMap<String, CodeMapRow> {
    architecture
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> =
                line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
            let [layer, name, _what, host, beside] = cells.as_slice() else { return None };
            let (layer, touches_host) = (layer.parse().ok()?, *host != "no");
            let place = CodeMapRow { layer, touches_host, beside: in_backticks(beside) };
            Some((in_backticks(name).pop()?, place))
        })
        .collect()
}

fn in_backticks(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A dependency: whose, on what, of which kind (`normal`, `dev`, `build`).
pub type Edge = (String, String, String);

/// The crates of the workspace, and their direct dependencies, by `cargo metadata`.
///
/// # Errors
/// When cargo fails or says something else than JSON of its format.
pub fn edges() -> Result<(Vec<String>, Vec<Edge>)> {
    let metadata = cargo(&["metadata", "--format-version=1", "--no-deps", "--offline"])?;
    let all: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (mut crates, mut edges) = (Vec::new(), Vec::new());
    for package in list(&all["packages"]) {
        let name = text(&package["name"]).context("a package without a name")?;
        for dependency in list(&package["dependencies"]) {
            let on = text(&dependency["name"]).context("a dependency without a name")?;
            edges.push((name.clone(), on, text(&dependency["kind"]).unwrap_or_else(|| "normal".to_owned())));
        }
        crates.push(name);
    }
    Ok((crates, edges))
}

/// What is wrong with the dependencies.
pub fn check(repo: &Repo, crates: &[String], edges: &[Edge]) -> Vec<String> {
    let Some(architecture) = repo.text("ARCHITECTURE.md") else { return vec!["ARCHITECTURE.md is missing".to_owned()] };
    let map = code_map(architecture);
    let mut wrong = Vec::new();
    for name in crates {
        if !map.contains_key(name) {
            wrong.push(format!("{name}: has no row in the code map of ARCHITECTURE.md"));
        }
    }
    for (from, on, kind) in edges {
        let Some(here) = map.get(from) else { continue };
        if FOR_TESTS.contains(&on.as_str()) {
            if kind != "dev" {
                wrong.push(format!("{from} depends on {on}, which is for tests only: name it in [dev-dependencies]"));
            }
            continue;
        }
        if let Some(there) = map.get(on) {
            if there.layer >= here.layer && !here.beside.contains(on) {
                wrong.push(format!(
                    "{from} (layer {}) depends on {on} (layer {}): let it point down, or name it in ARCHITECTURE.md",
                    here.layer, there.layer
                ));
            }
        } else if crates.contains(on) {
            // Said above.
        } else if here.layer <= 1 && !here.touches_host && kind != "dev" && HOST_LIBRARIES.contains(&on.as_str()) {
            wrong.push(format!("{from} (layer {}) depends on {on}, through which it would touch the host", here.layer));
        }
    }
    for (name, place) in &map {
        for beside in &place.beside {
            if !edges.iter().any(|(from, on, _)| from == name && on == beside) {
                wrong.push(format!("ARCHITECTURE.md lets {name} depend on {beside}, which it does not"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "| layer | crate | what | host | beside |\n|---|---|---|---|---|\n| 0 | `m` | words | no | |\n\
                       | 0 | `s` | sums | no | `m` |\n| 2 | `h` | host | yes | |\n| 2 | `k` | knobs | yes | `h` |\n";

    fn wrong(crates: &[&str], edges: &[(&str, &str, &str)]) -> Vec<String> {
        let own = |t: &&str| (*t).to_owned();
        let edges: Vec<Edge> = edges.iter().map(|(a, b, c)| (own(a), own(b), own(c))).collect();
        check(&Repo::of(&[("ARCHITECTURE.md", MAP)]), &crates.iter().map(own).collect::<Vec<_>>(), &edges)
    }

    const GOOD: [(&str, &str, &str); 3] = [("s", "m", "normal"), ("k", "h", "normal"), ("h", "libc", "normal")];

    fn with(edge: (&'static str, &'static str, &'static str)) -> Vec<String> {
        wrong(&["m", "s", "h", "k"], &[&GOOD[..], &[edge]].concat())
    }

    #[test]
    fn upward_and_sideways_dependencies_are_found() {
        assert_eq!(wrong(&["m", "s", "h", "k"], &GOOD), Vec::<String>::new());
        assert_eq!(with(("k", "m", "normal")), Vec::<String>::new());
        for edge in [("m", "k", "normal"), ("m", "s", "dev"), ("h", "k", "build"), ("s", "rusqlite", "normal")] {
            assert_eq!(with(edge).len(), 1, "{edge:?}");
        }
        assert_eq!(with(("s", "tempfile", "dev")), Vec::<String>::new());
        for on in FOR_TESTS {
            assert_eq!(with(("m", on, "dev")), Vec::<String>::new());
            assert_eq!(with(("m", on, "normal")).len(), 1);
        }
    }

    /// The lock library stands below all, so that every crate may use it, and is no engine.
    #[test]
    fn a_crate_of_the_lowest_layer_may_say_that_it_touches_the_host() {
        let map = MAP.replace("| 0 | `m` | words | no |", "| 0 | `m` | words | yes |");
        let edge = |a: &str, b: &str| (a.to_owned(), b.to_owned(), "normal".to_owned());
        let edges = [edge("s", "m"), edge("k", "h"), edge("m", "libc")];
        let crates = ["m", "s", "h", "k"].map(str::to_owned);
        assert_eq!(check(&Repo::of(&[("ARCHITECTURE.md", &map)]), &crates, &edges), Vec::<String>::new());
        assert_eq!(check(&Repo::of(&[("ARCHITECTURE.md", MAP)]), &crates, &edges).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_and_a_permission_without_use_are_found() {
        assert_eq!(wrong(&["m", "s", "h", "k", "new"], &GOOD).len(), 1);
        assert_eq!(wrong(&["m", "s", "h", "k"], &GOOD[..1]).len(), 1);
    }
}
