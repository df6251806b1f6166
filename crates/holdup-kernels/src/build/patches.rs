//! Patches: those that holdup carries, and how any is read.

use super::key::hex_digest;
use super::source::Version;
use holdup_model::Problem;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// A patch that holdup carries.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// The name to ask for it by.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its texts, oldest kernel first: the code around a change differs between kernels.
    pub texts: &'static [Text],
}

/// A patch for some kernels.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// The first kernel that it is for, major and minor number.
    pub first: (u32, u32),
    /// The last one.
    pub last: (u32, u32),
    /// The patch, with a header that says what was read and what was tested.
    pub text: &'static str,
}

/// The patches that holdup carries.
pub const CARRIED: &[Carried] = &[Carried {
    name: "restore-preempt-none",
    about: "offers the models none and voluntary again beside full and lazy",
    texts: &[
        Text { first: (7, 0), last: (7, 1), text: include_str!("../../patches/restore-preempt-none-7.0.patch") },
        Text { first: (7, 2), last: (7, 2), text: include_str!("../../patches/restore-preempt-none-7.2.patch") },
    ],
}];

impl Carried {
    /// The kernels that it is for, in words: `7.0 to 7.2`.
    pub fn kernels(&self) -> String {
        let name = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let first = self.texts.first().map(|text| name(text.first)).unwrap_or_default();
        let last = self.texts.last().map(|text| name(text.last)).unwrap_or_default();
        format!("{first} to {last}")
    }
}

/// A patch that is to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patch {
    /// As the spec names it.
    pub(super) name: String,
    /// The text; patches need not be UTF-8.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of the text behind its header, in hexadecimal: other words about a patch make no other kernel.
    pub(super) sha256: String,
    /// The files that it changes, below the tree.
    pub(super) touches: BTreeSet<String>,
}

impl Patch {
    /// The patch of a name or a path.
    ///
    /// # Errors
    /// When there is none, it is not for this kernel, or it is no patch of files below the tree.
    pub(super) fn find(name: &str, version: &Version) -> Result<Patch, Problem> {
        if let Some(carried) = CARRIED.iter().find(|carried| carried.name == name) {
            let this = (version.major, version.minor);
            let Some(text) = carried.texts.iter().find(|text| (text.first..=text.last).contains(&this)) else {
                let why = format!("it is for Linux {}, not for {}", carried.kernels(), version.text);
                return Err(Problem::usage(format!("patch {name}"), why));
            };
            return Patch::read(name, text.text.as_bytes().to_vec());
        }
        let bytes = holdup_files::read_input(Path::new(name), crate::files::MOST_BYTES).map_err(|e| {
            let carried: Vec<&str> = CARRIED.iter().map(|carried| carried.name).collect();
            Problem::usage(format!("patch {name}"), e.to_string())
                .hint(format!("a patch is a path or one that holdup carries: {}", carried.join(", ")))
        })?;
        Patch::read(name, bytes)
    }

    fn read(name: &str, bytes: Vec<u8>) -> Result<Patch, Problem> {
        let wrong = |why: String| Problem::usage(format!("patch {name}"), why);
        let touches = touched(&String::from_utf8_lossy(&bytes)).map_err(wrong)?;
        if touches.is_empty() {
            return Err(wrong("it changes no file: it has no line that begins `+++ `".to_owned()));
        }
        let sha256 = hex_digest(difference(&bytes));
        Ok(Patch { name: name.to_owned(), sha256, bytes, touches })
    }
}

/// Lines outside hunks by which `patch` does more than change text. Source: GNU patch 2.7, `src/pch.c:intuit_diff_type`.
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

/// What stands behind the header of a patch: from the first line that begins `--- `.
fn difference(bytes: &[u8]) -> &[u8] {
    let begin = b"--- ";
    if bytes.starts_with(begin) {
        return bytes;
    }
    let at = bytes.windows(begin.len() + 1).position(|window| window[0] == b'\n' && &window[1..] == begin);
    at.map_or(bytes, |at| &bytes[at + 1..])
}

/// The files that a unified difference changes, without the first part of their paths, as `patch -p1` has them.
fn touched(text: &str) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    let mut lines = text.lines().peekable();
    // How many lines of the old and the new text the hunk still has.
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
            return Err(format!("it is more than a change of text: `{shown}`"));
        }
        let Some(old) = line.strip_prefix("--- ") else { continue };
        let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ ")) else { continue };
        for path in [old, new] {
            // A time may follow behind a tab.
            let path = path.split('\t').next().unwrap_or_default().trim_end();
            if path == "/dev/null" {
                continue;
            }
            let below = path.split_once('/').map(|(_, below)| below).unwrap_or_default();
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if below.is_empty() || !Path::new(below).components().all(plain) {
                return Err(format!("`{}` is no file below the tree", path.escape_debug()));
            }
            files.insert(below.to_owned());
        }
    }
    Ok(files)
}

/// The lengths of the hunk that a line `@@ -FIRST,LENGTH +FIRST,LENGTH @@` begins, old and new, in lines.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    // A length of one may be left out.
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
    fn every_carried_patch_can_be_read_and_says_what_was_tested() {
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
    fn a_carried_patch_is_refused_for_a_kernel_that_it_is_not_for() {
        for kernel in ["6.19.14", "7.3.4", "8.0.1"] {
            let problem = Patch::find("restore-preempt-none", &version(kernel)).unwrap_err();
            assert_eq!(problem.why, format!("it is for Linux 7.0 to 7.2, not for {kernel}"));
        }
        let problem = Patch::find("restore-preempt", &version("7.2.12")).unwrap_err();
        assert!(problem.hint.unwrap().contains("restore-preempt-none"));
    }

    #[test]
    fn a_patch_is_known_by_its_difference_and_not_by_its_header() {
        let of = |text: &str| patch(text).sha256;
        let change = "--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-x\n+y\n";
        assert_eq!(of(change), of(&format!("words\nmore\n{change}")));
        assert_ne!(of(change), of(&change.replace("+y", "+z")));
    }

    #[test]
    fn the_files_of_a_patch_are_known_and_those_outside_the_tree_refused() {
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
            assert!(why.contains("more than a change of text"), "{why}");
        }
        // What is in a hunk is text, whatever it looks like.
        let inside = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n new mode \n--- a/y\n+++ b/z\n\\ No newline\n copy from \n";
        assert_eq!(touched(inside).unwrap().into_iter().collect::<Vec<_>>(), ["x"]);
        assert!(Patch::read("p", vec![0xff, 0xfe, 0]).is_err());
    }
}
