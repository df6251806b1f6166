//! Lines of words: what the language of scenarios is made of.

use holdup_model::Problem;
use holdup_sim::random::Span;
use std::collections::BTreeMap;

/// A word, with its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A line that is being read.
#[derive(Debug)]
pub(crate) struct SourceLine<'a> {
    file: &'a str,
    number: u32,
    words: Vec<Word<'a>>,
    next: usize,
}

/// The longest span that can be written, ns: an hour.
pub(crate) const MOST_SPAN_NS: u64 = 3_600_000_000_000;

/// Every line that says something. `first` is the number of the first line.
pub(crate) fn lines<'a>(file: &'a str, text: &'a str, first: u32) -> Vec<SourceLine<'a>> {
    let line = |(at, text): (usize, &'a str)| {
        let number = first + at as u32;
        SourceLine { file, number, words: words(text, number), next: 0 }
    };
    text.lines().enumerate().map(line).filter(|line| !line.words.is_empty()).collect()
}

/// Words are parted by blanks; `{`, `}`, `:` and `,` are words of their own, and `#` begins a comment.
fn words<'a>(text: &'a str, line: u32) -> Vec<Word<'a>> {
    let mut words = Vec::new();
    let mut begin = None;
    let end_of = |words: &mut Vec<Word<'a>>, begin: &mut Option<(usize, u32)>, end: usize| {
        if let Some((from, column)) = begin.take() {
            // A slice between two character boundaries, which `char_indices` gives.
            words.push(Word { text: &text[from..end], line, column });
        }
    };
    // Columns count characters, as editors do.
    for (column, (at, c)) in text.char_indices().enumerate() {
        let column = column as u32 + 1;
        match c {
            '#' => {
                end_of(&mut words, &mut begin, at);
                return words;
            }
            '{' | '}' | ':' | ',' => {
                end_of(&mut words, &mut begin, at);
                words.push(Word { text: &text[at..at + 1], line, column });
            }
            c if c.is_whitespace() => end_of(&mut words, &mut begin, at),
            _ => begin = begin.or(Some((at, column))),
        }
    }
    end_of(&mut words, &mut begin, text.len());
    words
}

impl<'a> SourceLine<'a> {
    /// An error at a word.
    pub(crate) fn wrong(&self, word: Word<'_>, why: impl Into<String>) -> Problem {
        // Only the beginning of a long word is quoted.
        let text: String = word.text.chars().take(40).collect();
        Problem::usage(format!("{}, line {}, column {}: {text}", self.file, word.line, word.column), why)
    }

    /// An error at the end of the line.
    fn ends_early(&self, expected: &str) -> Problem {
        Problem::usage(format!("{}, line {}", self.file, self.number), format!("it ends where {expected} was expected"))
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// True if it is the line's last word.
    pub(crate) fn has_last(&self, text: &str) -> bool {
        self.words.last().is_some_and(|word| word.text == text)
    }

    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    /// The word that was read last.
    pub(crate) fn last(&self) -> Word<'a> {
        let nothing = Word { text: "", line: self.number, column: 1 };
        self.words.get(self.next.saturating_sub(1)).copied().unwrap_or(nothing)
    }

    /// The next word; `expected` is what should stand there.
    pub(crate) fn word(&mut self, expected: &str) -> Result<Word<'a>, Problem> {
        let word = self.peek().ok_or_else(|| self.ends_early(expected))?;
        self.next += 1;
        Ok(word)
    }

    /// Skips these words, if they come next.
    pub(crate) fn is(&mut self, text: &str) -> bool {
        let count = text.split(' ').count();
        let is = self.words.len() >= self.next + count
            && text.split(' ').zip(&self.words[self.next..]).all(|(expected, word)| expected == word.text);
        self.next += if is { count } else { 0 };
        is
    }

    pub(crate) fn expect(&mut self, text: &str) -> Result<(), Problem> {
        if self.is(text) {
            return Ok(());
        }
        match self.peek() {
            Some(word) => Err(self.wrong(word, format!("`{text}` was expected"))),
            None => Err(self.ends_early(&format!("`{text}`"))),
        }
    }

    /// Nothing more stands on the line.
    pub(crate) fn end(&self) -> Result<(), Problem> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.wrong(word, "the line should end before it")),
        }
    }

    /// A new name: letters, digits, `-` and `_`, with a letter first.
    pub(crate) fn name(&mut self, of: &str) -> Result<Word<'a>, Problem> {
        let word = self.word(&format!("the name of a {of}"))?;
        let is_name = word.text.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.text.len() <= 40
            && word.text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        match is_name {
            true => Ok(word),
            false => Err(self.wrong(word, "a name is up to 40 letters, digits, - and _, with a letter first")),
        }
    }

    /// The number of something that has a name.
    pub(crate) fn one_of(&mut self, names: &BTreeMap<String, u32>, of: &str) -> Result<u32, Problem> {
        let word = self.word(&format!("the name of a {of}"))?;
        names.get(word.text).copied().ok_or_else(|| {
            let known: Vec<&str> = names.keys().map(String::as_str).take(20).collect();
            let hint = match known.is_empty() {
                true => format!("say what it is before the programs: `{of} {}: …`", word.text),
                false => format!("there are {}", known.join(", ")),
            };
            self.wrong(word, format!("there is no {of} of this name")).hint(hint)
        })
    }

    /// A whole number.
    pub(crate) fn whole(&mut self, what: &str, (least, most): (i64, i64)) -> Result<i64, Problem> {
        let word = self.word(what)?;
        match word.text.parse::<i64>() {
            Ok(n) if (least..=most).contains(&n) => Ok(n),
            _ => Err(self.wrong(word, format!("{what} was expected, between {least} and {most}"))),
        }
    }

    /// A number from 0 on.
    pub(crate) fn count(&mut self, what: &str, bounds: (u32, u32)) -> Result<u32, Problem> {
        self.whole(what, (i64::from(bounds.0), i64::from(bounds.1))).map(|n| n as u32)
    }

    /// A time such as `1.5ms`, ns.
    pub(crate) fn duration(&mut self) -> Result<u64, Problem> {
        let word = self.word("a time such as 100us")?;
        duration_ns(word.text).map_err(|why| self.wrong(word, why).hint("write it as 250ns, 100us, 1.5ms or 2s"))
    }

    /// How long something takes: `100us`, `10us to 20us`, `exponential 100us`.
    pub(crate) fn span(&mut self) -> Result<Span, Problem> {
        if self.is("exponential") {
            return Ok(Span::Exponential(self.duration()?));
        }
        let least = self.duration()?;
        if !self.is("to") {
            return Ok(if least == 0 { Span::None } else { Span::Fixed(least) });
        }
        let most = self.duration()?;
        match least <= most {
            true => Ok(Span::Uniform(least, most)),
            false => Err(self.wrong(self.last(), "it is less than where the range begins")),
        }
    }
}

/// A time, ns: a decimal number with its unit.
fn duration_ns(text: &str) -> Result<u64, &'static str> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or("a time has a unit")?;
    let (number, unit) = text.split_at(unit_at);
    let (scale, places): (u64, usize) = match unit {
        "ns" => (1, 0),
        "us" => (1_000, 3),
        "ms" => (1_000_000, 6),
        "s" => (1_000_000_000, 9),
        _ => return Err("a time has a unit: ns, us, ms or s"),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || number.ends_with('.') || part.len() > places {
        return Err("a time is a number of whole nanoseconds, with its unit");
    }
    let whole: u64 = whole.parse().map_err(|_| "a time is at most 3600s")?;
    let part: u64 = format!("{part:0<places$}").parse().unwrap_or(0);
    let ns = whole.checked_mul(scale).and_then(|ns| ns.checked_add(part));
    ns.filter(|ns| *ns <= MOST_SPAN_NS).ok_or("a time is at most 3600s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_nanoseconds() {
        for (text, expected) in [
            ("0ns", Some(0)),
            ("1.5ms", Some(1_500_000)),
            ("3600s", Some(MOST_SPAN_NS)),
            ("0.000000001s", Some(1)),
            ("3600.1s", None),
            ("1.5ns", None),
            ("1.us", None),
            (".5us", None),
            ("-1us", None),
            ("5", None),
            ("us", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(duration_ns(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn words_have_their_columns() {
        let words: Vec<(String, u32)> =
            words("  täsk a, on:cpu{ # b", 7).iter().map(|w| (w.text.to_owned(), w.column)).collect();
        let expected = [("täsk", 3), ("a", 8), (",", 9), ("on", 11), (":", 13), ("cpu", 14), ("{", 17)];
        assert_eq!(words, expected.map(|(text, column)| (text.to_owned(), column)));
    }
}
