//! The built site: every link within it leads to a file and a place that are there, and none is needed from a network.

use anyhow::{Context as _, Result};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Pages that no page of ours is.
const OTHERS: [&str; 2] = ["404.html", "toc.html"];

/// What is wrong with the pages below a folder.
///
/// # Errors
/// When they cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    walk(root, &mut pages)?;
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    let (id, link) = (pattern(r#"\sid="([^"]+)""#), pattern(r#"\s(href|src)="([^"]*)""#));
    let loaded = pattern(r#"<(?:script|img|link|iframe)\b[^>]*\s(?:src|href)="(?:https?:)?//"#);
    let ids: BTreeMap<&PathBuf, BTreeSet<String>> = pages
        .iter()
        .map(|(path, text)| (path, id.captures_iter(text).map(|found| unescaped(&found[1])).collect()))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in pages.iter().filter(|(path, _)| !OTHERS.iter().any(|other| path.ends_with(other))) {
        let name = path.strip_prefix(root).unwrap_or(path).display();
        if loaded.is_match(text) {
            wrong.push(format!("{name}: loads something from a network"));
        }
        for found in link.captures_iter(text) {
            let to = unescaped(&found[2]);
            if to.is_empty() || to.contains("://") || to.starts_with("data:") || to.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = to.split_once('#').unwrap_or((&to, ""));
            let target = if file.is_empty() { path.clone() } else { normal(&path.with_file_name("").join(file)) };
            if !target.is_file() {
                wrong.push(format!("{name}: {to}: there is no such file"));
            } else if !anchor.is_empty() && ids.get(&target).is_some_and(|ids| !ids.contains(anchor)) {
                wrong.push(format!("{name}: {to}: there is no such place"));
            }
        }
    }
    if pages.len() < 30 {
        wrong.push(format!("{}: {} pages, which is not the site", root.display(), pages.len()));
    }
    Ok(wrong)
}

fn unescaped(text: &str) -> String {
    text.replace("&amp;", "&").replace("&#x27;", "'").replace("&quot;", "\"").replace("%20", " ")
}

fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(out.pop()),
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

fn walk(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, pages)?;
        } else if path.extension().is_some_and(|e| e == "html") {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            pages.insert(path, text);
        }
    }
    Ok(())
}
