//! A careful scan of a Rust file: its code without comments and contents of strings, its comments, types and functions.

use regex::Regex;
use std::sync::LazyLock;

/// A Rust file, taken apart.
#[derive(Debug)]
pub(super) struct Source {
    /// Code of each line outside of the tests at the file's end; comments and contents of strings are blank.
    pub code: Vec<String>,
    /// Comments of the whole file: consecutive lines of one kind are one.
    pub comments: Vec<Comment>,
}

/// A comment that begins its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// Number of its first line, from 1.
    pub line: usize,
    /// Number of the line below it.
    pub below: usize,
    /// `//`, `///` or `//!`.
    pub kind: &'static str,
    /// Words without the slashes.
    pub text: String,
}

/// A declaration of a type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    /// Number of its line, from 1.
    pub line: usize,
    /// `pub` without a limit.
    pub is_public: bool,
    pub name: String,
}

/// A function from its `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Number of its first line, from 1.
    pub line: usize,
    /// Number of its lines.
    pub lines: usize,
    pub name: String,
}

static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\s*)(pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(struct|enum|union|trait|type)\s+([A-Za-z]\w*)")
        .expect("the pattern is valid")
});
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn\s+(\w+)").expect("the pattern is valid"));

impl Source {
    /// Takes a file apart.
    pub(super) fn of(text: &str) -> Source {
        let blank = blank(text);
        let mut code: Vec<String> = blank.lines().map(str::to_owned).collect();
        let comments = comments(text, &code);
        let tests = code.windows(2).position(|two| {
            two[0].trim_end() == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].trim_end().ends_with('{')
        });
        code.truncate(tests.unwrap_or(code.len()));
        Source { code, comments }
    }

    /// Types that the file declares; the associated types of an implementation are none.
    pub(super) fn types(&self) -> Vec<TypeName> {
        let mut types = Vec::new();
        for (number, line) in self.code.iter().enumerate() {
            let Some(parts) = TYPE.captures(line) else { continue };
            let visibility = parts.get(2).map(|m| m.as_str().trim());
            if &parts[3] == "type" && visibility.is_none() && !parts[1].is_empty() {
                continue;
            }
            types.push(TypeName { line: number + 1, is_public: visibility == Some("pub"), name: parts[4].to_owned() });
        }
        types
    }

    /// Functions with a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (first, line) in self.code.iter().enumerate() {
            for found in FUNCTION.captures_iter(line) {
                let end = found.get(0).map_or(0, |m| m.end());
                if let Some(last) = self.end_of_body(first, end) {
                    functions.push(Function { line: first + 1, lines: last - first + 1, name: found[1].to_owned() });
                }
            }
        }
        functions
    }

    /// Line of the brace that closes the first one behind a place; none where a `;` comes first.
    fn end_of_body(&self, first: usize, from: usize) -> Option<usize> {
        let (mut braces, mut brackets) = (0_i32, 0_i32);
        for (number, line) in self.code.iter().enumerate().skip(first) {
            let begin = if number == first { from } else { 0 };
            for c in line[begin..].chars() {
                match c {
                    '{' => braces += 1,
                    '}' if braces == 1 => return Some(number),
                    '}' => braces -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets -= 1,
                    ';' if braces == 0 && brackets == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }

    /// For each line, whether what begins there is public: it says `pub`, or it is a variant or an item of a public
    /// enumeration or trait.
    pub(super) fn public_lines(&self) -> Vec<bool> {
        let mut public = Vec::new();
        let mut outer = vec![false];
        let mut head = String::new();
        for line in &self.code {
            let begin = line.trim_start();
            public.push(begin.starts_with("pub ") || outer.last() == Some(&true));
            for c in line.chars().chain(['\n']) {
                match c {
                    '{' => {
                        outer.push(is_public_list(&head));
                        head.clear();
                    }
                    '}' => {
                        outer.pop();
                        head.clear();
                    }
                    ';' | ']' => head.clear(),
                    c => head.push(c),
                }
            }
        }
        public
    }
}

/// True if the braces behind this declaration hold variants or items of a public type.
fn is_public_list(head: &str) -> bool {
    let words: Vec<&str> = head.split_whitespace().take(3).collect();
    words.first() == Some(&"pub") && words[1..].iter().take(2).any(|word| *word == "enum" || *word == "trait")
}

/// Comments that begin their lines: nothing is left of such a line in `code`, where a line of a string keeps its `"`.
fn comments(text: &str, code: &[String]) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    for (number, (line, code)) in text.lines().zip(code).enumerate() {
        let begin = line.trim_start();
        if !begin.starts_with("//") || !code.trim().is_empty() {
            continue;
        }
        let kind = match begin {
            _ if begin.starts_with("//!") => "//!",
            _ if begin.starts_with("///") && !begin.starts_with("////") => "///",
            _ => "//",
        };
        let words = begin[kind.len()..].trim();
        match comments.last_mut() {
            Some(last) if last.below == number + 1 && last.kind == kind => {
                last.below += 1;
                last.text.push(' ');
                last.text.push_str(words);
            }
            _ => comments.push(Comment { line: number + 1, below: number + 2, kind, text: words.to_owned() }),
        }
    }
    comments
}

/// The text with a space for each character of a comment and a `"` for each of a string or character, lines kept.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, fill) = match rest {
            [b'/', b'/', ..] => (rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), b' '),
            [b'/', b'*', ..] => (block_comment(rest), b' '),
            [b'"', ..] => (string(rest), b'"'),
            [b'r', ..] if !is_word(before(bytes, at)) => (raw_string(rest), b'"'),
            [b'b' | b'c', b'r', ..] if !is_word(before(bytes, at)) => {
                let raw = raw_string(&rest[1..]);
                (raw + usize::from(raw > 0), b'"')
            }
            [b'\'', ..] => (character(rest), b'"'),
            _ => (0, b' '),
        };
        if length == 0 {
            out.push(if bytes[at].is_ascii() { bytes[at] } else { b'?' });
            at += 1;
        } else {
            out.extend(rest[..length].iter().map(|&b| if b == b'\n' { b'\n' } else { fill }));
            at += length;
        }
    }
    String::from_utf8(out).expect("the bytes are ASCII")
}

fn before(bytes: &[u8], at: usize) -> u8 {
    at.checked_sub(1).map_or(b' ', |at| bytes[at])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Length of a block comment, others inside it included.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a string with escapes.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Length of `r"…"` or `r#"…"#`; 0 where it is a word that begins with `r`.
fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inside = &rest[2 + hashes..];
    inside.windows(end.len()).position(|part| part == end).map_or(rest.len(), |n| 2 + hashes + n + end.len())
}

/// Length of a character such as `'{'`; 0 where it is a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', _, more @ ..] => more.iter().position(|&b| b == b'\'').map_or(0, |n| n + 4),
        _ => {
            let text = &rest[1..rest.len().min(6)];
            let width = match text.first() {
                Some(b) if *b >= 0xf0 => 4,
                Some(b) if *b >= 0xe0 => 3,
                Some(b) if *b >= 0xc0 => 2,
                _ => 1,
            };
            if text.get(width) == Some(&b'\'') { width + 2 } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_characters_and_comments_are_blank() {
        let text = "let a = \"fn x() { // no\"; // fn y\nlet b = r#\"struct \"A\"\"#; /* { /* } */ */ let c = '{'; let d: &'a str = b'\\'';\n";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains('{') && !code.contains("fn") && !code.contains("struct"), "{code}");
        assert!(code.contains("let c") && code.contains("&'a str"), "{code}");
        assert_eq!(blank("let x = \"a\n// b\n\";").lines().nth(1), Some("\"\"\"\""));
    }

    #[test]
    fn comments_are_joined_by_kind_and_not_found_in_strings() {
        let source = Source::of("//! One\n//! two.\n/// Three.\nlet a = \"\n// none\n\"; // none\n    // Four\n");
        let found: Vec<_> = source.comments.iter().map(|c| (c.line, c.below, c.kind, c.text.as_str())).collect();
        assert_eq!(found, [(1, 3, "//!", "One two."), (3, 4, "///", "Three."), (7, 8, "//", "Four")]);
    }

    #[test]
    fn types_of_tests_and_associated_types_do_not_count() {
        let text = "pub struct A;\nenum B {}\npub(crate) trait C {\n    type D;\n}\ntype E = u8;\nlet f = \"struct G\";\n\
                    #[cfg(test)]\nmod tests {\n    struct H;\n}\n";
        let types = Source::of(text).types();
        let found: Vec<_> = types.iter().map(|t| (t.line, t.is_public, t.name.as_str())).collect();
        assert_eq!(found, [(1, true, "A"), (2, false, "B"), (3, false, "C"), (6, false, "E")]);
    }

    #[test]
    fn functions_end_at_their_brace() {
        let text = "trait T {\n    fn none(&self, x: [u8; 3]);\n}\nfn a() -> [u8; 2] {\n    if x {\n        \"}\"\n    }\n}\nfn b() {}\n";
        let functions = Source::of(text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.line, f.lines, f.name.as_str())).collect();
        assert_eq!(found, [(4, 5, "a"), (9, 1, "b")]);
    }

    #[test]
    fn variants_of_public_enumerations_are_public() {
        let text = "#[derive(A)]\npub enum A {\n    B,\n}\nenum C {\n    D,\n}\npub struct E {\n    f: u8,\n    pub g: u8,\n}\n";
        let public = Source::of(text).public_lines();
        let lines: Vec<usize> = public.iter().enumerate().filter(|(_, p)| **p).map(|(i, _)| i + 1).collect();
        assert_eq!(lines, [2, 3, 4, 8, 10]);
    }
}
