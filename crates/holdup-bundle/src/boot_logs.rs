//! What guests wrote, as a bundle keeps it: bounded and deflated.

use crate::deflated::{deflate, inflate};
use std::borrow::Cow;

/// The most that is kept of one text, bytes, the line in its middle included. A kernel that repeats one complaint
/// writes megabytes; its first and its last ones say as much.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// Room for the line that says what was left out.
const MARK_BYTES: usize = 64;

/// A text as it is kept.
pub(crate) struct Packed {
    /// Left out of the middle, bytes.
    pub(crate) trimmed_bytes: usize,
    /// Size of the text as kept, bytes.
    pub(crate) kept_bytes: usize,
    /// The text as kept, in zlib form.
    pub(crate) zlib: Vec<u8>,
}

/// Trims and deflates.
pub(crate) fn pack(text: &[u8]) -> Packed {
    let (kept, trimmed_bytes) = trimmed(text);
    Packed { trimmed_bytes, kept_bytes: kept.len(), zlib: deflate(&kept) }
}

/// The text with its middle left out where it is too long, and how much that was, bytes. Whole lines stay whole
/// where a line ends near the cut.
fn trimmed(text: &[u8]) -> (Cow<'_, [u8]>, usize) {
    if text.len() <= MOST_BYTES {
        return (Cow::Borrowed(text), 0);
    }
    let half = (MOST_BYTES - MARK_BYTES) / 2;
    let near = half - half / 16;
    let (head, tail) = (&text[..half], &text[text.len() - half..]);
    let head = match head.iter().rposition(|b| *b == b'\n') {
        Some(end) if end >= near => &head[..=end],
        _ => head,
    };
    let tail = match tail.iter().position(|b| *b == b'\n') {
        Some(end) if half - end > near => &tail[end + 1..],
        _ => tail,
    };
    let left_out = text.len() - head.len() - tail.len();
    let break_before = if head.ends_with(b"\n") { "" } else { "\n" };
    let mark = format!("{break_before}[... {left_out} bytes left out ...]\n");
    debug_assert!(mark.len() <= MARK_BYTES);
    (Cow::Owned([head, mark.as_bytes(), tail].concat()), left_out)
}

/// Inflates a text of `kept_bytes`, never more than that. The error follows the name of the text.
pub(crate) fn unpack(zlib: &[u8], kept_bytes: u64) -> Result<String, String> {
    let text = inflate(zlib, kept_bytes, MOST_BYTES)?;
    Ok(String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &[u8]) -> (String, usize) {
        let packed = pack(text);
        assert!(packed.kept_bytes <= MOST_BYTES);
        (unpack(&packed.zlib, packed.kept_bytes as u64).expect("inflates"), packed.trimmed_bytes)
    }

    #[test]
    fn a_text_comes_back_with_noise_in_its_place() {
        assert_eq!(back(b""), (String::new(), 0));
        assert_eq!(back("[    0.0] Linux version ✓\r\n".as_bytes()), ("[    0.0] Linux version ✓\r\n".to_owned(), 0));
        assert_eq!(back(b"a\xff\xfe\0b"), ("a\u{fffd}\u{fffd}\0b".to_owned(), 0));
        let whole = vec![b'x'; MOST_BYTES];
        assert_eq!(back(&whole), (String::from_utf8(whole.clone()).expect("is text"), 0));
    }

    #[test]
    fn a_long_text_keeps_its_begin_and_its_end_in_whole_lines_and_says_what_is_missing() {
        let lines: Vec<u8> = (0..200_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        let (text, left_out) = back(&lines);
        assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("\nline 199999\n"));
        let mark = format!("[... {left_out} bytes left out ...]");
        assert_eq!(text.lines().filter(|l| !l.starts_with("line ")).collect::<Vec<_>>(), [&mark]);
        assert_eq!(text.len() - mark.len() - 1 + left_out, lines.len());
        // No line ends near the cut: it is made anywhere, and the mark has its own line.
        let (text, left_out) = back(&vec![b'x'; 3 << 20]);
        assert_eq!(text.lines().nth(1), Some(format!("[... {left_out} bytes left out ...]").as_str()));
    }

    #[test]
    fn what_is_no_zlib_and_what_inflates_to_another_size_is_refused() {
        let packed = pack(&vec![b'x'; 1000]);
        assert_eq!(unpack(&packed.zlib, 10).expect_err("too long"), "inflates to more than 10 bytes, 10 were kept");
        assert_eq!(unpack(&packed.zlib, 1001).expect_err("too short"), "inflates to 1000 bytes, 1001 were kept");
        assert!(unpack(&packed.zlib, u64::MAX).expect_err("too much").contains("more than are ever kept"));
        assert!(unpack(b"no zlib", 7).expect_err("noise").starts_with("cannot be inflated ("));
        assert!(unpack(&packed.zlib[..packed.zlib.len() / 2], 1000).is_err());
    }
}
