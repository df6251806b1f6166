//! Captured trees as text: the files of a system that `holdup check` reads, in one file.
//!
//! ```text
//! holdup tree 1
//! base: debian-7.2-amd64.tree
//! without: boot
//! -- proc/cmdline --
//! console=ttyS0 quiet
//! -- proc/812/cwd -> /var/lib/postgresql/17/main --
//! -- sys/kernel/debug/sched/preempt ! Permission denied --
//! -- sys/fs/cgroup/ --
//! ```
//!
//! A header that ends in `/` is an empty folder. `base` names a tree beside this one, of which all is taken but what lies
//! below the paths after `without` and what stands here. Contents have these escapes: `\\`, `\0`, `\xHH`, and `\` at the end
//! of a line for "no newline here"; headers have them too. A line of a file that looks like a header begins with `\x2d`.

use crate::fake::MemoryFs;
use crate::fs::LONGEST_IN_TREE;
use holdup_files::{Folder, read_input};
use holdup_model::Problem;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    /// A file with its content.
    File(Vec<u8>),
    /// A symbolic link with its target.
    Link(String),
    /// A file or folder that could not be read, with the system's words.
    Unreadable(String),
    /// A folder that may be empty.
    Folder,
}

/// A captured tree, or what differs between it and its base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeFile {
    /// File name of the tree that this one is derived from.
    pub base: Option<String>,
    /// Paths of the base that this tree does not have, with all below them.
    pub without: Vec<String>,
    /// Entries by path, without a slash before it.
    pub entries: BTreeMap<String, TreeEntry>,
}

/// Largest file that is read, bytes.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// Longest path and target of a link (`PATH_MAX`).
const LONGEST_PATH: usize = 4095;

const FIRST_LINE: &str = "holdup tree 1";

/// Column behind which a line is broken at the next escape.
const BREAK_COLUMN: usize = 100;

impl TreeFile {
    /// Reads the tree of a file, on its base if it has one.
    ///
    /// # Errors
    /// When a file cannot be read or is no tree; the message has the line.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let read = |found: io::Result<Vec<u8>>, name: &str| {
            let hint = "holdup check --capture FILE writes a tree; one with a base lies beside it";
            found.map_err(|e| Problem::usage(format!("cannot read {name}"), e.to_string()).hint(hint))
        };
        let tree = Self::parse(&name, &read(read_input(path, MOST_BYTES as u64), &name)?)?;
        let Some(base) = &tree.base else { return Ok(tree) };
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let name = folder.join(base).display().to_string();
        let bytes = Folder::open(folder).and_then(|folder| folder.read(base, MOST_BYTES as u64));
        let base = Self::parse(&name, &read(bytes, &name)?)?;
        let failed = |why| Problem::usage(format!("cannot read {}", path.display()), why);
        tree.on(base).map_err(|why| failed(why).hint("is it the base of this tree?"))
    }

    /// Reads a text; `name` is the file's, for errors.
    ///
    /// # Errors
    /// When it is no tree.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problem> {
        Parser::default().parse(bytes).map_err(|Fault { line, why, hint }| {
            Problem::usage(format!("cannot read {name}"), format!("line {line}: {why}")).hint(hint)
        })
    }

    /// The whole tree, of this and its base.
    fn on(mut self, base: Self) -> Result<Self, String> {
        if base.base.is_some() {
            return Err("its base has a base of its own".to_owned());
        }
        let mut entries = base.entries;
        for path in &self.without {
            let folder = format!("{path}/");
            let below = entries.range(folder.clone()..).map(|(known, _)| known);
            let below: Vec<String> = below.take_while(|known| known.starts_with(&folder)).cloned().collect();
            let had = entries.remove(path).is_some() || !below.is_empty();
            below.iter().for_each(|known| drop(entries.remove(known)));
            if !had {
                return Err(format!("its base has no {path}, which it is without"));
            }
        }
        entries.append(&mut self.entries);
        Ok(TreeFile { entries, ..Self::default() })
    }

    /// This tree as what differs between it and a base of that name.
    #[must_use]
    pub fn relative_to(&self, name: &str, base: &Self) -> Self {
        let mut without: Vec<String> = Vec::new();
        for path in base.entries.keys().filter(|path| !self.entries.contains_key(*path)) {
            if without.last().is_some_and(|last| is_below(path, last)) {
                continue;
            }
            // The outermost folder of which nothing is left.
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            let is_gone = |end: &usize| !self.entries.keys().any(|known| is_below(known, &path[..*end]));
            without.extend(ends.into_iter().find(is_gone).map(|end| path[..end].to_owned()));
        }
        let differs = |(path, entry): &(&String, &TreeEntry)| base.entries.get(*path) != Some(*entry);
        let entries = self.entries.iter().filter(differs).map(|(path, entry)| (path.clone(), entry.clone())).collect();
        TreeFile { base: Some(name.to_owned()), without, entries }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        if let Some(base) = &self.base {
            text.push_str(&format!("base: {}\n", escaped_line(base)));
        }
        for path in &self.without {
            text.push_str(&format!("without: {}\n", escaped_line(path)));
        }
        for (path, entry) in &self.entries {
            let path = escaped_line(path);
            match entry {
                TreeEntry::File(content) => {
                    text.push_str(&format!("-- {path} --\n"));
                    escape(content, &mut text);
                }
                TreeEntry::Link(target) => text.push_str(&format!("-- {path} -> {} --\n", escaped_line(target))),
                TreeEntry::Unreadable(words) => text.push_str(&format!("-- {path} ! {} --\n", escaped_line(words))),
                TreeEntry::Folder => text.push_str(&format!("-- {path}/ --\n")),
            }
        }
        text
    }

    /// A file system with this tree.
    pub fn file_system(&self) -> MemoryFs {
        let fs = MemoryFs::new();
        for (path, entry) in &self.entries {
            let path = format!("/{path}");
            match entry {
                TreeEntry::File(content) if content.len() > LONGEST_IN_TREE => {
                    fs.put_unreadable(&path, &format!("it has more than {LONGEST_IN_TREE} bytes"));
                }
                TreeEntry::File(content) => fs.put(&path, content),
                TreeEntry::Link(target) => fs.put_link(&path, target),
                TreeEntry::Unreadable(words) => fs.put_unreadable(&path, words),
                TreeEntry::Folder => fs.put_folder(&path),
            }
        }
        fs.have_kernel_log_in_a_file();
        fs
    }
}

/// Returns whether a path is another one or lies below it.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Writes contents in lines of which none looks like a header.
fn escape(content: &[u8], text: &mut String) {
    let mut line_start = text.len();
    let mut rest = content;
    for chunk in content.utf8_chunks() {
        for char in chunk.valid().chars() {
            if text.len() == line_start && rest.starts_with(b"-- ") {
                text.push_str("\\x2d");
            } else {
                escape_char(char, text);
            }
            rest = &rest[char.len_utf8()..];
            line_start = broken(char == '\n', char.is_control(), line_start, text);
        }
        for byte in chunk.invalid() {
            push_byte(*byte, text);
            rest = &rest[1..];
            line_start = broken(false, true, line_start, text);
        }
    }
    if text.len() != line_start {
        text.push_str("\\\n");
    }
}

/// Breaks a line that has become long by escapes; gives the beginning of the line that follows.
fn broken(is_newline: bool, is_escape: bool, line_start: usize, text: &mut String) -> usize {
    if is_newline {
        return text.len();
    }
    if !is_escape || text.len() - line_start < BREAK_COLUMN {
        return line_start;
    }
    text.push_str("\\\n");
    text.len()
}

fn escape_char(char: char, text: &mut String) {
    match char {
        '\\' => text.push_str("\\\\"),
        '\0' => text.push_str("\\0"),
        '\n' | '\t' => text.push(char),
        char if char.is_control() => char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_byte(byte, text)),
        char => text.push(char),
    }
}

fn push_byte(byte: u8, text: &mut String) {
    let _never_fails = write!(text, "\\x{byte:02x}");
}

/// A part of a header: `>` and `!` separate it from other parts.
fn escaped_line(part: &str) -> String {
    let mut text = String::new();
    for char in part.chars() {
        match char {
            '\n' | '\t' | '>' | '!' => push_byte(char as u8, &mut text),
            char => escape_char(char, &mut text),
        }
    }
    text
}

/// Reads escapes; the second value is whether the line ends in one that takes its newline away.
fn unescaped(line: &str) -> Result<(Vec<u8>, bool), &'static str> {
    let mut found = Vec::with_capacity(line.len() + 1);
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        found.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let (byte, length) = match escape.as_bytes() {
            [] => return Ok((found, true)),
            [b'\\', ..] => (b'\\', 1),
            [b'0', ..] => (0, 1),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (u8::from_str_radix(&escape[1..3], 16).unwrap_or_default(), 3)
            }
            _ => return Err("a backslash has no \\, 0 or xHH behind it"),
        };
        found.push(byte);
        rest = &escape[length..];
    }
    found.extend_from_slice(rest.as_bytes());
    Ok((found, false))
}

/// A line that cannot be read.
struct Fault {
    line: usize,
    why: String,
    hint: &'static str,
}

/// State of the reader between two lines.
#[derive(Default)]
struct Parser {
    tree: TreeFile,
    line: usize,
    /// Path and content of the file that is being read.
    file: Option<(String, Vec<u8>)>,
    has_entries: bool,
}

impl Parser {
    fn parse(mut self, bytes: &[u8]) -> Result<TreeFile, Fault> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for line in bytes.split(|byte| *byte == b'\n') {
            self.line += 1;
            let text = std::str::from_utf8(line)
                .map_err(|_| self.fault("it is not UTF-8", "write bytes that are not UTF-8 as \\xHH"))?;
            match (self.line, text.strip_prefix("-- ")) {
                (1, _) if text == FIRST_LINE => {}
                (1, _) => return Err(self.fault("it is no captured tree", "the first line of one is: holdup tree 1")),
                (_, Some(header)) => self.header(header)?,
                (_, None) if self.has_entries => self.content(text)?,
                (_, None) => self.head(text)?,
            }
        }
        self.end_file();
        Ok(self.tree)
    }

    fn fault(&self, why: impl Into<String>, hint: &'static str) -> Fault {
        Fault { line: self.line, why: why.into(), hint }
    }

    /// A line before the first header.
    fn head(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if let Some(name) = text.strip_prefix("base: ") {
            let name = self.part(name)?;
            if name.contains('/') || !name.ends_with(".tree") || self.tree.base.is_some() {
                return Err(self.fault("the base is not one file beside this one", "name it as in base: debian.tree"));
            }
            self.tree.base = Some(name);
        } else if let Some(path) = text.strip_prefix("without: ") {
            let path = self.path(path)?;
            self.tree.without.push(path);
        } else {
            return Err(self.fault(
                "it is neither base, nor without, nor the header of an entry",
                "a header is: -- path/of/the/file --",
            ));
        }
        Ok(())
    }

    /// A header, without the two dashes that it begins with.
    fn header(&mut self, header: &str) -> Result<(), Fault> {
        self.end_file();
        self.has_entries = true;
        let Some(body) = header.strip_suffix(" --") else {
            return Err(self.fault(
                "the header does not end in --",
                "a line of a file that begins with two dashes and a space begins with \\x2d- instead",
            ));
        };
        let (path, entry) = if let Some((path, target)) = body.split_once(" -> ") {
            (path, Some(TreeEntry::Link(self.part(target)?)))
        } else if let Some((path, words)) = body.split_once(" ! ") {
            (path, Some(TreeEntry::Unreadable(self.part(words)?)))
        } else if let Some(path) = body.strip_suffix('/') {
            (path, Some(TreeEntry::Folder))
        } else {
            (body, None)
        };
        let path = self.path(path)?;
        if self.tree.entries.contains_key(&path) {
            return Err(self.fault(format!("{path:?} is there twice"), "leave one of the two entries out"));
        }
        match entry {
            Some(entry) => drop(self.tree.entries.insert(path, entry)),
            None => self.file = Some((path, Vec::new())),
        }
        Ok(())
    }

    /// A line below a header.
    fn content(&mut self, text: &str) -> Result<(), Fault> {
        let (bytes, is_open) = unescaped(text).map_err(|why| self.fault(why, ESCAPES))?;
        match &mut self.file {
            Some((_, content)) => {
                content.extend_from_slice(&bytes);
                content.extend((!is_open).then_some(b'\n'));
                Ok(())
            }
            None => Err(self.fault("links, folders and unreadable files have no content", "take this line out")),
        }
    }

    fn end_file(&mut self) {
        if let Some((path, content)) = self.file.take() {
            self.tree.entries.insert(path, TreeEntry::File(content));
        }
    }

    /// A part of a header, without escapes.
    fn part(&self, text: &str) -> Result<String, Fault> {
        let (bytes, is_open) = unescaped(text).map_err(|why| self.fault(why, ESCAPES))?;
        match String::from_utf8(bytes) {
            Ok(part) if !is_open && part.len() <= LONGEST_PATH => Ok(part),
            _ => Err(self.fault("a path is not UTF-8 or longer than 4095 bytes", "no path of a host is such")),
        }
    }

    fn path(&self, text: &str) -> Result<String, Fault> {
        let path = self.part(text)?;
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(self.fault(format!("{path:?} is no path below the root"), "write it as in proc/self/stat"));
        }
        Ok(path)
    }
}

const ESCAPES: &str = "a backslash itself is \\\\, a NUL \\0, another byte \\xHH";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<TreeFile, String> {
        TreeFile::parse("x.tree", text.as_bytes()).map_err(|problem| problem.to_string())
    }

    fn tree(entries: &[(&str, TreeEntry)]) -> TreeFile {
        let entries = entries.iter().map(|(path, entry)| ((*path).to_owned(), entry.clone())).collect();
        TreeFile { entries, ..TreeFile::default() }
    }

    fn file(content: impl AsRef<[u8]>) -> TreeEntry {
        TreeEntry::File(content.as_ref().to_vec())
    }

    #[test]
    fn a_tree_is_the_same_after_its_text() {
        let contents: [&[u8]; 14] = [
            b"",
            b"\n",
            b"\n\n",
            b"no newline",
            b"-- a/b --\n-- \nx -- y\n--\n",
            b"-- ",
            b"back\\slash \\0 \\x41 \\\nend\\\n",
            b"\\",
            b"postgres\0-D\0/data\0",
            b"\xff\xfe\x80 \xc3\x28\n",
            b"a\r\nb\tc \n",
            "caf\u{e9} \u{85}\u{202e}\n".as_bytes(),
            &[0; 5000],
            &[b"\0\n".as_slice(); 100].concat().repeat(3),
        ];
        let mut all = TreeFile::default();
        for (number, content) in contents.iter().enumerate() {
            all.entries.insert(format!("f{number}"), file(content));
        }
        let others = [
            ("a b/-- c --", file("x")),
            ("a > b ! c", file("x")),
            ("line\nend\\", TreeEntry::Folder),
            ("link -> x", TreeEntry::Link("../-- > y --\n".to_owned())),
            ("no", TreeEntry::Unreadable("it has > 3 ! bytes".to_owned())),
        ];
        all.entries.extend(tree(&others).entries);
        all.base = Some("other one.tree".to_owned());
        all.without = vec!["boot".to_owned(), "a > b".to_owned()];
        let text = all.text();
        assert_eq!(parsed(&text), Ok(all.clone()), "{text}");
        // The last newline may be missing, as editors have it.
        assert_eq!(parsed(text.strip_suffix('\n').unwrap()), Ok(all));
    }

    #[test]
    fn a_tree_reads_as_it_is_written_by_hand() {
        let text = "holdup tree 1\n# a note\n\n-- proc/1/cmdline --\npostgres\\0-D\\0\\\n-- proc/1/cwd -> /data --\n\
            -- sys/x ! Permission denied --\n-- data/PG_VERSION --\n17\n-- sys/fs/ --\n-- kernel-log --\n<6>hello\n";
        let host = parsed(text).unwrap().file_system().host();
        assert_eq!(host.read("/proc/1/cmdline").unwrap(), b"postgres\0-D\0");
        assert_eq!(host.read_link("/proc/1/cwd").unwrap(), "/data");
        assert_eq!(host.read_text("/proc/1/cwd/PG_VERSION").unwrap(), "17\n");
        assert_eq!(host.read_text("/proc/1/cwd/../../data/PG_VERSION").unwrap(), "17\n");
        assert_eq!(host.read("/sys/x").unwrap_err().to_string(), "cannot read /sys/x: permission denied");
        assert!(host.exists("/sys/x") && host.exists("/sys/fs") && !host.exists("/sys/y"));
        assert_eq!(host.list("/sys").unwrap(), ["fs"]);
        assert!(host.list("/sys/fs").unwrap().is_empty());
        assert_eq!(host.list("/proc/1").unwrap(), ["cmdline", "cwd"]);
        assert_eq!(host.list("/proc/1/cwd").unwrap(), ["PG_VERSION"]);
        assert_eq!(host.kernel_log().unwrap(), "<6>hello\n");
        assert!(!host.is_live());
        let without = parsed("holdup tree 1\n-- kernel-log ! Operation not permitted --\n").unwrap();
        let log = without.file_system().host().kernel_log().unwrap_err();
        assert_eq!(log.to_string(), "cannot read the kernel's log: operation not permitted");
    }

    #[test]
    fn links_without_end_and_long_files_are_not_read() {
        let text = format!("holdup tree 1\n-- a -> b --\n-- b -> a --\n-- long --\n{}\n", "x".repeat(LONGEST_IN_TREE));
        let host = parsed(&text).unwrap().file_system().host();
        assert!(host.read("/a").unwrap_err().is_gone());
        assert_eq!(host.read("/long").unwrap_err().message, "it has more than 4194304 bytes");
    }

    #[test]
    fn what_is_no_tree_is_refused_with_its_line() {
        for (text, says) in [
            ("", "line 1: it is no captured tree"),
            ("7 exposed\n", "line 1: it is no captured tree"),
            ("holdup tree 1\nx\n", "line 2: it is neither base"),
            ("holdup tree 1\nbase: ../secret.tree\n", "line 2: the base is not one file beside this one"),
            ("holdup tree 1\nbase: shadow\n", "line 2: the base is not one file beside this one"),
            ("holdup tree 1\nbase: a.tree\nbase: b.tree\n", "line 3: the base is not one file"),
            ("holdup tree 1\n-- a\n", "line 2: the header does not end in --"),
            ("holdup tree 1\n-- a --\n-- b --\n-- a -> b --\n", "line 4: \"a\" is there twice"),
            ("holdup tree 1\n-- a/ --\nx\n", "line 3: links, folders and unreadable files have no content"),
            ("holdup tree 1\n-- a --\nx\\y\n", "line 3: a backslash has no"),
            ("holdup tree 1\n-- a --\n\\x4\u{e9}\n", "line 3: a backslash has no"),
            ("holdup tree 1\n-- \\xff --\n", "line 2: a path is not UTF-8"),
            ("holdup tree 1\n-- a\\b --\n", "line 2: a backslash has no"),
            ("holdup tree 1\n-- /a --\n", "line 2: \"/a\" is no path below the root"),
            ("holdup tree 1\n-- a/../b --\n", "line 2: \"a/../b\" is no path below the root"),
            ("holdup tree 1\n--  --\n", "is no path below the root"),
            ("holdup tree 1\nwithout: /\n", "line 2: \"/\" is no path below the root"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.starts_with("cannot read x.tree: ") && error.contains(says), "{text:?}: {error}");
        }
        let error = TreeFile::parse("x.tree", b"holdup tree 1\n-- a --\n\xff\n").unwrap_err();
        assert!(error.to_string().contains("line 3: it is not UTF-8") && error.hint.is_some(), "{error}");
    }

    #[test]
    fn a_derived_tree_is_its_base_with_what_differs() {
        let base = tree(&[
            ("boot/config", file("y")),
            ("etc/a", file("1")),
            ("etc/b", file("2")),
            ("proc/1/cwd", TreeEntry::Link("/".to_owned())),
        ]);
        let derived = tree(&[("etc/a", file("3")), ("etc/c", file("4"))]);
        let differs = derived.relative_to("base.tree", &base);
        assert_eq!(differs.without, ["boot", "etc/b", "proc"]);
        assert_eq!(differs.entries, derived.entries);
        assert_eq!(differs.clone().on(base.clone()), Ok(derived));
        assert!(base.clone().on(differs.clone()).unwrap_err().contains("a base of its own"));
        let unknown = TreeFile { without: vec!["usr".to_owned()], ..TreeFile::default() };
        assert!(unknown.on(base).unwrap_err().contains("no usr"));
    }

    #[test]
    fn a_base_is_a_file_beside_the_tree_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("base.tree", "holdup tree 1\n-- a --\n1\n-- b --\n2\n");
        put("derived.tree", "holdup tree 1\nbase: base.tree\nwithout: a\n-- c --\n3\n");
        let read = || TreeFile::read(&folder.path().join("derived.tree"));
        assert_eq!(read().unwrap(), tree(&[("b", file("2\n")), ("c", file("3\n"))]));
        std::fs::rename(folder.path().join("base.tree"), folder.path().join("other.tree")).unwrap();
        assert!(read().unwrap_err().what.ends_with("base.tree"));
        std::os::unix::fs::symlink("other.tree", folder.path().join("base.tree")).unwrap();
        let error = read().unwrap_err();
        assert!(error.what.ends_with("base.tree"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_the_same_after_their_text(content in proptest::collection::vec(any::<u8>(), 0..400)) {
            let all = tree(&[("a", file(&content)), ("b", file("end"))]);
            prop_assert_eq!(parsed(&all.text()), Ok(all));
        }

        #[test]
        fn any_text_is_the_same_after_its_text(content in "(-- |[a-c\\\\\n\0> !\u{1}-]){0,60}", path in "[a-c\\\\\n> !-]{1,9}") {
            let all = tree(&[(path.as_str(), file(&content)), ("z", TreeEntry::Link(path.clone()))]);
            prop_assert_eq!(parsed(&all.text()), Ok(all));
        }

        #[test]
        fn foreign_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), lines in "(-- |/|a| --|\n|\\\\|x41|base: |without: |> |! |\u{e9}){0,60}") {
            let _any = TreeFile::parse("x", &bytes);
            if let Ok(tree) = parsed(&format!("holdup tree 1\n{lines}")) {
                prop_assert_eq!(parsed(&tree.text()), Ok(tree.clone()));
                let host = tree.file_system().host();
                let _any = (host.list("/"), host.read("/a/a"), host.read_link("/a"));
            }
        }
    }
}
