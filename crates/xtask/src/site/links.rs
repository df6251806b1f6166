//! Links of the documentation: each leads to a file of the repository, and to a heading that is there.

use super::{SUMMARY, pages};
use crate::Repo;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};

/// What a page links to, and what can be linked to in it.
#[derive(Debug, Default)]
pub struct Page {
    /// The targets of its links and images, as they are written.
    pub links: Vec<String>,
    /// Its headings, as GitHub and mdBook name them.
    pub anchors: BTreeSet<String>,
}

impl Page {
    /// Reads a page of GitHub's Markdown.
    pub fn parse(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let count = taken.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                    *count += 1;
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The name of a heading: small letters, `-` for spaces, without punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The file that a link of a page leads to, from the root of the repository; `None` for another site's page, and for a link
/// that leaves the repository.
pub fn resolve(page: &str, link: &str) -> Option<String> {
    let link = link.split('#').next().unwrap_or_default();
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// True if the site has to have a page.
fn is_documentation(path: &str) -> bool {
    path.starts_with("docs/") && path.ends_with(".md") && path != SUMMARY
}

/// What is wrong with the links of all pages.
pub fn check(repo: &Repo) -> Vec<String> {
    let listed = pages(repo);
    let mut wrong = Vec::new();
    for (i, page) in listed.iter().enumerate() {
        if listed[..i].contains(page) {
            wrong.push(format!("{SUMMARY}: {page} is listed twice"));
        }
    }
    let missing = repo.texts().map(|(path, _)| path).filter(|path| is_documentation(path));
    wrong.extend(
        missing
            .filter(|path| !listed.iter().any(|page| page == path))
            .map(|path| format!("{SUMMARY}: {path} is missing")),
    );
    let all: Vec<&str> = listed.iter().map(String::as_str).chain([SUMMARY]).collect();
    let parsed: BTreeMap<&str, Page> =
        all.iter().filter_map(|path| Some((*path, Page::parse(repo.text(path)?)))).collect();
    for (path, page) in &parsed {
        wrong.extend(page.links.iter().filter_map(|link| check_link(repo, &parsed, path, link)));
    }
    wrong
}

fn check_link(repo: &Repo, parsed: &BTreeMap<&str, Page>, page: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let Some(path) = resolve(page, link) else {
        return Some(format!("{page}: {link}: leads out of the repository"));
    };
    if !repo.files.contains_key(&path) {
        return Some(format!("{page}: {link}: there is no file {path}"));
    }
    if path.ends_with(".md") && (path == SUMMARY || !parsed.contains_key(path.as_str())) {
        return Some(format!("{page}: {link}: {path} is no page of the site ({SUMMARY})"));
    }
    let anchor = link.split_once('#')?.1;
    let is_there = parsed.get(path.as_str()).is_some_and(|to| to.anchors.contains(anchor));
    (!is_there).then(|| format!("{page}: {link}: {path} has no heading #{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_that_github_gives_them() {
        let page =
            Page::parse("# `holdup check`: am I exposed?\n\n## A_b – c\n\n## Again\n\n## Again\n\n```\n# no\n```\n");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["a_b--c", "again", "again-1", "holdup-check-am-i-exposed"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let of = |text: &str| {
            let files = [
                (SUMMARY, "# S\n- [A](a.md)\n- [R](../README.md)\n"),
                ("docs/a.md", text),
                ("README.md", "# Title\n"),
                ("GLOSSARY.md", ""),
                ("docs/i.svg", ""),
            ];
            check(&Repo::of(&files))
        };
        assert_eq!(of("# A\n[r](../README.md#title) ![i](i.svg) [h](#a) [x](https://example.org/x)"), [""; 0]);
        for text in [
            "[r](b.md)",
            "![i](j.svg)",
            "[r](../README.md#titel)",
            "[h](#b)",
            "[o](../../x)",
            "[g](../GLOSSARY.md)",
            "[s](SUMMARY.md)",
        ] {
            assert_eq!(of(text).len(), 1, "{text}");
        }
        let unlisted = Repo::of(&[(SUMMARY, "# S\n- [A](a.md)\n- [A](a.md)\n"), ("docs/a.md", ""), ("docs/b.md", "")]);
        assert_eq!(check(&unlisted).len(), 2, "one twice, one not at all");
        assert_eq!(of("in code: `[r](b.md)`\n\n    [r](b.md)\n"), [""; 0]);
    }
}
