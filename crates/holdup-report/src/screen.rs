//! One screen: the answer in 24 lines, and where the rest is.

use crate::matrix::shorten;
use crate::text::{columns, count};

/// The lines of a screen.
const LINES: usize = 24;

/// The columns of a screen.
const COLUMNS: usize = 80;

/// Blocks from the top, as far as there is room above an end that is always shown.
pub(crate) struct Screen {
    out: String,
    end: String,
    left_out: usize,
}

impl Screen {
    /// The end follows after an empty line.
    pub(crate) fn new(end: &str) -> Self {
        Screen { out: String::new(), end: format!("\n{end}"), left_out: 0 }
    }

    /// The lines for further blocks; two are reserved for the number of those that are left out.
    fn room(&self) -> usize {
        LINES.saturating_sub(self.out.lines().count() + self.end.lines().count() + 2)
    }

    /// Adds a block, or as much of it as there is room for.
    pub(crate) fn begin(&mut self, block: &str) {
        let (room, all) = (self.room(), block.lines().count());
        if all <= room {
            self.out.push_str(block);
            return;
        }
        if room == 0 {
            self.left_out += 1;
            return;
        }
        let shown = room - 1;
        block.lines().take(shown).for_each(|line| self.out.push_str(&format!("{line}\n")));
        self.out.push_str(&format!("… {}\n", count(all - shown, "more line")));
    }

    /// Adds a whole block, or counts it as left out with all that follow.
    pub(crate) fn offer(&mut self, block: &str) {
        if self.left_out > 0 || block.lines().count() > self.room() {
            self.left_out += 1;
        } else {
            self.out.push_str(block);
        }
    }

    /// The screen; `what` is the noun for one block that was left out.
    pub(crate) fn finish(mut self, what: &str) -> String {
        if self.left_out > 0 {
            self.out.push_str(&format!("\n{} with --details.\n", count(self.left_out, &format!("more {what}"))));
        }
        self.out + &self.end
    }
}

/// The first lines of a text that begins with its answer; all of it where it fits.
pub(crate) fn cut(text: String) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= LINES {
        return text;
    }
    let mut shown = &lines[..LINES - 2];
    // A heading, or an empty line, without what follows it is no use.
    while let Some((last, rest)) = shown.split_last()
        && (columns(last) == 0 || rest.last().is_some_and(|line| line.is_empty()))
    {
        shown = rest;
    }
    format!("{}\n\n{} with --details.\n", shown.join("\n"), count(lines.len() - shown.len(), "more line"))
}

/// A list of rows: all of them, or as many as a screen has, each on one line of it.
pub fn list(rows: &str, has_details: bool) -> String {
    if has_details {
        return rows.to_owned();
    }
    cut(rows.lines().map(|row| shorten(row, COLUMNS) + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_24_lines_and_its_end() {
        let many = "line\n".repeat(40);
        let mut screen = Screen::new("end\n");
        screen.begin(&many);
        screen.offer(&many);
        let text = screen.finish("finding");
        assert!(text.lines().count() <= LINES && text.ends_with("\nend\n"), "{text}");
        assert!(text.contains("… 21 more lines\n\n1 more finding with --details.\n"), "{text}");
        let short = cut(format!("{}\nhead\nrow\n", "line\n".repeat(20)) + &many);
        assert_eq!((short.lines().count(), short.contains("head")), (22, false), "{short}");
        assert_eq!(cut("few\n".to_owned()), "few\n");
        let wide = format!("{}\n", "x".repeat(90)).repeat(40);
        let text = list(&wide, false);
        assert!(text.lines().count() <= LINES && text.lines().all(|line| columns(line) <= COLUMNS), "{text}");
        assert!(text.ends_with("\n18 more lines with --details.\n"), "{text}");
        assert_eq!(list(&wide, true), wide);
    }
}
