//! What is inside the release, for its packages: the crates that are linked in, and what is in it beside crates. Their licences as
//! one text, and a list of materials in CycloneDX's form.
//!
//! cargo-about and cargo-cyclonedx would each do a part of it, but know only crates; here SQLite, glibc and the script of the page are
//! listed too, and both documents have the same components.

mod licences;
mod materials;

use crate::repo::{self, cargo, printed};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The script of the HTML page, which begins with the licences of what was bundled into it.
const PAGE_SCRIPT: &str = "crates/holdup-report/assets/report.js";

/// The crate that is built.
const PROGRAM: &str = "holdup";

/// Something that is in the release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    /// Where packages of its kind are named: `cargo`, `npm`, `generic`.
    pub kind: &'static str,
    /// The SHA-256 of the package that it was built from, hexadecimal.
    pub sha256: Option<String>,
    /// Its licences, each with the name of its file.
    pub texts: Vec<(String, String)>,
    /// The components that it depends on, as `name@version`.
    pub depends_on: Vec<String>,
}

impl Component {
    fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Writes `third-party-licences.txt` and `holdup.cdx.json` into a folder, and returns the licence of the whole as an SPDX expression.
///
/// # Errors
/// When cargo fails, or something has no licence.
pub fn write(folder: &Path, target: &str, timestamp: &str) -> Result<String> {
    let mut all = crates(target)?;
    all.extend(beside_crates(&all)?);
    let texts = licences::text(&all)?;
    let whole = licences::expression(&all);
    let materials = materials::document(&all, &whole, timestamp)?;
    for (name, text) in [("third-party-licences.txt", texts), ("holdup.cdx.json", materials)] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(whole)
}

/// The crates that are linked into the program for a target, ours first.
fn crates(target: &str) -> Result<Vec<Component>> {
    // Exact where `cargo metadata` is not: by the features of this one program, without what only runs in the build.
    let edges = "normal,no-proc-macro";
    let tree = ["tree", "--locked", "--package", PROGRAM, "--target", target, "--edges", edges];
    let tree = cargo(&[&tree[..], &["--prefix", "none", "--format", "{p}"]].concat())?;
    let linked: BTreeSet<String> = tree.lines().filter_map(id_of_line).collect();
    let metadata = ["metadata", "--locked", "--format-version=1", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&cargo(&metadata)?).context("cargo metadata")?;
    let sums = sums(&std::fs::read_to_string(repo::root().join("Cargo.lock")).context("Cargo.lock")?);
    let mut ids = BTreeMap::new();
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().context("cargo metadata: no packages")? {
        let component = component(package, &sums)?;
        ids.insert(package["id"].as_str().unwrap_or_default(), component.id());
        if linked.contains(&component.id()) {
            let is_ours = package["source"].is_null();
            let texts = if is_ours { Vec::new() } else { texts(package)? };
            found.insert((!is_ours, component.id()), Component { texts, ..component });
        }
    }
    for node in metadata["resolve"]["nodes"].as_array().context("cargo metadata: no graph")? {
        let id = node["id"].as_str().and_then(|id| ids.get(id)).context("cargo metadata: an unknown node")?;
        let Some(component) = found.values_mut().find(|c| c.id() == *id) else { continue };
        for edge in node["deps"].as_array().into_iter().flatten() {
            let is_normal = edge["dep_kinds"].as_array().into_iter().flatten().any(|k| k["kind"].is_null());
            let on = edge["pkg"].as_str().and_then(|id| ids.get(id)).context("cargo metadata: an unknown edge")?;
            if is_normal && linked.contains(on) {
                component.depends_on.push(on.clone());
            }
        }
        component.depends_on.sort();
    }
    if found.len() != linked.len() {
        bail!("cargo tree has {} crates, cargo metadata {} of them", linked.len(), found.len());
    }
    Ok(found.into_values().collect())
}

/// `name@version` of a line `name vVERSION …`.
fn id_of_line(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some(format!("{name}@{version}"))
}

/// The sums of Cargo.lock by `name@version`.
fn sums(lock: &str) -> BTreeMap<String, String> {
    let value = |part: &str, key: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|text| text.trim_end_matches('"').to_owned())
    };
    let parts = lock.split("[[package]]").skip(1);
    parts
        .filter_map(|p| Some((format!("{}@{}", value(p, "name")?, value(p, "version")?), value(p, "checksum")?)))
        .collect()
}

fn component(package: &Value, sums: &BTreeMap<String, String>) -> Result<Component> {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let component = Component {
        name: text("name"),
        version: text("version"),
        // The form before SPDX expressions.
        licence: text("license").replace('/', " OR ").replace("  ", " "),
        kind: "cargo",
        ..Component::default()
    };
    if component.licence.is_empty() {
        bail!(
            "{}: its package names no licence\nhint: add what its files say to crates/xtask/src/inside",
            component.id()
        );
    }
    Ok(Component { sha256: sums.get(&component.id()).cloned(), ..component })
}

/// The licences in the folder of a package.
fn texts(package: &Value) -> Result<Vec<(String, String)>> {
    let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
    let folder = manifest.parent().context("a manifest without a folder")?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let begins = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if begins.iter().any(|begin| name.to_uppercase().starts_with(begin)) && entry.file_type()?.is_file() {
            found.push((name, String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// What is in the program beside crates.
fn beside_crates(crates: &[Component]) -> Result<Vec<Component>> {
    let rust = printed("rustc", &["--version"])?;
    let rust = rust.split_whitespace().nth(1).context("rustc --version")?.to_owned();
    let glibc = printed("getconf", &["GNU_LIBC_VERSION"])?;
    let glibc = glibc.split_whitespace().nth(1).context("getconf GNU_LIBC_VERSION")?.to_owned();
    let sqlite = crates.iter().find(|c| c.name == "libsqlite3-sys").context("libsqlite3-sys is not linked")?;
    let one = |name: &str, version: String, licence: &str, text: &str| Component {
        name: name.to_owned(),
        version,
        licence: licence.to_owned(),
        kind: "generic",
        texts: vec![("its licence in short".to_owned(), text.to_owned())],
        ..Component::default()
    };
    let mut found = vec![
        one("rust-std", rust, "MIT OR Apache-2.0", RUST),
        one("glibc", glibc, "LGPL-2.1-or-later", &format!("{GLIBC}\n\n{}", lgpl()?)),
        // The version of the crate stands for that of its copy, which has no name elsewhere.
        one("sqlite", sqlite.version.clone(), "blessing", SQLITE),
    ];
    let script = std::fs::read_to_string(repo::root().join(PAGE_SCRIPT)).context(PAGE_SCRIPT)?;
    found.extend(of_page(&script)?);
    Ok(found)
}

const RUST: &str = "The standard library of Rust. Copyright (c) The Rust Project Contributors. MIT or Apache-2.0, as its user likes; the texts
are those of most crates in this file.";

const GLIBC: &str = "The GNU C Library, linked in statically. Copyright (C) Free Software Foundation, Inc. It is under the GNU Lesser General Public
License, version 2.1 or later; its source is the package `glibc` of the distribution that built this program. The complete source
of this program and its build script (script/build) are public, so that it can be linked again with another version of the library.
What GCC adds to a program (libgcc) is under its Runtime Library Exception, which asks nothing of the program.";

const SQLITE: &str = "SQLite is in the public domain. May you do good and not evil. May you find forgiveness for yourself and forgive others. May
you share freely, never taking more than you give.";

fn lgpl() -> Result<String> {
    let path = "/usr/share/common-licenses/LGPL-2.1";
    let text = std::fs::read_to_string(path);
    text.with_context(|| {
        format!("{path}: the licence of glibc, which goes into packages\nhint: it is in Debian's package base-files")
    })
}

/// The packages that are bundled into the script of the page: its second comment has each text below `name version, …:`.
fn of_page(script: &str) -> Result<Vec<Component>> {
    let notices =
        script.split("/*\n").nth(1).and_then(|rest| rest.split_once("\n*/")).context("no notices in the script")?.0;
    let mut found = Vec::new();
    for part in notices.split("\n\n----\n\n") {
        let (names, text) = part.split_once(":\n\n").context("a notice without names")?;
        for name in names.split(", ") {
            let (name, version) = name.rsplit_once(' ').context("a package without a version")?;
            found.push(Component {
                name: name.to_owned(),
                version: version.to_owned(),
                licence: "ISC".to_owned(),
                kind: "npm",
                texts: vec![("LICENSE".to_owned(), text.to_owned())],
                ..Component::default()
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_read() {
        assert_eq!(id_of_line("serde v1.0.229"), Some("serde@1.0.229".to_owned()));
        assert_eq!(id_of_line("holdup v0.1.0 (/a/b) (*)"), Some("holdup@0.1.0".to_owned()));
        assert_eq!(id_of_line(""), None);
    }

    #[test]
    fn sums_are_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        assert_eq!(sums(lock), BTreeMap::from([("a@1.0.0".to_owned(), "00ff".to_owned())]));
    }

    #[test]
    fn a_package_without_a_licence_is_refused() {
        let package = serde_json::json!({"name": "a", "version": "1.0.0", "license": null});
        assert!(component(&package, &BTreeMap::new()).is_err());
        let package = serde_json::json!({"name": "a", "version": "1.0.0", "license": "MIT/Apache-2.0"});
        assert_eq!(component(&package, &BTreeMap::new()).expect("has one").licence, "MIT OR Apache-2.0");
    }

    #[test]
    fn packages_of_the_page_are_found_with_their_texts() {
        let script = "/* hash */\n/*\n@a/b 0.6.17, c 1.0.0:\n\nISC text\n\n----\n\nd 2.0.0:\n\nother\n*/\ncode";
        let found = of_page(script).expect("is read");
        let all: Vec<(String, &str)> = found.iter().map(|c| (c.id(), c.texts[0].1.as_str())).collect();
        let wanted = [("@a/b@0.6.17", "ISC text"), ("c@1.0.0", "ISC text"), ("d@2.0.0", "other")];
        assert_eq!(all, wanted.map(|(id, text)| (id.to_owned(), text)));
        assert!(of_page("code").is_err());
    }
}
