//! Patches: those that holdup carries, and the user's.

use super::key::hex_digest;
use super::source::Version;
use holdup_model::Problem;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// A patch that holdup carries.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// Its name in specs.
    pub name: &'static str,
    /// One line of description.
    pub about: &'static str,
    /// Its variants, oldest kernel first.
    pub texts: &'static [Text],
}

/// A variant for a range of kernels.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// The first kernel, major and minor number.
    pub first: (u32, u32),
    /// The last kernel.
    pub last: (u32, u32),
    /// The patch, with a header that lists what was read and tested.
    pub text: &'static str,
}

/// All carried patches.
pub const CARRIED: &[Carried] = &[Carried {
    name: "restore-preempt-none",
    about: "offers the models none and voluntary again beside full and lazy",
    texts: &[
        Text { first: (7, 0), last: (7, 1), text: include_str!("../../patches/restore-preempt-none-7.0.patch") },
        Text { first: (7, 2), last: (7, 2), text: include_str!("../../patches/restore-preempt-none-7.2.patch") },
    ],
}];

impl Carried {
    /// Its range of kernels: `7.0 to 7.2`.
    pub fn kernels(&self) -> String {
        let name = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let first = self.texts.first().map(|text| name(text.first)).unwrap_or_default();
        let last = self.texts.last().map(|text| name(text.last)).unwrap_or_default();
        format!("{first} to {last}")
    }
}

/// A patch to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patch {
    /// Its name in the spec.
    pub(super) name: String,
    /// Patches need not be UTF-8.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of the text after its header, in hexadecimal: the description does not change the kernel.
    pub(super) sha256: String,
    /// The files that it changes, relative to the tree.
    pub(super) touches: BTreeSet<String>,
}

impl Patch {
    /// Finds a patch by name or path.
    ///
    /// # Errors
    /// When it does not exist, is for other kernels, or changes files outside the tree.
    pub(super) fn find(name: &str, version: &Version) -> Result<Patch, Problem> {
        if let Some(carried) = CARRIED.iter().find(|carried| carried.name == name) {
            let this = (version.major, version.minor);
            let Some(text) = carried.texts.iter().find(|text| (text.first..=text.last).contains(&this)) else {
                let why = format!("it is for Linux {}, not for {}", carried.kernels(), version.text);
                return Err(Problem::usage(format!("patch {name}"), why));
            };
            return Patch::read(name, text.text.as_bytes().to_vec());
        }
        Patch::of_file(name).map_err(|problem| {
            let carried: Vec<&str> = CARRIED.iter().map(|carried| carried.name).collect();
            problem.hint(format!("a patch is a path or one that holdup carries: {}", carried.join(", ")))
        })
    }

    /// A patch of the user's.
    ///
    /// # Errors
    /// When it cannot be read, or changes files outside the tree.
    pub(super) fn of_file(path: &str) -> Result<Patch, Problem> {
        let bytes = holdup_files::read_input(Path::new(path), crate::files::MOST_BYTES)
            .map_err(|e| Problem::usage(format!("patch {path}"), e.to_string()))?;
        Patch::read(path, bytes)
    }

    pub(super) fn read(name: &str, bytes: Vec<u8>) -> Result<Patch, Problem> {
        let wrong = |why: String| Problem::usage(format!("patch {name}"), why);
        let touches = touched(&String::from_utf8_lossy(&bytes)).map_err(wrong)?;
        if touches.is_empty() {
            return Err(wrong("it changes no file: it has no line that begins `+++ `".to_owned()));
        }
        let sha256 = hex_digest(difference(&bytes));
        Ok(Patch { name: name.to_owned(), sha256, bytes, touches })
    }
}

/// Lines outside hunks that make `patch` do more than edit text. Source: GNU patch 2.7, `src/pch.c:intuit_diff_type`.
const MORE_THAN_TEXT: &[&str] = &[
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "old mode ",
    "new mode ",
    "new file mode 120",
    "GIT binary patch",
];

/// The part of a patch after its header: from the first line that begins `--- `.
fn difference(bytes: &[u8]) -> &[u8] {
    let begin = b"--- ";
    if bytes.starts_with(begin) {
        return bytes;
    }
    let at = bytes.windows(begin.len() + 1).position(|window| window[0] == b'\n' && &window[1..] == begin);
    at.map_or(bytes, |at| &bytes[at + 1..])
}

/// The files that a unified diff changes, without the first path component (`patch -p1`).
fn touched(text: &str) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    let mut lines = text.lines().peekable();
    // The remaining lines of the hunk, old and new.
    let mut left = (0_u64, 0_u64);
    while let Some(line) = lines.next() {
        if left != (0, 0) {
            left = match line.as_bytes().first() {
                Some(b'-') => (left.0.saturating_sub(1), left.1),
                Some(b'+') => (left.0, left.1.saturating_sub(1)),
                Some(b'\\') => left,
                _ => (left.0.saturating_sub(1), left.1.saturating_sub(1)),
            };
            continue;
        }
        if let Some(lengths) = hunk(line) {
            left = lengths;
            continue;
        }
        if MORE_THAN_TEXT.iter().any(|begin| line.starts_with(begin)) {
            let shown: String = line.escape_debug().take(80).collect();
            return Err(format!("it does more than edit text: `{shown}`"));
        }
        let Some(old) = line.strip_prefix("--- ") else { continue };
        let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ ")) else { continue };
        for path in [old, new] {
            // A timestamp may follow after a tab.
            let path = path.split('\t').next().unwrap_or_default().trim_end();
            if path == "/dev/null" {
                continue;
            }
            let below = path.split_once('/').map(|(_, below)| below).unwrap_or_default();
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if below.is_empty() || !Path::new(below).components().all(plain) {
                return Err(format!("`{}` is not a file in the tree", path.escape_debug()));
            }
            files.insert(below.to_owned());
        }
    }
    Ok(files)
}

/// The old and new line counts of `@@ -FIRST,LENGTH +FIRST,LENGTH @@`.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    // A length of 1 may be omitted.
    let length = |range: &str| range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok());
    Some((length(old)?, length(new)?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn patch(text: &str) -> Patch {
        Patch::read("test", text.as_bytes().to_vec()).unwrap()
    }

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn every_carried_patch_parses_and_lists_what_was_tested() {
        for (carried, text) in CARRIED.iter().flat_map(|carried| carried.texts.iter().map(move |text| (carried, text)))
        {
            let patch = Patch::find(carried.name, &version(&format!("{}.{}.0", text.first.0, text.first.1))).unwrap();
            assert!(!patch.touches.is_empty(), "{}", carried.name);
            let head = text.text.split("\n--- ").next().unwrap();
            assert!(head.lines().any(|line| line.starts_with("Read: Linux ")), "{}", carried.name);
            let tested = |line: &str| ["Tested: Linux ", "Tested: not booted"].iter().any(|say| line.starts_with(say));
            assert!(head.lines().any(tested) && !text.text.contains("TESTED-HERE"), "{}", carried.name);
        }
    }

    #[test]
    fn a_carried_patch_is_refused_for_other_kernels() {
        for kernel in ["6.19.14", "7.3.4", "8.0.1"] {
            let problem = Patch::find("restore-preempt-none", &version(kernel)).unwrap_err();
            assert_eq!(problem.why, format!("it is for Linux 7.0 to 7.2, not for {kernel}"));
        }
        let problem = Patch::find("restore-preempt", &version("7.2.12")).unwrap_err();
        assert!(problem.hint.unwrap().contains("restore-preempt-none"));
    }

    #[test]
    fn a_patch_is_identified_by_its_diff_not_its_header() {
        let of = |text: &str| patch(text).sha256;
        let change = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-x\n+y\n";
        assert_eq!(of(change), of(&format!("words\nmore\n{change}")));
        assert_ne!(of(change), of(&change.replace("+y", "+z")));
    }

    #[test]
    fn patches_of_files_outside_the_tree_are_refused() {
        let text =
            "words\n--- a/kernel/a.c\t2026-01-01\n+++ b/kernel/a.c\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/new.c\n";
        assert_eq!(touched(text).unwrap().into_iter().collect::<Vec<_>>(), ["kernel/a.c", "new.c"]);
        for bad in ["a/../../etc/passwd", "/etc/passwd/../x", "name", "a//"] {
            assert!(touched(&format!("--- {bad}\n+++ {bad}\n")).is_err(), "{bad}");
        }
        assert!(Patch::read("p", b"no difference\n".to_vec()).is_err());
        for line in MORE_THAN_TEXT {
            let bad = format!("diff --git a/x b/y\n{line}\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n");
            let why = Patch::read("p", bad.into_bytes()).unwrap_err().why;
            assert!(why.contains("more than edit text"), "{why}");
        }
        // Inside a hunk every line is text.
        let inside = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n new mode \n--- a/y\n+++ b/z\n\\ No newline\n copy from \n";
        assert_eq!(touched(inside).unwrap().into_iter().collect::<Vec<_>>(), ["x"]);
        assert!(Patch::read("p", vec![0xff, 0xfe, 0]).is_err());
    }
}
