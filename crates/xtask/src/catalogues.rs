//! Every file of a catalogue folder is in its list, under an id equal to its name.

use crate::Repo;
use regex::Regex;

/// The catalogue folders, with the least number of members that each must have.
pub const CATALOGUES: [(&str, usize); 14] = [
    ("crates/holdup-sections/src/arch", 2),
    ("crates/holdup-catalogue/src/workloads", 10),
    ("crates/holdup-workloads/src/workloads", 3),
    ("crates/holdup-locks/src/algorithms", 6),
    ("crates/holdup-evidence/src/collectors", 8),
    ("crates/holdup-guest/src/arch", 2),
    ("crates/holdup-knobs/src/knobs", 4),
    ("crates/holdup-analysis/src/analyses", 3),
    ("crates/holdup-analysis/src/cases", 7),
    ("crates/holdup-analysis/src/explanations", 10),
    ("crates/holdup-target/src/targets", 1),
    ("crates/holdup-sim/src/locks", 10),
    ("crates/holdup-sim/src/preempt", 5),
    ("crates/holdup-sim/src/workloads", 7),
];

/// Catalogues of files that are no Rust: the folder, the ending of their names, the list, and what names one there.
const FILES: [(&str, &str, &str, &str); 3] = [
    ("crates/holdup-sim/machines", ".toml", "crates/holdup-sim/src/machine/catalogue.rs", "(\"NAME\", include_str!("),
    ("reports", ".toml", "crates/holdup-catalogue/src/reports.rs", "(\"NAME\", include_str!("),
    ("docs/scenarios", ".md", "docs/scenarios/README.md", "](NAME.md)"),
];

/// The mechanisms of the simulator are one table in the code, and one in its documentation.
const MECHANISMS: (&str, &str) = ("crates/holdup-sim/src/factors.rs", "docs/simulator.md");

/// The marks of a segment and the causes of our own judgement: the table in the code, what is at the beginning of a row, and
/// how the documentation names it.
const OF_PACKETS: [(&str, &str, &str); 2] = [
    ("crates/holdup-packets/src/kinds.rs", r#"(?m)^ +[A-Z]\w+ "tcp\.([a-z_.]+)" ""#, "`NAME`"),
    ("crates/holdup-packets/src/rfc/causes.rs", r#"(?m)^ +[A-Z]\w+ "[a-z_]+" "([^"]+)" ""#, "NAME"),
];
const ABOUT_PACKETS: &str = "docs/packets.md";

/// What is wrong with the catalogues.
pub fn check(repo: &Repo) -> Vec<String> {
    let mut wrong: Vec<String> =
        CATALOGUES.iter().flat_map(|(folder, least)| check_one(repo, folder, *least)).collect();
    wrong.extend(FILES.iter().flat_map(|files| check_files(repo, *files)));
    wrong.extend(check_mechanisms(repo));
    wrong.extend(OF_PACKETS.iter().flat_map(|table| check_packets(repo, *table)));
    wrong
}

fn check_packets(repo: &Repo, (table, row, entry): (&str, &str, &str)) -> Vec<String> {
    let (code, docs) = (repo.text(table).unwrap_or_default(), repo.text(ABOUT_PACKETS).unwrap_or_default());
    let row = Regex::new(row).expect("a pattern");
    let names: Vec<&str> = row.captures_iter(code).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let missing = names.iter().filter(|name| !docs.contains(&entry.replace("NAME", name)));
    let mut wrong: Vec<String> = missing.map(|name| format!("{ABOUT_PACKETS}: it does not describe {name}")).collect();
    wrong.extend((names.len() < 10).then(|| format!("{table}: {} rows, 10 were there before", names.len())));
    wrong
}

fn check_files(repo: &Repo, (folder, ending, list, entry): (&str, &str, &str, &str)) -> Vec<String> {
    let text = repo.text(list).unwrap_or_default();
    let names = repo.under(folder).filter_map(|(path, _)| path.strip_suffix(ending)).filter(|name| *name != "README");
    let missing = names.filter(|name| !text.contains(&entry.replace("NAME", name)));
    missing.map(|name| format!("{folder}/{name}{ending}: {list} does not name it")).collect()
}

fn check_mechanisms(repo: &Repo) -> Vec<String> {
    let (code, docs) = (repo.text(MECHANISMS.0).unwrap_or_default(), repo.text(MECHANISMS.1).unwrap_or_default());
    let id = Regex::new(r#"id: "(mechanism\.[a-z-]+)""#).expect("a pattern");
    let ids: Vec<&str> = id.captures_iter(code).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let mut wrong: Vec<String> = ids
        .iter()
        .filter(|id| !docs.contains(&format!("| `{id}` |")))
        .map(|id| format!("{}: it does not describe {id}", MECHANISMS.1))
        .collect();
    wrong.extend((ids.len() < 5).then(|| format!("{}: {} mechanisms, 5 were there before", MECHANISMS.0, ids.len())));
    wrong
}

fn check_one(repo: &Repo, folder: &str, least: usize) -> Vec<String> {
    let Some(list) = repo.text(&format!("{folder}/mod.rs")) else { return vec![format!("{folder}/mod.rs is missing")] };
    let mut wrong = Vec::new();
    // A member is a file or a folder with a mod.rs.
    let mut members: Vec<(String, String)> = Vec::new();
    for (path, text) in repo.under(folder).filter(|(path, _)| *path != "mod.rs") {
        match path.strip_suffix(".rs").and_then(|p| p.strip_suffix("/mod").or(Some(p))) {
            Some(name) if !name.contains('/') => members.push((name.to_owned(), text.to_owned())),
            // Parts of a member that is a folder; snapshots of its tests.
            _ if path.contains('/') => {}
            _ => wrong.push(format!("{folder}/{path}: nothing but members belongs into a catalogue")),
        }
    }
    for (name, text) in &members {
        let declared = matches(list, &format!(r"(?m)^\s*(pub(\([a-z]+\))? )?mod {name};"));
        let listed = matches(list, &format!(r"(?m)^[^/\n]*&?\b{name}::[A-Za-z_]+\s*[,\]]"));
        if !declared || !listed {
            let what = if declared { "its list" } else { "its modules" };
            wrong.push(format!("{folder}/{name}.rs: {folder}/mod.rs does not have it among {what}"));
        }
        let id = name.replace('_', "-");
        if !text.contains(&format!("\"{id}\"")) {
            wrong.push(format!("{folder}/{name}.rs: its id is not \"{id}\", the name of the file"));
        }
    }
    if members.len() < least {
        wrong.push(format!("{folder}: {} members, {least} were there before", members.len()));
    }
    wrong
}

fn matches(text: &str, pattern: &str) -> bool {
    Regex::new(pattern).expect("names of modules are words").is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "mod cpu;\npub mod wait_events;\npub const ALL: &[&dyn C] = &[\n    &cpu::Cpu,\n    \
                        &wait_events::WaitEvents,\n];\n";

    fn wrong(list: &str, files: &[(&str, &str)]) -> usize {
        let mut all = vec![("c/mod.rs", list)];
        all.extend(files);
        check_one(&Repo::of(&all), "c", 2).len()
    }

    #[test]
    fn members_that_are_not_listed_or_have_another_id_are_found() {
        let cpu = ("c/cpu.rs", "id: \"cpu\"");
        let wait = ("c/wait_events.rs", "id: \"wait-events\"");
        assert_eq!(wrong(LIST, &[cpu, wait]), 0);
        assert_eq!(wrong(&LIST.replace("    &cpu::Cpu,\n", ""), &[cpu, wait]), 1, "not in the list");
        assert_eq!(wrong(&LIST.replace("    &cpu::Cpu,\n", "    // &cpu::Cpu,\n"), &[cpu, wait]), 1, "commented out");
        assert_eq!(wrong(&LIST.replace("mod cpu;\n", ""), &[cpu, wait]), 1, "not a module");
        assert_eq!(wrong(LIST, &[cpu, ("c/wait_events.rs", "id: \"waits\"")]), 1, "another id");
        assert_eq!(wrong(LIST, &[cpu, wait, ("c/notes.txt", "")]), 1, "something else");
        assert_eq!(wrong(LIST, &[cpu]), 1, "too few");
        assert_eq!(wrong(LIST, &[cpu, ("c/wait_events/mod.rs", wait.1), ("c/wait_events/names.rs", "")]), 0);
        assert_eq!(check_one(&Repo::of(&[cpu]), "c", 1).len(), 1, "no list");
        let machines = [("m/a.toml", ""), ("m/b.toml", ""), ("list", "(\"a\", x)")];
        assert_eq!(check_files(&Repo::of(&machines), ("m", ".toml", "list", "(\"NAME\",")).len(), 1, "a file");
        let rows: String = (0..10).map(|n| format!("    A{n} \"tcp.a{}\" \"t\" Normal;\n", "b".repeat(n))).collect();
        let described = |n: usize| (0..n).map(|n| format!("`a{}`\n", "b".repeat(n))).collect::<String>();
        let of_packets = |rows: &str, docs: &str| {
            let repo = Repo::of(&[(OF_PACKETS[0].0, rows), (ABOUT_PACKETS, docs)]);
            check_packets(&repo, OF_PACKETS[0]).len()
        };
        assert_eq!(of_packets(&rows, &described(10)), 0);
        assert_eq!(
            (of_packets(&rows, &described(9)), of_packets("", "")),
            (1, 1),
            "one is not described, all are gone"
        );
        assert_eq!(wrong("mod cpu;\nmod wait_events;\nconst A: X = &[&cpu::C, &wait_events::W];", &[cpu, wait]), 0);
    }
}
