//! Where something stands: a file with line and column, or an option of the command line.

use std::rc::Rc;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Source {
    /// Line and column of a byte offset, both from 1; the column counts characters.
    pub(crate) fn line_and_column(&self, at: usize) -> (u32, u32) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = self.text[..at].trim_start_matches('\u{feff}');
        let line = before.matches('\n').count() + 1;
        let column = before[before.rfind('\n').map_or(0, |n| n + 1)..].chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Location {
    /// In a file, at a byte offset.
    In { file: usize, at: usize },
    /// On the command line: the option as it was given.
    Flag(Rc<str>),
}

impl Location {
    pub(crate) fn flag(text: impl Into<String>) -> Self {
        Location::Flag(Rc::from(text.into()))
    }
}

/// The folder of a file, with its slash; empty for a file in the current folder.
pub(crate) fn folder(file: &str) -> &str {
    file.rfind('/').map_or("", |slash| &file[..=slash])
}

/// A path relative to the folder of a file. Absolute paths stay as they are.
pub(crate) fn resolve(file: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}{}", folder(file), path.trim_start_matches("./"))
}

/// A path with `.` and `..` taken out, to compare whether two are the same file.
pub(crate) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("{}{}", if path.starts_with('/') { "/" } else { "" }, parts.join("/"))
}

/// The name of a file without folders and ending, made fit for a plan's name.
pub(crate) fn stem(file: &str) -> String {
    let base = &file[folder(file).len()..];
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| if stem.is_empty() { base } else { stem });
    let fit: String = stem.chars().map(|c| if c.is_control() { '-' } else { c }).take(100).collect();
    let fit = fit.trim_start_matches('.').trim().to_owned();
    if fit.is_empty() { "plan".to_owned() } else { fit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_columns() {
        let check = |text: &str, at: usize, expect: (u32, u32)| {
            let source = Source { name: String::new(), text: text.to_owned() };
            assert_eq!(source.line_and_column(at), expect, "{text:?} at {at}");
        };
        check("", 0, (1, 1));
        check("ab\ncd", 4, (2, 2));
        check("ü = 1", 3, (1, 3));
        check("ü = 1", 1, (1, 1));
        check("a\r\nb", 3, (2, 1));
        check("a", 99, (1, 2));
        check("\u{feff}a", 3, (1, 1));
    }

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        let check = |file: &str, path: &str, expect: &str| assert_eq!(resolve(file, path), expect);
        check("plans/demo.toml", "common.toml", "plans/common.toml");
        check("plans/demo.toml", "./a/../b.toml", "plans/a/../b.toml");
        check("demo.toml", "common.toml", "common.toml");
        check("/etc/demo.toml", "/srv/x.toml", "/srv/x.toml");
        assert_eq!(normal("plans/a/../b.toml"), "plans/b.toml");
        assert_eq!(normal("../a/./b"), "../a/b");
        assert_eq!(normal("/a//b"), "/a/b");
    }

    #[test]
    fn a_plan_is_named_after_its_file() {
        let check = |file: &str, expect: &str| assert_eq!(stem(file), expect);
        check("plans/demo.toml", "demo");
        check("a.b.toml", "a.b");
        check(".toml", "toml");
        check("plans/", "plan");
        check("demo", "demo");
    }
}
