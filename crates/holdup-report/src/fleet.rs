//! The answers of many hosts in one table, the worst first.

use crate::formats::json::pretty;
use crate::formats::terminal::TerminalOptions;
use crate::screen::Screen;
use crate::text::{clean, columns, count, wrap};
use serde::Serialize;
use serde_json::json;

/// What one host answered, in the order from the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// It has what was looked for: an exposure, a cause.
    Found,
    /// It could not be asked.
    Failed,
    /// It does not know.
    Undecided,
    /// It has none.
    Clear,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// Its answer.
    pub state: HostState,
    /// The same in a word or two.
    pub verdict: String,
    /// Its kernel, where it is known.
    pub kernel: String,
    /// Its answer in a sentence, or why there is none.
    pub answer: String,
    /// What to do where it could not be asked.
    pub hint: Option<String>,
}

/// Sorts hosts: the worst first, then by name.
pub fn sort_hosts(rows: &mut [HostRow]) {
    rows.sort_by(|a, b| (a.state, &a.host).cmp(&(b.state, &b.host)));
}

/// The hosts on one screen: `head` says in a sentence how many answered what.
pub fn fleet_terminal(rows: &[HostRow], head: &str, options: &TerminalOptions) -> String {
    let width = options.columns();
    let of = |part: fn(&HostRow) -> &str, most: usize| {
        rows.iter().map(|row| columns(&clean(part(row)))).max().unwrap_or(0).min(most)
    };
    let (name, verdict, kernel) = (of(|r| &r.host, 24), of(|r| &r.verdict, 12), of(|r| &r.kernel, 20));
    let line = |row: &HostRow| {
        let pad =
            |text: &str, to: usize| format!("{:<to$}", shorten(&clean(text), if options.details { 255 } else { to }));
        let begin = format!("{}  {}  {}  ", pad(&row.host, name), pad(&row.verdict, verdict), pad(&row.kernel, kernel));
        match options.details {
            true => wrap(&row.answer, width.max(columns(&begin) + 20), &begin, &" ".repeat(columns(&begin).min(8))),
            false => format!("{}\n", shorten(&format!("{begin}{}", clean(&row.answer)), width).trim_end()),
        }
    };
    let hint =
        |row: &HostRow| row.hint.as_ref().map(|hint| wrap(&format!("{}: hint: {hint}", row.host), width, "", "  "));
    let head = options.bold_lines(&wrap(head, width, "", "  "));
    if options.details {
        let rows: String = rows.iter().map(|row| line(row) + &hint(row).unwrap_or_default()).collect();
        return format!("{head}\n{rows}");
    }
    // One hint stands for all hosts that failed: mostly they fail alike.
    let mut screen = Screen::new(&rows.iter().find_map(hint).unwrap_or_default());
    screen.begin(&format!("{head}\n"));
    rows.iter().for_each(|row| screen.offer(&line(row)));
    screen.finish("host")
}

/// `3 of 20 hosts are exposed. 2 are undecided. 1 could not be asked.`, where `found` is `exposed`.
pub fn fleet_head(rows: &[HostRow], found: &str) -> String {
    let of = |state: HostState| rows.iter().filter(|row| row.state == state).count();
    let verb = |n: usize| if n == 1 { "is" } else { "are" };
    let n = of(HostState::Found);
    let mut head = match n {
        0 => format!("None of {} is {found}.", count(rows.len(), "host")),
        n => format!("{n} of {} {} {found}.", count(rows.len(), "host"), verb(n)),
    };
    if of(HostState::Undecided) > 0 {
        head.push_str(&format!(" {} {} undecided.", of(HostState::Undecided), verb(of(HostState::Undecided))));
    }
    if of(HostState::Failed) > 0 {
        head.push_str(&format!(" {} could not be asked.", of(HostState::Failed)));
    }
    head
}

/// The hosts as a JSON document.
pub fn fleet_json(rows: &[HostRow]) -> String {
    pretty(&json!({ "schema": "holdup.fleet/1", "hosts": rows }))
}

fn shorten(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize, state: HostState) -> HostRow {
        HostRow {
            host: format!("host-{n:03}"),
            state,
            verdict: format!("{state:?}").to_lowercase(),
            kernel: "6.12.0-amd64".to_owned(),
            answer: "a sentence that is longer than what is left of a line on a terminal of eighty columns".to_owned(),
            hint: (state == HostState::Failed).then(|| "do something".to_owned()),
        }
    }

    #[test]
    fn two_hundred_hosts_fit_a_screen_with_the_worst_first() {
        let states = [HostState::Clear, HostState::Failed, HostState::Found, HostState::Undecided];
        let mut rows: Vec<HostRow> =
            (0..200).map(|n| row(n, states[usize::from(n % 50 == 0) * (1 + n / 50 % 3)])).collect();
        sort_hosts(&mut rows);
        let text = fleet_terminal(
            &rows,
            &fleet_head(&rows, "exposed"),
            &TerminalOptions { width: 80, color: false, details: false },
        );
        assert!(text.lines().count() <= 24 && text.lines().all(|line| columns(line) <= 80), "{text}");
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"));
        assert!(at("1 of 200 hosts is exposed. 1 is undecided. 2 could not be asked.") == 0);
        assert!(at("found") < at("failed") && at("failed") < at("undecided  ") && at("undecided  ") < at("clear"));
        assert!(text.contains("more hosts with --details") && text.contains("hint: do something"), "{text}");
        let all = fleet_terminal(&rows, "x", &TerminalOptions { width: 80, color: false, details: true });
        assert!(all.contains("host-199") && all.lines().all(|line| columns(line) <= 80));
    }
}
