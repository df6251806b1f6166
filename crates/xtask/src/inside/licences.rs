//! One text with the licences of everything, each different text one time.

use super::Component;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const HEAD: &str = "Licences of what is inside holdup

holdup itself is under the MIT licence or the Apache licence 2.0, as its user likes. The program is linked statically from it and the
components below. Of a component under several licences with OR between them, its user may choose one.
";

const RULE: &str = "--------------------------------------------------------------------------------";

/// The text.
///
/// # Errors
/// When a component comes without a text, and no other one has the text of its licence.
pub(super) fn text(all: &[Component]) -> Result<String> {
    let others: Vec<&Component> = all.iter().filter(|c| !is_ours(c)).collect();
    let mut text = format!("{HEAD}\n");
    for c in &others {
        let _ = writeln!(text, "{} {}: {}", c.name, c.version, c.licence);
    }
    // Texts that differ in their white space alone are one.
    let mut texts: BTreeMap<String, (&str, BTreeSet<String>)> = BTreeMap::new();
    for component in &others {
        for (_, text) in &component.texts {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.entry(words).or_insert((text.as_str(), BTreeSet::new())).1.insert(component.name.clone());
        }
    }
    for component in others.iter().filter(|c| c.texts.is_empty()) {
        let licences = component.licence.split(" OR ");
        let Some((licence, other)) = licences.filter_map(|l| Some((l, with_text_of(l, &others)?))).next() else {
            bail!("{}: its package has no text of {}, and no other has it", component.id(), component.licence);
        };
        let _ = writeln!(
            text,
            "\n{} has no text in its package: it is used under {licence}, as {other} below.",
            component.id()
        );
    }
    for (as_written, names) in texts.values() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = writeln!(text, "\n{RULE}\n{}\n{RULE}\n\n{}", names.join(", "), as_written.trim_matches('\n'));
    }
    Ok(text.replace('\r', ""))
}

/// The name of a component that has the text of a licence.
fn with_text_of<'a>(licence: &str, all: &[&'a Component]) -> Option<&'a str> {
    // LICENSE-MIT, LICENSE-APACHE.
    let short = licence.split('-').next().unwrap_or(licence).to_uppercase();
    let has_it =
        |c: &&&Component| c.texts.iter().any(|(name, _)| c.licence == licence || name.to_uppercase().contains(&short));
    all.iter().find(has_it).map(|c| c.name.as_str())
}

fn is_ours(component: &Component) -> bool {
    component.kind == "cargo" && component.sha256.is_none()
}

/// The licence of the whole: all of those that differ, and ours.
pub(super) fn expression(all: &[Component]) -> String {
    let different: BTreeSet<&str> = all.iter().map(|c| c.licence.as_str()).collect();
    let group = |licence: &&str| if licence.contains(" OR ") { format!("({licence})") } else { (*licence).to_owned() };
    different.iter().map(group).collect::<Vec<_>>().join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, licence: &str, text: &str) -> Component {
        let texts = Some(("LICENSE-MIT".to_owned(), text.to_owned())).filter(|_| !text.is_empty());
        Component {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            kind: "cargo",
            sha256: Some("00".to_owned()),
            texts: texts.into_iter().collect(),
            ..Component::default()
        }
    }

    #[test]
    fn each_text_stands_one_time_with_all_that_it_is_of() {
        let all = [component("a", "MIT", "Permission is\n granted"), component("b", "MIT", "Permission is granted")];
        let text = text(&all).expect("is made");
        assert_eq!(text.matches("Permission").count(), 1, "{text}");
        assert!(text.contains("\na, b\n") && text.contains("b 1.0.0: MIT"), "{text}");
    }

    #[test]
    fn a_component_without_a_text_needs_another_with_it() {
        let all = [component("a", "MIT", "Permission"), component("b", "MIT OR Zlib", "")];
        assert!(
            text(&all)
                .expect("is made")
                .contains("b@1.0.0 has no text in its package: it is used under MIT, as a below")
        );
        let all = [component("a", "MIT", "Permission"), component("b", "Zlib", "")];
        assert!(text(&all).is_err());
    }

    #[test]
    fn the_licence_of_the_whole_names_each_one_time() {
        let all = [component("a", "MIT", ""), component("b", "MIT OR Apache-2.0", ""), component("c", "MIT", "")];
        assert_eq!(expression(&all), "MIT AND (MIT OR Apache-2.0)");
    }
}
