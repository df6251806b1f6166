//! The numbers that have a budget, each counted with its worst places.

use super::circles::circles;
use super::source::{Comment, Source, TypeName};
use super::{BY_CRATE, Count};
use crate::Repo;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml_edit::{DocumentMut, Item};

/// Key of the bytes of the release.
pub(super) const RELEASE: &str = "release_bytes";

/// First words that docs/style.md forbids in a comment.
const FIRST_WORDS: [&str; 6] = ["What", "That", "Those", "Whether", "Its", "The same"];

/// Words that a public doc comment has at least.
const FEWEST_WORDS: usize = 6;

/// Files that may form a circle: a type, its parts and its tests.
const MOST_IN_CIRCLE: usize = 3;

/// Participles without a regular ending that were names of types here.
const IRREGULAR: [&str; 17] = [
    "Kept", "Held", "Made", "Found", "Left", "Lost", "Felt", "Sent", "Spent", "Built", "Caught", "Drawn", "Gone",
    "Known", "Meant", "Shown", "Thrown",
];

/// Nouns that end as participles do.
const NOUNS: [&str; 17] = [
    "Bed", "Embed", "Feed", "Need", "Seed", "Speed", "Screen", "Token", "Den", "Pen", "Ring", "String", "Sibling",
    "Spring", "Thing", "King", "Wing",
];

/// A source of a crate.
struct CrateFile<'a> {
    name: &'a str,
    /// Path relative to `src`.
    inner: &'a str,
    path: String,
    lines: u64,
    source: Source,
}

/// All counts but that of the release.
pub(super) fn all(repo: &Repo, tracked: &[String]) -> Result<Vec<Count>> {
    let files = sources(repo);
    let mut counts = lines(&files);
    counts.extend([largest_file(&files), largest_function(&files)]);
    counts.extend(names(&files, &glossary(repo.text("GLOSSARY.md").unwrap_or_default())));
    counts.extend([first_words(repo), short_docs(&files), module_circles(&files)]);
    counts.extend([test_executables(repo)?, dependencies(repo)?, packages(repo), tracked_files(tracked)]);
    Ok(counts)
}

pub(super) fn release(path: &Path, bytes: u64) -> Count {
    let hint = "`cargo tree` and `nm --size-sort` name what came in";
    Count { hint, ..count(RELEASE, bytes, vec![path.display().to_string()]) }
}

fn count(key: &str, number: u64, places: Vec<String>) -> Count {
    Count { key: key.to_owned(), number, places, ..Count::default() }
}

/// A count that is the number of its places.
fn listed(key: &str, places: Vec<String>, hint: &'static str) -> Count {
    Count { hint, ..count(key, places.len() as u64, places) }
}

fn sources(repo: &Repo) -> Vec<CrateFile<'_>> {
    let parts = repo.under("crates").filter(|(path, _)| path.ends_with(".rs"));
    parts
        .filter_map(|(path, text)| {
            let (name, inner) = path.split_once("/src/")?;
            if name.contains('/') {
                return None;
            }
            let lines = text.lines().count() as u64;
            Some(CrateFile { name, inner, path: format!("crates/{path}"), lines, source: Source::of(text) })
        })
        .collect()
}

/// Places in the order of their weight, the heaviest first.
fn heaviest(mut places: Vec<(u64, String)>) -> Vec<String> {
    places.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    places.into_iter().map(|(_, place)| place).collect()
}

fn lines(files: &[CrateFile]) -> Vec<Count> {
    let mut crates: BTreeMap<&str, Vec<(u64, String)>> = BTreeMap::new();
    for file in files {
        crates.entry(file.name).or_default().push((file.lines, format!("{}: {} lines", file.path, file.lines)));
    }
    let sum = |files: &[(u64, String)]| files.iter().map(|(lines, _)| lines).sum::<u64>();
    let totals = crates.iter().map(|(name, files)| (sum(files), format!("crates/{name}: {} lines", sum(files))));
    let totals = heaviest(totals.collect());
    let names = crates.keys().map(|name| format!("crates/{name}")).collect();
    let hint = "delete what a library or another file already does";
    let mut counts = vec![
        Count { hint, ..count("lines", crates.values().map(|files| sum(files)).sum(), totals) },
        listed("crates", names, "a module of a crate of the same layer does as well"),
    ];
    for (name, files) in crates {
        counts.push(Count { table: BY_CRATE, hint, ..count(name, sum(&files), heaviest(files)) });
    }
    counts
}

fn largest_file(files: &[CrateFile]) -> Count {
    let places = files.iter().map(|file| (file.lines, format!("{}: {} lines", file.path, file.lines))).collect();
    let most = files.iter().map(|file| file.lines).max().unwrap_or_default();
    Count { hint: "split it by what changes together", ..count("largest_file_lines", most, heaviest(places)) }
}

fn largest_function(files: &[CrateFile]) -> Count {
    let mut places = Vec::new();
    for file in files {
        for function in file.source.functions() {
            let lines = function.lines as u64;
            places.push((lines, format!("{}:{} {}: {lines} lines", file.path, function.line, function.name)));
        }
    }
    let most = places.iter().map(|(lines, _)| *lines).max().unwrap_or_default();
    let hint = "give a part that has a name a function, or make it a table";
    Count { hint, ..count("largest_function_lines", most, heaviest(places)) }
}

/// Counts of the names of types: shared ones, participles, and single words that are not in the glossary.
fn names(files: &[CrateFile], glossary: &BTreeSet<String>) -> [Count; 3] {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut participles, mut single) = (Vec::new(), Vec::new());
    for file in files {
        for TypeName { line, is_public, name } in file.source.types() {
            let place = format!("{}:{line} {name}", file.path);
            let words = words(&name);
            let is_known = glossary.contains(&name.to_lowercase());
            if is_public && !is_known && words.last().is_some_and(|last| is_participle(last)) {
                participles.push(place.clone());
            }
            if words.len() == 1 && !is_known {
                single.push(place.clone());
            }
            by_name.entry(name).or_default().push(place);
        }
    }
    let shared = by_name.into_values().filter(|places| places.len() > 1);
    let shared = shared.map(|places| (places.len() as u64, format!("{} ({} types)", places[0], places.len())));
    let shared = heaviest(shared.collect());
    [
        listed("type_names_that_occur_twice", shared, "name each type by the thing that it alone is"),
        listed("participle_types", participles, "a type is a noun: say what was seen or kept (docs/style.md)"),
        listed("one_word_types", single, "say whose or which, or add a term of the field to GLOSSARY.md"),
    ]
}

/// Words of a name in CamelCase; capitals in a row are one word.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        match words.last_mut() {
            Some(word) if !c.is_uppercase() || before.is_uppercase() => word.push(c),
            _ => words.push(c.to_string()),
        }
        before = c;
    }
    words
}

fn is_participle(word: &str) -> bool {
    let is_regular = ["ed", "en", "ing"].iter().any(|end| word.ends_with(end)) && word.len() > 3;
    (is_regular || IRREGULAR.contains(&word)) && !NOUNS.contains(&word)
}

/// Terms of the glossary in lower case without spaces: the bold ones of its table, and the words of the field, which
/// stand in backticks.
fn glossary(text: &str) -> BTreeSet<String> {
    let plain = |term: &str| term.replace([' ', '-'], "").to_lowercase();
    let bold = text.lines().filter(|line| line.starts_with('|'));
    let bold = bold.filter_map(|line| line.split('|').nth(1)).flat_map(|cell| cell.split("**").skip(1).step_by(2));
    let field = text.lines().filter(|line| !line.starts_with('|')).flat_map(|line| line.split('`').skip(1).step_by(2));
    bold.chain(field).map(plain).collect()
}

/// Comments of all files of Rust that begin with a word that stands for nothing.
fn first_words(repo: &Repo) -> Count {
    let mut places = Vec::new();
    for (path, text) in repo.texts().filter(|(path, _)| path.ends_with(".rs")) {
        for Comment { line, text, .. } in Source::of(text).comments {
            let is_first =
                |word: &&&str| text.strip_prefix(**word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
            if let Some(word) = FIRST_WORDS.iter().find(is_first) {
                places.push(format!("{path}:{line} {word}"));
            }
        }
    }
    listed("comments_without_a_subject", places, "begin with the thing: a noun, or a verb (docs/style.md)")
}

/// Public doc comments with fewer words than say anything beside the name.
fn short_docs(files: &[CrateFile]) -> Count {
    let mut places = Vec::new();
    for file in files {
        let public = file.source.public_lines();
        for comment in file.source.comments.iter().filter(|comment| comment.kind == "///") {
            let first = item_below(&file.source.code, comment.below - 1);
            if first.is_some_and(|line| public[line]) && comment.text.split_whitespace().count() < FEWEST_WORDS {
                places.push(format!("{}:{} {}", file.path, comment.line, comment.text));
            }
        }
    }
    listed("short_doc_comments", places, "say a unit, an error, a source or a reason, or delete it")
}

/// Index of the first line from this one on that is no attribute and not blank.
fn item_below(code: &[String], from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (number, line) in code.iter().enumerate().skip(from) {
        let line = line.trim();
        if depth == 0 && !line.is_empty() && !line.starts_with("#[") {
            return Some(number);
        }
        depth += line.chars().map(|c| i32::from(c == '[') - i32::from(c == ']')).sum::<i32>();
    }
    None
}

fn module_circles(files: &[CrateFile]) -> Count {
    let mut crates: BTreeMap<&str, Vec<(&str, &Source)>> = BTreeMap::new();
    for file in files {
        crates.entry(file.name).or_default().push((file.inner, &file.source));
    }
    let mut places = Vec::new();
    for (name, files) in crates {
        for circle in circles(&files).into_iter().filter(|circle| circle.len() > MOST_IN_CIRCLE) {
            let place = format!("crates/{name}/src: {} files: {}", circle.len(), circle.join(", "));
            places.push((circle.len() as u64, place));
        }
    }
    let hint = "move what all of them use into a file that uses none of them";
    listed("module_circles", heaviest(places), hint)
}

/// Executables that `cargo test` builds: one of the library, of each program, and of each test.
fn test_executables(repo: &Repo) -> Result<Count> {
    let mut places = Vec::new();
    for (path, text) in repo.texts().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let Some(folder) = path.strip_suffix("Cargo.toml").filter(|folder| is_member(folder)) else { continue };
        let manifest: DocumentMut = text.parse().with_context(|| path.to_owned())?;
        let has = |file: &str| repo.files.contains_key(&format!("{folder}{file}"));
        let is_tested = |target: &Item| target.get("test").and_then(Item::as_bool).unwrap_or(true);
        if has("src/lib.rs") && manifest.get("lib").is_none_or(is_tested) {
            places.push(format!("{folder}src/lib.rs"));
        }
        for (kind, main, auto, also) in
            [("bin", "src/bin", "autobins", "src/main.rs"), ("test", "tests", "autotests", "")]
        {
            let mut targets = BTreeMap::new();
            let is_automatic = manifest["package"].get(auto).and_then(Item::as_bool).unwrap_or(true);
            if is_automatic {
                let found =
                    repo.under(folder.trim_end_matches('/')).filter_map(|(file, _)| automatic(file, main, also));
                targets.extend(found.map(|name| (name.to_owned(), true)));
            }
            for target in manifest.get(kind).and_then(Item::as_array_of_tables).into_iter().flatten() {
                let name = target.get("name").and_then(Item::as_str).unwrap_or_default().to_owned();
                if target.get("path").and_then(Item::as_str) == Some(also) {
                    targets.remove("main");
                }
                targets.insert(name, target.get("test").and_then(Item::as_bool).unwrap_or(true));
            }
            places.extend(targets.into_iter().filter(|(_, on)| *on).map(|(name, _)| format!("{folder}{main}: {name}")));
        }
    }
    Ok(listed("test_executables", places, "make the file a module of tests/it.rs, which is one executable"))
}

/// True if a folder is a member of the workspace.
fn is_member(folder: &str) -> bool {
    folder == "fuzz/" || folder.strip_prefix("crates/").is_some_and(|name| name.matches('/').count() == 1)
}

/// Name of the target that cargo makes of a file: `FOLDER/NAME.rs`, `FOLDER/NAME/main.rs`, or `also`.
fn automatic<'a>(file: &'a str, folder: &str, also: &str) -> Option<&'a str> {
    if file == also {
        return Some("main");
    }
    let name = file.strip_prefix(folder)?.strip_prefix('/')?;
    name.strip_suffix("/main.rs").or_else(|| name.strip_suffix(".rs")).filter(|name| !name.contains('/'))
}

fn dependencies(repo: &Repo) -> Result<Count> {
    let manifest: DocumentMut = repo.text("Cargo.toml").unwrap_or_default().parse().context("Cargo.toml")?;
    let table = manifest.get("workspace").and_then(|item| item.get("dependencies")).and_then(Item::as_table_like);
    let others = table.into_iter().flat_map(|table| table.iter()).filter(|(_, item)| item.get("path").is_none());
    let places = others.map(|(name, _)| format!("Cargo.toml: {name}")).collect();
    Ok(listed("direct_dependencies", places, "drop one that is called once, or use what another one brings along"))
}

fn packages(repo: &Repo) -> Count {
    let lock = repo.text("Cargo.lock").unwrap_or_default();
    let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
    for name in lock.lines().filter_map(|line| line.strip_prefix("name = ")) {
        *versions.entry(name.trim_matches('"')).or_default() += 1;
    }
    let number = versions.values().sum();
    let twice = versions.into_iter().filter(|(_, n)| *n > 1);
    let twice = heaviest(twice.map(|(name, n)| (n, format!("Cargo.lock: {n} versions of {name}"))).collect());
    let hint = "`cargo tree --duplicates` and `cargo tree --invert NAME` say who wants it; switch features off";
    Count { hint, ..count("packages_in_lock_file", number, twice) }
}

fn tracked_files(tracked: &[String]) -> Count {
    let mut folders: BTreeMap<&str, u64> = BTreeMap::new();
    for path in tracked {
        *folders.entry(path.rsplit_once('/').map_or(".", |(folder, _)| folder)).or_default() += 1;
    }
    let places = heaviest(folders.into_iter().map(|(folder, n)| (n, format!("{folder}: {n} files"))).collect());
    Count { hint: "put samples of one kind into one file", ..count("tracked_files", tracked.len() as u64, places) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a key and its worst place, in a repository of these files.
    fn counted(key: &str, files: &[(&str, &str)]) -> (u64, String) {
        let tracked: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let counts = all(&Repo::of(files), &tracked).unwrap();
        let count = counts.into_iter().find(|count| count.key == key).unwrap();
        (count.number, count.places.into_iter().next().unwrap_or_default())
    }

    fn in_a(key: &str, text: &str) -> (u64, String) {
        counted(key, &[("crates/a/src/lib.rs", text)])
    }

    #[test]
    fn lines_crates_and_files() {
        let files =
            [("crates/a/src/lib.rs", "x\ny\n"), ("crates/b/src/c/d.rs", "x\ny\nz"), ("crates/b/tests/e.rs", "x\n")];
        assert_eq!(counted("lines", &files), (5, "crates/b: 3 lines".to_owned()));
        assert_eq!(counted("b", &files), (3, "crates/b/src/c/d.rs: 3 lines".to_owned()));
        assert_eq!(counted("crates", &files).0, 2);
        assert_eq!(counted("largest_file_lines", &files), (3, "crates/b/src/c/d.rs: 3 lines".to_owned()));
        assert_eq!(counted("tracked_files", &files).0, 3);
    }

    #[test]
    fn the_largest_function() {
        let text = "fn a() {}\nfn b() {\n    c();\n}\n";
        assert_eq!(in_a("largest_function_lines", text), (3, "crates/a/src/lib.rs:2 b: 3 lines".to_owned()));
    }

    #[test]
    fn names_of_types() {
        let text = "pub struct Seen;\npub struct PlanKept;\nstruct Left;\npub struct RingSpeed;\nmod a {\n    enum Seen {}\n}\npub struct Plan;\n";
        assert_eq!(in_a("type_names_that_occur_twice", text), (1, "crates/a/src/lib.rs:1 Seen (2 types)".to_owned()));
        assert_eq!(in_a("participle_types", text), (2, "crates/a/src/lib.rs:1 Seen".to_owned()));
        let glossary = ("GLOSSARY.md", "| term | x |\n| **plan**, **A/A pair** | a `Left` |\n\n`Seen`\n");
        let files = [("crates/a/src/lib.rs", text), glossary];
        assert_eq!(counted("one_word_types", &files), (1, "crates/a/src/lib.rs:3 Left".to_owned()));
        assert_eq!(words("TCPStream2Id"), ["TCPStream2", "Id"]);
    }

    #[test]
    fn first_words_of_comments() {
        let text =
            "//! What it is.\n/// Thatch.\n// The same\n// as a.\nlet x = \"\n// That\n\"; // Its\n    /// Its a.\n";
        assert_eq!(in_a("comments_without_a_subject", text), (3, "crates/a/src/lib.rs:1 What".to_owned()));
    }

    #[test]
    fn short_comments_of_public_items() {
        let text = "/// A name.\n#[derive(\n    X\n)]\npub enum A {\n    /// B.\n    B,\n}\n/// Short.\nfn c() {}\n/// Takes the name\n/// as it is given.\npub fn d() {}\n";
        assert_eq!(in_a("short_doc_comments", text), (2, "crates/a/src/lib.rs:1 A name.".to_owned()));
    }

    #[test]
    fn circles_over_three_files() {
        let files = [
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "use crate::c::C;"),
            ("crates/x/src/c.rs", "use super::d::D;"),
            ("crates/x/src/d.rs", "use crate::a::A;"),
        ];
        assert_eq!(counted("module_circles", &files), (1, "crates/x/src: 4 files: a.rs, b.rs, c.rs, d.rs".to_owned()));
        assert_eq!(counted("module_circles", &files[..3]).0, 0);
    }

    #[test]
    fn executables_of_tests() {
        let member = |manifest: &'static str| [("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", "")];
        let tests = [("crates/a/tests/b.rs", ""), ("crates/a/tests/c/main.rs", ""), ("crates/a/tests/c/d.rs", "")];
        let number = |manifest| counted("test_executables", &[member(manifest).as_slice(), &tests].concat()).0;
        assert_eq!(number("[package]\n"), 3);
        assert_eq!(number("[package]\nautotests = false\n[[test]]\nname = \"b\"\n"), 2);
        assert_eq!(number("[package]\n[lib]\ntest = false\n[[test]]\nname = \"b\"\n"), 2);
        let program = [("fuzz/Cargo.toml", "[package]\n[[bin]]\nname = \"x\"\ntest = false\n[[bin]]\nname = \"y\"\n")];
        assert_eq!(counted("test_executables", &program), (1, "fuzz/src/bin: y".to_owned()));
        let main =
            [("crates/a/Cargo.toml", "[package]\n"), ("crates/a/src/main.rs", ""), ("crates/a/src/bin/b.rs", "")];
        assert_eq!(counted("test_executables", &main).0, 2);
    }

    #[test]
    fn dependencies_and_packages() {
        let manifest = "[workspace.dependencies]\na = { path = \"a\" }\nb = \"1\"\nc = { version = \"1\" }\n";
        let lock = "[[package]]\nname = \"b\"\n[[package]]\nname = \"c\"\n[[package]]\nname = \"b\"\n";
        let files = [("Cargo.toml", manifest), ("Cargo.lock", lock)];
        assert_eq!(counted("direct_dependencies", &files), (2, "Cargo.toml: b".to_owned()));
        assert_eq!(counted("packages_in_lock_file", &files), (3, "Cargo.lock: 2 versions of b".to_owned()));
    }
}
