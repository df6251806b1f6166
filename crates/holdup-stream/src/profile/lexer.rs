//! Tags out of text: as much of XML as profiles use, read as laxly as uperf does where it does no harm.
//!
//! uperf reads words, not elements (uperf 1.0.8: parse.c): a stray end tag, a blank inside `</ group>` or around `=`
//! and values without quotes are all fine, so a parser for well-formed XML would refuse profiles that come with it.
//! Nothing is ever expanded: a DTD ends the reading, a reference such as `&amp;` is a fault.

use super::faults::{Faults, Wrong, one_line, shown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// `<name …>` or, when it is `closed`, `<name …/>`.
    Start { name: &'a str, attributes: Vec<Attribute<'a>>, closed: bool, line: u32 },
    /// `</name>`.
    End { name: &'a str, line: u32 },
}

/// One `name="value"` of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    /// Where the value begins.
    pub(super) line: u32,
}

/// Walks over a text.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    line: u32,
}

/// What ends the reading immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop;

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // Some editors begin a file with the mark of UTF-8.
        Lexer { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// The line that it is at, from 1.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// The next tag, `None` at the end.
    pub(super) fn next_tag(&mut self, faults: &mut Faults) -> Result<Option<Tag<'a>>, Stop> {
        loop {
            self.skip_blanks();
            if self.rest.is_empty() {
                return Ok(None);
            }
            let line = self.line;
            if self.rest.starts_with("<!--") {
                // As in uperf, `<!-->` is a whole comment.
                self.skip_past(2, "-->", line, "<!--", faults)?;
            } else if self.rest.starts_with("<?") {
                self.skip_past(2, "?>", line, "<?", faults)?;
            } else if self.rest.starts_with("<!") {
                return Err(refuse_markup(self.rest, line, faults));
            } else if self.rest.starts_with('<') {
                self.take(1);
                return self.tag(line, faults).map(Some);
            } else {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                let text = self.take(end);
                if !refuse_reference(text, line, faults) {
                    faults.add(line, format!("text {}", shown(text.trim_end())), Wrong::new("stands outside of tags"));
                }
            }
        }
    }

    /// A tag whose `<` is already taken.
    fn tag(&mut self, line: u32, faults: &mut Faults) -> Result<Tag<'a>, Stop> {
        self.skip_blanks();
        let is_end = self.rest.starts_with('/') && !self.rest.starts_with("/>");
        if is_end {
            self.take(1);
            self.skip_blanks();
        }
        let name = self.word();
        let mut attributes = Vec::new();
        let mut closed = false;
        loop {
            self.skip_blanks();
            if self.rest.is_empty() {
                faults.add(line, format!("tag <{}", one_line(name)), Wrong::new("the file ends inside of it"));
                return Err(Stop);
            }
            if self.rest.starts_with("/>") {
                closed = true;
                self.take(2);
                break;
            }
            if self.rest.starts_with('>') {
                self.take(1);
                break;
            }
            if self.rest.starts_with('<') {
                faults.add(line, format!("tag <{}", one_line(name)), Wrong::new("is not closed by `>`"));
                break;
            }
            if let Some(attribute) = self.attribute(name, faults)? {
                attributes.push(attribute);
            }
        }
        Ok(if is_end { Tag::End { name, line } } else { Tag::Start { name, attributes, closed, line } })
    }

    /// One attribute; `None` when it is none, which is a fault.
    fn attribute(&mut self, tag: &str, faults: &mut Faults) -> Result<Option<Attribute<'a>>, Stop> {
        let name_line = self.line;
        let name = self.word();
        if name.is_empty() {
            let end = self.rest.chars().next().map_or(0, char::len_utf8);
            let stray = self.take(end);
            faults.add(name_line, shown(stray), Wrong::new(format!("does not belong inside of <{}", one_line(tag))));
            return Ok(None);
        }
        self.skip_blanks();
        if !self.rest.starts_with('=') {
            let wrong = Wrong::new("has no value").hint(format!("write {}=\"…\"", one_line(name)));
            faults.add(name_line, format!("attribute {}", shown(name)), wrong);
            return Ok(None);
        }
        self.take(1);
        self.skip_blanks();
        let line = self.line;
        let value = match self.rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                self.take(1);
                self.quoted(quote, line, name, faults)?
            }
            _ => self.bare(),
        };
        if refuse_reference(value, line, faults) {
            return Ok(None);
        }
        Ok(Some(Attribute { name, value, line }))
    }

    /// A value up to its closing quote. A `<` cannot stand in one, so it shows where a quote is missing.
    fn quoted(&mut self, quote: char, line: u32, name: &str, faults: &mut Faults) -> Result<&'a str, Stop> {
        let missing = || Wrong::new(format!("its value has no closing {quote}"));
        let what = format!("attribute {}", shown(name));
        match self.rest.find(['<', quote]) {
            Some(end) if self.rest[end..].starts_with(quote) => {
                let value = self.take(end);
                self.take(1);
                Ok(value)
            }
            Some(end) => {
                faults.add(line, what, missing());
                Ok(self.take(end))
            }
            None => {
                faults.add(line, what, missing());
                Err(Stop)
            }
        }
    }

    /// A value without quotes: up to a blank or the end of the tag.
    fn bare(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| is_blank(c) || matches!(c, '>' | '<')).unwrap_or(self.rest.len());
        let end = if self.rest[..end].ends_with('/') && self.rest[end..].starts_with('>') { end - 1 } else { end };
        self.take(end)
    }

    /// A name: everything up to what parts names.
    fn word(&mut self) -> &'a str {
        let ends = |c: char| is_blank(c) || matches!(c, '=' | '>' | '<' | '/' | '"' | '\'' | '&');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// Skips to behind `end`, which is looked for from `from` bytes on.
    fn skip_past(&mut self, from: usize, end: &str, line: u32, what: &str, faults: &mut Faults) -> Result<(), Stop> {
        if let Some(at) = self.rest[from..].find(end) {
            self.take(from + at + end.len());
            return Ok(());
        }
        faults.add(line, what, Wrong::new(format!("has no `{end}`")));
        Err(Stop)
    }

    fn skip_blanks(&mut self) {
        let end = self.rest.find(|c: char| !is_blank(c)).unwrap_or(self.rest.len());
        self.take(end);
    }

    /// Advances by that number of bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        let lines = taken.bytes().filter(|b| *b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
        taken
    }
}

/// True if uperf parts words here: all control characters and the blank.
pub(super) fn is_blank(c: char) -> bool {
    c <= ' ' && c != '\0'
}

/// The words of a value with the lines that they stand on.
pub(super) fn words(value: &str, first_line: u32) -> impl Iterator<Item = (u32, &str)> {
    let mut line = first_line;
    value.split('\n').flat_map(move |part| {
        let at = line;
        line = line.saturating_add(1);
        part.split(is_blank).filter(|word| !word.is_empty()).map(move |word| (at, word))
    })
}

/// `<!DOCTYPE`, `<!ENTITY`, `<![CDATA[` and the like end the reading: nothing behind them can be trusted.
fn refuse_markup(rest: &str, line: u32, faults: &mut Faults) -> Stop {
    let end = rest.find(|c: char| is_blank(c) || c == '>').unwrap_or(rest.len());
    let wrong = Wrong::new("document types, entities and the like are refused: nothing is ever expanded")
        .hint("take it out; variables are written $name and come from the environment");
    faults.add(line, shown(&rest[..end]), wrong);
    Stop
}

/// Makes a fault of a reference such as `&amp;` or `&#65;`; a lone `&` is none.
fn refuse_reference(text: &str, line: u32, faults: &mut Faults) -> bool {
    let mut at = line;
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        at = at.saturating_add(u32::try_from(rest[..start].matches('\n').count()).unwrap_or(0));
        let after = &rest[start + 1..];
        let end = after.find(|c: char| !(c.is_alphanumeric() || matches!(c, '#' | '_' | '-' | '.' | ':')));
        if let Some(end) = end
            && end > 0
            && after[end..].starts_with(';')
        {
            let wrong = Wrong::new("references are refused: nothing is ever expanded")
                .hint("write the character itself, as uperf reads it");
            faults.add(at, shown(&rest[start..start + end + 2]), wrong);
            return true;
        }
        rest = after;
    }
    false
}
