//! The language of postgresql.conf, as PostgreSQL reads it. Pure: what files hold is asked of a [`Files`].
//!
//! Source: `src/backend/utils/misc/guc-file.l` and `src/backend/utils/misc/conffiles.c`, PostgreSQL 15 to 18.

use serde::{Deserialize, Serialize};

/// How deep files may include each other (`CONF_FILE_MAX_DEPTH`).
const DEEPEST: usize = 10;
/// Errors in one file after which the rest of it is not read (`ParseConfigFp`).
const MOST_ERRORS: usize = 100;
/// Files and folders that are read at most; a loop over folders would make many more.
const MOST_FILES: usize = 1000;
/// Bytes that are kept of all entries and errors at most. Real configurations come to some ten thousand; what is kept of
/// a line can be many times as long as the line.
const MOST_KEPT: usize = 8 << 20;
/// Bytes of a name or value, and of a sentence, that are kept.
const LONGEST: usize = 1024;
/// What an entry takes beside its words, bytes.
const ENTRY: usize = 128;

/// One line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfLine {
    /// `name = value`, with the name in small letters and the value without quotes and escapes.
    Set {
        name: String,
        value: String,
        /// The number of the line, from 1.
        line: u32,
    },
    /// A line that PostgreSQL refuses, with the word at which it does.
    Wrong {
        /// The number of the line, from 1.
        line: u32,
        /// The word.
        near: String,
    },
}

/// A setting as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in small letters.
    pub name: String,
    /// Its value, without quotes.
    pub value: String,
    /// The path of the file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u32,
}

/// What the files hold, in the order in which PostgreSQL applies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A setting; the last one of a name counts.
    Set(Setting),
    /// Here stands something that could not be read: any setting may be in it. A sentence without its full stop.
    Gap(String),
}

/// The settings of one file and of all that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// In the order in which they are applied.
    pub entries: Vec<Entry>,
    /// Why PostgreSQL would refuse the files when it reads them again, one sentence each without its full stop.
    pub errors: Vec<String>,
}

/// Why a file or folder could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// True if it is not there.
    pub is_gone: bool,
    /// The reason, with its path.
    pub why: String,
}

/// Where files and folders are read.
pub trait Files {
    /// The whole of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread>;

    /// The names in a folder.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, path: &str) -> Result<Vec<String>, Unread>;
}

impl Configuration {
    /// Reads a file, given by its absolute path, and all that it includes.
    pub fn read(files: &dyn Files, path: &str) -> Self {
        let mut reading = Reading { files, found: Configuration::default(), count: 0, kept: 0 };
        reading.file(path, true, None, 0);
        reading.found
    }

    /// Puts what `later` holds after what is here, so that it wins.
    pub fn extend(&mut self, later: Configuration) {
        self.entries.extend(later.entries);
        self.errors.extend(later.errors);
    }

    /// The setting of this name that counts.
    ///
    /// # Errors
    /// When something that could not be read comes after it and may hold another: why it could not.
    pub fn last(&self, name: &str) -> Result<Option<&Setting>, &str> {
        for entry in self.entries.iter().rev() {
            match entry {
                Entry::Gap(why) => return Err(why),
                Entry::Set(setting) if setting.name == name => return Ok(Some(setting)),
                Entry::Set(_) => {}
            }
        }
        Ok(None)
    }

    /// All settings of this name, in the order in which they are applied.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Setting> {
        self.entries.iter().filter_map(move |entry| match entry {
            Entry::Set(setting) if setting.name == name => Some(setting),
            _ => None,
        })
    }
}

struct Reading<'a> {
    files: &'a dyn Files,
    found: Configuration,
    count: usize,
    kept: usize,
}

impl Reading<'_> {
    fn file(&mut self, path: &str, must_exist: bool, caller: Option<(&str, u32)>, depth: usize) {
        let place = caller.map_or_else(String::new, |(file, line)| format!(" (from {file}:{line})"));
        if depth > DEEPEST {
            self.error(format!("{path} is included more than {DEEPEST} files deep{place}"));
            return;
        }
        if caller.is_some_and(|(file, _)| file == path) {
            self.error(format!("{path} includes itself{place}"));
            return;
        }
        if !self.counts(&place) {
            return;
        }
        match self.files.read(path) {
            Ok(text) => self.lines(path, &text, depth),
            Err(unread) if unread.is_gone && !must_exist => {}
            Err(unread) => self.gap(format!("{}{place}", unread.why)),
        }
    }

    /// True if one more file or folder may be read.
    fn counts(&mut self, place: &str) -> bool {
        self.count += 1;
        if self.count == MOST_FILES + 1 {
            self.gap(format!("more than {MOST_FILES} files include each other{place}"));
        }
        self.count <= MOST_FILES
    }

    /// True if there is room for these bytes of words; when it is used up, that stands at the end.
    fn has_room(&mut self, words: usize) -> bool {
        let had = self.kept <= MOST_KEPT;
        self.kept = self.kept.saturating_add(words + ENTRY);
        let has = self.kept <= MOST_KEPT;
        if had && !has {
            self.found.entries.push(Entry::Gap("there are more settings than are read".to_owned()));
        }
        has
    }

    fn gap(&mut self, why: String) {
        if self.has_room(LONGEST.min(why.len())) {
            self.found.entries.push(Entry::Gap(cut(why)));
        }
    }

    fn error(&mut self, error: String) {
        if self.found.errors.len() < MOST_ERRORS && self.has_room(LONGEST.min(error.len())) {
            self.found.errors.push(cut(error));
        }
    }

    fn lines(&mut self, path: &str, text: &[u8], depth: usize) {
        for line in each_line(text) {
            match line {
                _ if self.kept > MOST_KEPT => return,
                ConfLine::Wrong { line, near } => self.error(format!("{path}:{line} has a syntax error near `{near}`")),
                ConfLine::Set { name, value, line } => {
                    self.line(path, Setting { name, value, file: path.to_owned(), line }, depth);
                }
            }
        }
    }

    fn line(&mut self, path: &str, setting: Setting, depth: usize) {
        let caller = Some((path, setting.line));
        match setting.name.as_str() {
            "include" | "include_if_exists" | "include_dir" if setting.value.is_empty() => {
                self.error(format!("{path}:{} includes a file without a name", setting.line));
            }
            "include" => self.file(&absolute(&setting.value, path), true, caller, depth + 1),
            "include_if_exists" => self.file(&absolute(&setting.value, path), false, caller, depth + 1),
            "include_dir" => self.folder(&absolute(&setting.value, path), path, setting.line, depth + 1),
            _ => {
                let setting = Setting { name: cut(setting.name), value: cut(setting.value), ..setting };
                if self.has_room(setting.name.len() + setting.value.len() + setting.file.len()) {
                    self.found.entries.push(Entry::Set(setting));
                }
            }
        }
    }

    fn folder(&mut self, folder: &str, file: &str, line: u32, depth: usize) {
        if depth > DEEPEST {
            self.error(format!("{folder} is included more than {DEEPEST} files deep (from {file}:{line})"));
            return;
        }
        let place = format!(" (from {file}:{line})");
        if !self.counts(&place) {
            return;
        }
        match self.files.list(folder) {
            Err(unread) => self.gap(format!("{}{place}", unread.why)),
            Ok(mut names) => {
                if !self.has_room(names.iter().map(String::len).sum()) {
                    return;
                }
                names.retain(|name| name.len() > ".conf".len() && !name.starts_with('.') && name.ends_with(".conf"));
                names.sort_unstable();
                for name in names {
                    self.file(&format!("{folder}/{name}"), true, Some((file, line)), depth);
                }
            }
        }
    }
}

/// As many of the first bytes as are kept.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

/// The path of an included file: relative to the file that includes it, without `.` and `..`.
pub(super) fn absolute(path: &str, caller: &str) -> String {
    let folder = caller.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The lines of a file that say something.
pub fn lines(text: &[u8]) -> Vec<ConfLine> {
    each_line(text).collect()
}

fn each_line(text: &[u8]) -> impl Iterator<Item = ConfLine> {
    let mut errors = 0;
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .map_while(move |(at, line)| {
            let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
            if errors == MOST_ERRORS {
                return None;
            }
            Some(match one(line) {
                Ok(found) => found.map(|(name, value)| ConfLine::Set { name, value, line: number }),
                Err(near) => {
                    errors += 1;
                    Some(ConfLine::Wrong { line: number, near })
                }
            })
        })
        .flatten()
}

/// The name and value of one line; `None` when it is empty or a comment, the word in the way when it is wrong.
fn one(line: &[u8]) -> Result<Option<(String, String)>, String> {
    let mut rest = line;
    let Some((kind, word)) = token(&mut rest) else { return Ok(None) };
    if !matches!(kind, Token::Name | Token::QualifiedName) {
        return Err(shown(word));
    }
    let name = String::from_utf8_lossy(word).to_ascii_lowercase();
    let mut next = token(&mut rest);
    if matches!(next, Some((Token::Equals, _))) {
        next = token(&mut rest);
    }
    let value = match next {
        Some((Token::Quoted, word)) => unquoted(word),
        // A qualified name is no value unless it stands in quotes: the grammar has it only on the left.
        Some((Token::Name | Token::Bare | Token::Number, word)) => String::from_utf8_lossy(word).into_owned(),
        Some((_, word)) => return Err(shown(word)),
        None => return Err("end of line".to_owned()),
    };
    match token(&mut rest) {
        None => Ok(Some((name, value))),
        Some((_, word)) => Err(shown(word)),
    }
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(40).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Name,
    QualifiedName,
    Quoted,
    Bare,
    Number,
    Equals,
    Wrong,
}

/// Takes the next word of a line: the longest that any rule of the scanner matches, of equal ones the first rule's.
fn token<'a>(rest: &mut &'a [u8]) -> Option<(Token, &'a [u8])> {
    while let Some((b' ' | b'\t' | b'\r', after)) = rest.split_first() {
        *rest = after;
    }
    let first = *rest.first()?;
    if first == b'#' {
        *rest = &[];
        return None;
    }
    let (kind, length) = match first {
        b'\'' => quoted_length(rest).map_or((Token::Wrong, 1), |length| (Token::Quoted, length)),
        b'=' => (Token::Equals, 1),
        byte if is_letter(byte) => word(rest),
        _ => number_length(rest).map_or((Token::Wrong, 1), |length| (Token::Number, length)),
    };
    let (word, after) = rest.split_at(length);
    *rest = after;
    Some((kind, word))
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn run(text: &[u8], is_in: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !is_in(*byte)).unwrap_or(text.len())
}

/// A name, a name qualified by one point, or a word with `-._:/` in it.
fn word(text: &[u8]) -> (Token, usize) {
    let in_name = |byte: u8| is_letter(byte) || byte.is_ascii_digit();
    let name = run(text, in_name);
    let qualified = match &text[name..] {
        [b'.', second, ..] if is_letter(*second) => name + 1 + run(&text[name + 1..], in_name),
        _ => 0,
    };
    let bare = run(text, |byte| in_name(byte) || matches!(byte, b'-' | b'.' | b':' | b'/'));
    if bare > name.max(qualified) {
        (Token::Bare, bare)
    } else if qualified > name {
        (Token::QualifiedName, qualified)
    } else {
        (Token::Name, name)
    }
}

/// An integer with letters after it, or a number with a point and an exponent; the longer of both.
fn number_length(text: &[u8]) -> Option<usize> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let unsigned = &text[sign..];
    let digits = run(unsigned, |byte| byte.is_ascii_digit());
    let letters = |at: usize| at + run(&unsigned[at..], |byte| byte.is_ascii_alphabetic());
    let decimal = (digits > 0).then(|| letters(digits));
    let hexadecimal = unsigned.strip_prefix(b"0x").and_then(|digits| {
        let length = run(digits, |byte| byte.is_ascii_hexdigit());
        (length > 0).then(|| letters(2 + length))
    });
    let real = (unsigned.get(digits) == Some(&b'.')).then(|| {
        let end = digits + 1 + run(&unsigned[digits + 1..], |byte| byte.is_ascii_digit());
        let exponent = match &unsigned[end..] {
            [b'e' | b'E', b'-' | b'+', digits @ ..] => (2, digits),
            [b'e' | b'E', digits @ ..] => (1, digits),
            _ => (0, &[][..]),
        };
        match run(exponent.1, |byte| byte.is_ascii_digit()) {
            0 => end,
            length => end + exponent.0 + length,
        }
    });
    decimal.max(hexadecimal).max(real).map(|length| sign + length)
}

/// The longest quoted text at the head of these bytes: a quote in it is doubled or follows a backslash.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut longest = None;
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            (b'\\', Some(_)) => at += 2,
            (b'\\', None) => break,
            (b'\'', next) => {
                longest = Some(at + 1);
                if next != Some(&b'\'') {
                    break;
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    longest
}

/// What stands between quotes (`DeescapeQuotedString`).
fn unquoted(word: &[u8]) -> String {
    let inner = word.get(1..word.len().saturating_sub(1)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(byte) = inner.get(at) {
        at += 1;
        match (byte, inner.get(at)) {
            (b'\\', Some(octal @ b'0'..=b'7')) => {
                let mut code = u32::from(octal - b'0');
                at += 1;
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = inner.get(at) else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    at += 1;
                }
                bytes.push((code & 0xff) as u8);
            }
            (b'\\', Some(letter)) => {
                at += 1;
                bytes.push(match letter {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                });
            }
            (b'\'', Some(b'\'')) => {
                at += 1;
                bytes.push(b'\'');
            }
            _ => bytes.push(*byte),
        }
    }
    // A string of C ends at a zero.
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    String::from_utf8_lossy(&bytes).into_owned()
}
