//! Reference pages, made from what the program lists: `holdup list KIND --json` and `--help`.

use crate::repo::printed;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::path::Path;

/// The catalogues, with the titles of their pages.
const CATALOGUES: [(&str, &str); 14] = [
    ("workloads", "Catalogue of workloads"),
    ("algorithms", "Catalogue of lock algorithms"),
    ("collectors", "Catalogue of collectors"),
    ("knobs", "Catalogue of knobs"),
    ("tunables", "Catalogue of tunables"),
    ("cases", "Catalogue of cases"),
    ("reports", "Catalogue of published reports"),
    ("analyses", "Catalogue of analyses"),
    ("explanations", "Catalogue of explanations"),
    ("targets", "Catalogue of targets"),
    ("machines", "Catalogue of simulated machines"),
    ("importers", "Catalogue of importers"),
    ("metrics", "Catalogue of exported metrics"),
    ("schemas", "JSON Schemas"),
];

/// A page that is made.
pub struct Made {
    pub title: String,
    /// Where it stands among the pages.
    pub path: String,
    /// Its Markdown.
    pub text: String,
}

/// All of them.
///
/// # Errors
/// When the program cannot be run, or prints something else.
pub fn pages(holdup: &Path) -> Result<Vec<Made>> {
    let mut made = vec![commands(holdup)?];
    for (kind, title) in CATALOGUES {
        let printed = printed(holdup, &["list", kind, "--json"])?;
        let list: Value = serde_json::from_str(&printed).with_context(|| format!("holdup list {kind} --json"))?;
        let members = list["members"].as_array().cloned().unwrap_or_default();
        if members.is_empty() {
            bail!("holdup list {kind} --json: it lists nothing");
        }
        let mut text = format!("# {title}\n\nMade from `holdup list {kind} --json`.\n\n");
        match kind {
            "schemas" => schemas(holdup, &members, &mut text)?,
            "metrics" => table(&mut text, &["name", "kind", "unit", "labels", "help"], &members),
            "reports" => table(&mut text, &["id", "verdicts", "summary"], &members),
            "machines" => table(&mut text, &["id", "cpus", "memory_bytes", "summary"], &members),
            _ => members.iter().for_each(|member| entry(&mut text, member)),
        }
        made.push(Made { title: title.to_owned(), path: format!("docs/reference/{kind}.md"), text });
    }
    Ok(made)
}

/// A text in Markdown. Catalogues hold plain text, whose signs are not meant as Markdown, but for code between backticks.
fn escaped(text: &str) -> String {
    let mut code = false;
    let mut out = String::new();
    for c in text.chars() {
        code ^= c == '`';
        match c {
            '|' => out.push_str("\\|"),
            '<' if !code => out.push_str("&lt;"),
            '*' | '_' | '[' | ']' | '\\' if !code => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        Value::Array(all) => all.iter().map(word).collect::<Vec<_>>().join(", "),
        other => escaped(&other.to_string()),
    }
}

fn table(text: &mut String, columns: &[&str], rows: &[Value]) {
    text.push_str(&format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len())));
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(i, column)| match word(&row[*column]) {
                cell if i == 0 && !cell.is_empty() => format!("`{}`", cell.replace('\\', "")),
                cell => cell,
            })
            .collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text.push('\n');
}

fn entry(text: &mut String, member: &Value) {
    let id = member["id"].as_str().unwrap_or_default();
    text.push_str(&format!("## `{id}`\n\n{}\n\n", word(&member["summary"])));
    for paragraph in member["docs"].as_str().unwrap_or_default().split("\n\n").filter(|p| !p.trim().is_empty()) {
        text.push_str(&format!("{}\n\n", escaped(paragraph)));
    }
    let list = |key: &str| member[key].as_array().filter(|all| !all.is_empty());
    if let Some(parameters) = list("parameters") {
        table(text, &["name", "kind", "default", "summary"], parameters);
    }
    if let Some(brings) = list("brings") {
        table(text, &["name", "unit", "summary"], brings);
    }
    for reference in list("references").into_iter().flatten() {
        text.push_str(&format!("- Source: {}\n", word(reference)));
    }
    text.push('\n');
}

fn schemas(holdup: &Path, names: &[Value], text: &mut String) -> Result<()> {
    for name in names.iter().filter_map(Value::as_str) {
        text.push_str(&format!(
            "## `{name}`\n\n```json\n{}\n```\n\n",
            printed(holdup, &["list", "schemas", name])?.trim_end()
        ));
    }
    Ok(())
}

/// The help of each command, as `--help` prints it.
fn commands(holdup: &Path) -> Result<Made> {
    let help = printed(holdup, &["--help"])?;
    let mut text = format!(
        "# Command line\n\nMade from `holdup --help` and that of each command.\n\n```text\n{}\n```\n",
        help.trim_end()
    );
    // A command stands at the begin of an indented line that continues with two spaces and what it does.
    let names = help.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase()) && !name.is_empty() && name != "help";
        (is_name && !rest.trim().is_empty()).then_some(name)
    });
    for name in names {
        let help = printed(holdup, &[name, "--help"])?;
        text.push_str(&format!("\n## `holdup {name}`\n\n```text\n{}\n```\n", help.trim_end()));
    }
    Ok(Made { title: "Command line".to_owned(), path: "docs/reference/commands.md".to_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_text_stays_plain_text() {
        assert_eq!(escaped("a|b <c> `x_y` x_y *z*"), "a\\|b &lt;c> `x_y` x\\_y \\*z\\*");
        let mut text = String::new();
        let member = json!({
            "id": "cpu", "summary": "Time", "docs": "One.\n\nTwo.", "references": ["proc(5)"], "parameters": [],
            "brings": [{"name": "cpu_share", "unit": "1", "summary": "A share"}],
        });
        entry(&mut text, &member);
        assert_eq!(
            text,
            "## `cpu`\n\nTime\n\nOne.\n\nTwo.\n\n| name | unit | summary |\n|---|---|---|\n| `cpu_share` | 1 | A share |\n\n- Source: proc(5)\n\n"
        );
    }
}
