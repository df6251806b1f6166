//! Small files of /proc and /sys, and foreign words.

use crate::Host;
use holdup_model::survey::Reading;

/// A file of one line, without the white space around it; empty and garbled ones are not known.
pub fn one_line(host: &Host, path: &str) -> Reading<String> {
    // No such file is longer; a hostile tree may hold anything.
    const LONGEST: usize = 64 * 1024;
    match host.read_head_bytes(path, LONGEST) {
        Err(e) => Reading::unknown(path, e.message),
        Ok(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if text.trim().is_empty() => Reading::unknown(path, "the file is empty"),
            Ok(text) => Reading::found(text.trim().to_owned(), path),
            Err(e) => Reading::unknown(path, format!("byte {} is not UTF-8", e.valid_up_to())),
        },
    }
}

/// Foreign words as they may be printed: at most 120 characters, without control characters.
pub fn shown(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= 120 { clean } else { clean.chars().take(119).chain(['…']).collect() }
}

/// The word that stands between these in a file such as `always [madvise] never`.
pub fn chosen(text: &str, open: char, close: char) -> Option<&str> {
    let (_, rest) = text.split_once(open)?;
    let (word, _) = rest.split_once(close)?;
    Some(word.trim()).filter(|word| !word.is_empty())
}
