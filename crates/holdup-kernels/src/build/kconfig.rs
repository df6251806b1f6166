//! The options in a source's Kconfig files, and their dependencies.
//!
//! For error messages only; make decides. Source of the format: `Documentation/kbuild/kconfig-language.rst` (v7.2).

use std::collections::BTreeMap;
use std::path::Path;

/// All options, with their `depends on` lines.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    depends: BTreeMap<String, Vec<String>>,
}

impl Symbols {
    /// Reads all Kconfig files of a tree that can apply to x86. Unreadable files are skipped; error messages then say less.
    pub(super) fn read(tree: &Path) -> Symbols {
        let mut symbols = Symbols::default();
        let mut folders = vec![tree.to_owned()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let Some(name) = name.to_str() else { continue };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => {
                        let other_machine = folder.ends_with("arch") && name != "x86";
                        if !other_machine && !matches!(name, "Documentation" | "tools" | ".git") {
                            folders.push(path);
                        }
                    }
                    Ok(kind) if kind.is_file() && name.starts_with("Kconfig") => {
                        let bytes = holdup_files::read_input(&path, crate::files::MOST_BYTES).unwrap_or_default();
                        symbols.take(&String::from_utf8_lossy(&bytes));
                    }
                    _ => {}
                }
            }
        }
        symbols
    }

    pub(super) fn take(&mut self, text: &str) {
        let text = text.replace("\\\n", " ");
        let mut current: Option<String> = None;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("config" | "menuconfig"), Some(name)) => {
                    self.depends.entry(name.to_owned()).or_default();
                    current = Some(name.to_owned());
                }
                (Some("choice" | "endchoice" | "menu" | "endmenu" | "if" | "endif" | "source" | "comment"), _) => {
                    current = None;
                }
                (Some("depends"), Some("on")) => {
                    let condition = words.collect::<Vec<_>>().join(" ");
                    let condition = condition.split('#').next().unwrap_or_default().trim().to_owned();
                    let known = current.as_ref().and_then(|name| self.depends.get_mut(name));
                    if let Some(known) = known.filter(|known| !known.contains(&condition)) {
                        known.push(condition);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.depends.contains_key(name)
    }

    /// The dependencies of an option, each name followed by its value in parentheses.
    pub(super) fn depends(&self, name: &str, value: impl Fn(&str) -> String) -> Option<String> {
        let conditions = self.depends.get(name).filter(|conditions| !conditions.is_empty())?;
        let spelled = conditions.iter().map(|condition| with_values(condition, &value));
        Some(spelled.collect::<Vec<_>>().join(", and on "))
    }
}

fn with_values(condition: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = condition;
    while !rest.is_empty() {
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        if length == 0 {
            let gap = rest.find(in_name).unwrap_or(rest.len());
            out.push_str(&rest[..gap]);
            rest = &rest[gap..];
            continue;
        }
        let name = &rest[..length];
        out.push_str(name);
        let is_option = name.starts_with(|c: char| c.is_ascii_uppercase());
        // `$(…)` runs a command; it is not an option.
        if is_option && !out[..out.len() - name.len()].ends_with("$(") {
            out.push_str(&format!(" ({})", value(name)));
        }
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_shown_with_values() {
        let mut symbols = Symbols::default();
        let text = "menu \"m\"\n\tdepends on OUTER\nconfig A\n\tbool\n\tdepends on B && \\\n\t\t!C\n\thelp\n\t  depends.\n\
                    menuconfig D\n\tdepends on (B || 64BIT) # why\nif X\nconfig E\nendif\n";
        symbols.take(text);
        let value = |name: &str| if name == "B" { "y".to_owned() } else { "n".to_owned() };
        assert_eq!(symbols.depends("A", value).unwrap(), "B (y) && !C (n)");
        assert_eq!(symbols.depends("D", value).unwrap(), "(B (y) || 64BIT)");
        assert!(symbols.knows("E") && symbols.depends("E", value).is_none());
        assert!(!symbols.knows("OUTER") && symbols.depends("OUTER", value).is_none());
    }
}
