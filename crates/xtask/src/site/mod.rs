//! The documentation as a site: the pages that docs/SUMMARY.md lists, with what they link to, at the paths that they have in
//! the repository, so that every relative link is right in both.

pub mod commands;
pub mod html;
pub mod links;
pub mod reference;

use crate::Repo;
use anyhow::{Context as _, Result, anyhow};
use std::collections::BTreeSet;
use std::path::Path;

/// The list of pages, which mdBook calls the summary.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// After this page's line in the summary those follow that are made from the catalogues.
const REFERENCE: &str = "reference.md";

const BOOK: &str = r#"[book]
title = "holdup"
description = "What is the scheduler holding up, what does it cost, and what fixes it?"
language = "en"
src = "src"

[build]
build-dir = "html"
create-missing = false
# Its preprocessors would rename README.md and read braces in examples.
use-default-preprocessors = false

[output.html]
no-section-label = true
default-theme = "light"
preferred-dark-theme = "navy"
additional-css = ["site.css"]

[output.html.fold]
enable = true
level = 0

[output.html.search]
limit-results = 20
teaser-word-count = 20
heading-split-level = 2

[output.html.print]
enable = false
"#;

/// Tables of numbers are wide; a narrow screen scrolls them and not the page.
const STYLE: &str = "\
.content main { max-width: 90rem; }
.content table { display: block; overflow-x: auto; max-width: 100%; width: fit-content; margin-inline: 0; }
.content pre { overflow-x: auto; }
.content p code, .content li code, .content td code { overflow-wrap: anywhere; }
.content img { max-width: 100%; height: auto; }
";

/// The pages of the summary, by their paths in the repository.
pub fn pages(repo: &Repo) -> Vec<String> {
    let text = repo.text(SUMMARY).unwrap_or_default();
    links::Page::parse(text).links.iter().filter_map(|link| links::resolve(SUMMARY, link)).collect()
}

/// The summary with paths from the root of the repository, where mdBook has its own root, and with further pages.
fn summary(repo: &Repo, made: &[(String, String)]) -> Result<String> {
    let text = repo.text(SUMMARY).with_context(|| format!("{SUMMARY} is missing"))?;
    let mut out = String::new();
    for line in text.lines() {
        let Some((before, link)) = line.split_once("](") else {
            out.push_str(&format!("{line}\n"));
            continue;
        };
        let link = link.trim_end().trim_end_matches(')');
        let path = links::resolve(SUMMARY, link).ok_or_else(|| anyhow!("{SUMMARY}: {link}: is no page"))?;
        out.push_str(&format!("{before}]({path})\n"));
        if link == REFERENCE {
            let indent = " ".repeat(before.len() - before.trim_start().len() + 2);
            made.iter().for_each(|(title, path)| out.push_str(&format!("{indent}- [{title}]({path})\n")));
        }
    }
    Ok(out)
}

/// Writes what mdBook builds into a folder.
///
/// # Errors
/// When a page is missing, the program cannot be run, or a file cannot be written.
pub fn assemble(repo: &Repo, holdup: &Path, out: &Path) -> Result<()> {
    let made = reference::pages(holdup)?;
    let write = |path: &str, bytes: &[u8]| {
        let path = out.join("src").join(path);
        path.parent().map(std::fs::create_dir_all).transpose().with_context(|| path.display().to_string())?;
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for page in pages(repo) {
        let text = repo.text(&page).with_context(|| format!("{SUMMARY}: {page}: is not there"))?;
        let linked = links::Page::parse(text).links;
        // A page that is linked and not listed would be no page of the site; the check of links refuses it.
        wanted
            .extend(linked.iter().filter_map(|link| links::resolve(&page, link)).filter(|path| !path.ends_with(".md")));
        wanted.insert(page);
    }
    for path in wanted {
        if let Some(bytes) = repo.files.get(&path) {
            write(&path, bytes)?;
        }
    }
    let listed: Vec<(String, String)> = made.iter().map(|page| (page.title.clone(), page.path.clone())).collect();
    made.iter().try_for_each(|page| write(&page.path, page.text.as_bytes()))?;
    write("SUMMARY.md", summary(repo, &listed)?.as_bytes())?;
    std::fs::write(out.join("book.toml"), BOOK).context("book.toml")?;
    std::fs::write(out.join("site.css"), STYLE).context("site.css")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_paths_of_the_repository() {
        let repo = Repo::of(&[
            (SUMMARY, "# S\n\n[holdup](../README.md)\n\n- [Reference](reference.md)\n  - [Plans](plans.md)\n"),
            ("README.md", ""),
        ]);
        let made = [("Knobs".to_owned(), "docs/reference/knobs.md".to_owned())];
        assert_eq!(
            summary(&repo, &made).unwrap(),
            "# S\n\n[holdup](README.md)\n\n- [Reference](docs/reference.md)\n  - [Knobs](docs/reference/knobs.md)\n  \
             - [Plans](docs/plans.md)\n"
        );
        assert_eq!(pages(&repo), ["README.md", "docs/reference.md", "docs/plans.md"]);
    }
}
