//! What came of a profile, and a profile in the words of other tools.

mod postgresql_conf;
mod sysctl_d;
mod systemd;
mod tuned;

use crate::text::{align, clean};
use holdup_model::Profile;
use holdup_model::foreign::is_harmful;
use holdup_model::profile::{Destination, ProfileLine, ProfileState, Setting};

pub use postgresql_conf::postgresql_conf;
pub use sysctl_d::sysctl_d;
pub use systemd::systemd;
pub use tuned::tuned;

/// The names of the formats for other tools.
pub const FORMATS: &[&str] = &["tuned", "sysctl.d", "systemd", "postgresql.conf"];

/// A profile in one of [`FORMATS`]; `destinations` says where each of its settings lives, in their order. `None` for a format
/// of another name.
pub fn export(format: &str, profile: &Profile, destinations: &[Vec<Destination>]) -> Option<String> {
    match format {
        "tuned" => Some(tuned(profile, destinations)),
        "sysctl.d" => Some(sysctl_d(profile, destinations)),
        "systemd" => Some(systemd(profile, destinations)),
        "postgresql.conf" => Some(postgresql_conf(profile, destinations)),
        _ => None,
    }
}

/// A line for each value of a profile, for people.
pub fn terminal(profile: &Profile, lines: &[ProfileLine]) -> String {
    let head = if profile.summary.is_empty() { String::new() } else { format!(": {}", clean(&profile.summary)) };
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let found = line.found.as_deref().map_or_else(|| "?".to_owned(), clean);
            let wanted = clean(&line.wanted);
            let (value, state) = match line.state {
                ProfileState::InForce => (wanted, "in force"),
                ProfileState::Applied => (format!("{found} → {wanted}"), "applied"),
                ProfileState::WouldChange => (format!("{found} → {wanted}"), "would be applied"),
                ProfileState::Differs => (wanted, "not in force"),
                ProfileState::LeftOut => (wanted, "left out"),
                ProfileState::Unavailable => (wanted, "unavailable"),
            };
            let mut result = state.to_owned();
            if line.state == ProfileState::Differs {
                result.push_str(&format!(": it is {found}"));
            }
            for part in [&line.reason, &line.remedy].into_iter().flatten() {
                result.push_str(&format!("; {}", clean(part)));
            }
            vec![clean(&line.knob), value, result]
        })
        .collect();
    format!("{}{head}\n{}", clean(&profile.name), align(&rows, &[0, 1, 2], "  "))
}

/// What a change of each knob touches, for people.
pub fn touches(lines: &[ProfileLine]) -> String {
    let changed = lines.iter().filter(|line| line.state == ProfileState::WouldChange);
    let rows: Vec<Vec<String>> = changed.map(|line| vec![clean(&line.knob), clean(&line.touches)]).collect();
    if rows.is_empty() {
        return "\nNothing would be changed.\n".to_owned();
    }
    format!(
        "\nChanged until `holdup restore` or the next boot (settings of a server stay):\n{}",
        align(&rows, &[0, 1], "  ")
    )
}

/// The same as one JSON document, schema `holdup.profile/1`.
pub fn json(profile: &Profile, lines: &[ProfileLine]) -> String {
    let document = serde_json::json!({
        "schema": "holdup.profile/1",
        "profile": profile.name,
        "summary": profile.summary,
        "in_force": is_in_force(lines),
        "knobs": lines,
    });
    format!("{document:#}\n")
}

/// True if every value that is not left out is in force.
pub fn is_in_force(lines: &[ProfileLine]) -> bool {
    let counts = |state| matches!(state, ProfileState::InForce | ProfileState::Applied | ProfileState::LeftOut);
    lines.iter().all(|line| counts(line.state))
}

/// A list of switches, of which writing a word changes one: reading it gives all of them.
const FEATURES: &str = "/sys/kernel/debug/sched/features";

/// A setting and one of the destinations where it lives, if it has any.
type Placed<'a> = (&'a Setting, Option<&'a Destination>);

/// Every destination of every setting; a setting without one stands there once.
fn placed<'a>(profile: &'a Profile, destinations: &'a [Vec<Destination>]) -> Vec<Placed<'a>> {
    let mut all = Vec::new();
    for (index, setting) in profile.settings.iter().enumerate() {
        match destinations.get(index).map_or(&[][..], Vec::as_slice) {
            [] => all.push((setting, None)),
            some => all.extend(some.iter().map(|destination| (setting, Some(destination)))),
        }
    }
    all
}

/// A text that stays in its line for every reader.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { ' ' } else { c }).collect()
}

/// A value in a file of PostgreSQL, which reads a backslash in it as an escape (guc.c, `DeescapeQuotedString`, 17.0).
fn postgres_quoted(value: &str) -> String {
    format!("'{}'", one_line(value).replace('\\', "\\\\").replace('\'', "''"))
}

/// The head of a file: what it is and where it goes.
fn head(profile: &Profile, format: &str, go: &[String]) -> String {
    let summary = one_line(&profile.summary);
    let mut out =
        format!("# {}{}\n", profile.name, if summary.is_empty() { String::new() } else { format!(": {summary}") });
    out.push_str(&format!("# Made by `holdup export profile --format {format}`.\n"));
    for line in go {
        out.push_str(&format!("# {line}\n"));
    }
    out
}

/// Values that a format has no destination for, as comments with what to do instead.
fn elsewhere(placed: &[Placed<'_>], is_here: impl Fn(&Destination) -> bool, instead: &str) -> String {
    let mut out = String::new();
    for (setting, destination) in placed {
        let why = match destination {
            Some(destination) if is_here(destination) => continue,
            None => "no file of the kernel holds it alone; use `holdup apply`".to_owned(),
            Some(Destination::Sysctl { key, .. }) => format!("its sysctl {} cannot be written here", one_line(key)),
            Some(Destination::File { path, value }) => {
                format!("write {} to {}{}", one_line(value), one_line(path), end(instead))
            }
            Some(Destination::Service { directive, value }) => {
                format!("in the unit of the service, [Service] {}={}", one_line(directive), one_line(value))
            }
            Some(Destination::WakeLatency { us }) => {
                format!("it holds while a process keeps {us} µs written in /dev/cpu_dma_latency{}", end(instead))
            }
            Some(Destination::Postgres { name, value }) => {
                format!("in postgresql.conf, {} = {}", one_line(name), postgres_quoted(value))
            }
        };
        out.push_str(&format!("# {} = {}: {why}\n", one_line(&setting.knob), one_line(&setting.level.label)));
    }
    if out.is_empty() { out } else { format!("\n# Not set by this file:\n{out}") }
}

fn end(instead: &str) -> String {
    if instead.is_empty() { String::new() } else { format!(" ({instead})") }
}

/// True if a key, a path or a value is safe in a command or a line without any quoting.
fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '+' | ',' | ':' | '*');
    !text.is_empty() && text.chars().all(fits)
}

/// True if a value can: no `*`, which only paths may hold.
fn is_plain_value(text: &str) -> bool {
    is_plain(text) && !text.contains('*')
}
