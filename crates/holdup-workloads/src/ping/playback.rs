//! Recorded times and sizes of messages: sockperf's playback file, a line `seconds, bytes` for each message.

use holdup_files::read_input;
use holdup_model::Problem;
use serde::{Deserialize, Serialize};

use std::path::Path;

/// The largest file that is read.
const LARGEST_FILE: u64 = 256 << 20;
/// The latest time in a file: a day.
const LATEST_S: f64 = 86_400.0;

/// The messages of a file, from its first one on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// ns after the first one, and bytes.
    messages: Vec<(u64, u32)>,
    /// After which time it begins again, ns.
    round_ns: u64,
}

impl Recorded {
    /// Reads a file whose messages have `smallest` to `largest` bytes.
    ///
    /// # Errors
    /// Of kind `Usage` when it cannot be read or is not such a file, with the line.
    pub fn read(path: &Path, smallest: usize, largest: usize) -> Result<Self, Problem> {
        let name = || format!("playback_file {}", path.display());
        let bytes = bytes_of(path).map_err(|why| Problem::usage(name(), why))?;
        Self::parse(&bytes, smallest, largest).map_err(|why| {
            Problem::usage(name(), why).hint("each line is \"seconds, bytes\", for example \"0.000125, 14\"")
        })
    }

    /// Reads the bytes of a file. Times never go back; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn parse(bytes: &[u8], smallest: usize, largest: usize) -> Result<Self, String> {
        let mut messages: Vec<(u64, u32)> = Vec::new();
        let mut first_ns = 0;
        for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let number = index + 1;
            let Some((at_ns, size)) = message(line).map_err(|why| format!("line {number}: {why}"))? else { continue };
            if size < smallest as u64 || size > largest as u64 {
                return Err(format!("line {number}: {size} bytes are not between {smallest} and {largest}"));
            }
            if messages.is_empty() {
                first_ns = at_ns;
            }
            let after_ns = at_ns.checked_sub(first_ns).filter(|after| messages.last().is_none_or(|l| *after >= l.0));
            let after_ns = after_ns.ok_or_else(|| format!("line {number}: the time goes back"))?;
            messages.push((after_ns, size as u32));
        }
        let last_ns = messages.last().map_or(0, |last| last.0);
        if last_ns == 0 {
            return Err(format!("it holds {} messages, and no two at different times", messages.len()));
        }
        // One mean gap after the last message it begins again.
        let gaps = messages.len() as u64 - 1;
        Ok(Recorded { messages, round_ns: last_ns + (last_ns / gaps).max(1) })
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// True if there is none, which no file that was read has.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// When the message at a place is due, ns after the first one, and its bytes.
    #[inline]
    pub fn message(&self, place: usize) -> (u64, usize) {
        let (at_ns, size) = self.messages[place];
        (at_ns, size as usize)
    }

    /// After which time it begins again, ns.
    pub fn round_ns(&self) -> u64 {
        self.round_ns
    }

    /// The bytes of the longest message.
    pub fn largest(&self) -> usize {
        self.messages.iter().map(|m| m.1 as usize).max().unwrap_or(0)
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    read_input(path, LARGEST_FILE).map_err(|e| format!("it cannot be read: {e}"))
}

/// A line's time in ns and its size; `None` when it says nothing.
fn message(line: &[u8]) -> Result<Option<(u64, u64)>, String> {
    let line = std::str::from_utf8(line).map_err(|_| "it is not text".to_owned())?.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let (Some(time), Some(size), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("two numbers were expected, not {}", shown(line)));
    };
    let seconds = time.parse::<f64>().ok().filter(|s| (0.0..=LATEST_S).contains(s));
    let seconds = seconds.ok_or_else(|| format!("{} is not a time between 0 and {LATEST_S} s", shown(time)))?;
    let size = size.parse::<u64>().map_err(|_| format!("{} is not a number of bytes", shown(size)))?;
    Ok(Some(((seconds * 1e9).round() as u64, size)))
}

/// The begin of a text, fit for a message.
fn shown(text: &str) -> String {
    let begin: String = text.chars().take(40).collect();
    format!("{begin:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_is_read_or_its_line_is_named() {
        let parsed = |text: &[u8]| Recorded::parse(text, 8, 100).map(|r| (r.messages.clone(), r.round_ns()));
        assert_eq!(parsed(b"5,14\n5.000001,20\n"), Ok((vec![(0, 14), (1_000, 20)], 2_000)));
        assert_eq!(
            parsed(b"# a\n\n0 8\r\n1\t9\n1 , 10"),
            Ok((vec![(0, 8), (1_000_000_000, 9), (1_000_000_000, 10)], 1_500_000_000))
        );
        let wrong = |text: &[u8], expect: &str| assert_eq!(parsed(text).expect_err("wrong"), expect);
        wrong(b"", "it holds 0 messages, and no two at different times");
        wrong(b"1,14\n1,14", "it holds 2 messages, and no two at different times");
        wrong(b"1,14\n0.5,14", "line 2: the time goes back");
        wrong(b"1,14\n3,14\n2,14", "line 3: the time goes back");
        wrong(b"1,7", "line 1: 7 bytes are not between 8 and 100");
        wrong(b"1,101", "line 1: 101 bytes are not between 8 and 100");
        wrong(b"1,99999999999999999999", "line 1: \"99999999999999999999\" is not a number of bytes");
        wrong(b"1,-5", "line 1: \"-5\" is not a number of bytes");
        wrong(b"nan,14", "line 1: \"nan\" is not a time between 0 and 86400 s");
        wrong(b"1e300,14", "line 1: \"1e300\" is not a time between 0 and 86400 s");
        wrong(b"-1,14", "line 1: \"-1\" is not a time between 0 and 86400 s");
        wrong(b"1", "line 1: two numbers were expected, not \"1\"");
        wrong(b"1,2,3", "line 1: two numbers were expected, not \"1,2,3\"");
        wrong(b"\n\xff\xfe,1", "line 2: it is not text");
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let check = |path: &Path, expect: &str| {
            let problem = Recorded::read(path, 8, 100).expect_err("it is no file");
            assert!(problem.to_string().contains(expect), "{problem}");
        };
        check(folder.path(), "it is a folder");
        check(Path::new("/dev/zero"), "it is a character device");
        check(&folder.path().join("nothing"), "No such file");
    }

    proptest! {
        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _read = Recorded::parse(&bytes, 1, 100);
        }

        #[test]
        fn numbers_and_separators_can_be_read(text in "[0-9.,\n e#-]{0,80}") {
            let _read = Recorded::parse(text.as_bytes(), 1, 100);
        }
    }
}
