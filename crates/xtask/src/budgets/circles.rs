//! Circles of modules: files of a crate that import each other, by `use crate::…` and `use super::…`.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A path of a module or of something in it, from the root of its crate.
type ModulePath = Vec<String>;

/// Imports of a file: the name that is imported, and its path.
type Imports = Vec<(String, ModulePath)>;

/// Files of a crate, by path relative to `src`, that form circles: each list is one circle.
pub(super) fn circles(files: &[(&str, &Source)]) -> Vec<Vec<String>> {
    let modules: BTreeMap<ModulePath, &str> =
        files.iter().rev().filter_map(|(path, _)| Some((module(path)?, *path))).collect();
    let imports: BTreeMap<&ModulePath, Imports> = modules
        .iter()
        .filter_map(|(module, path)| {
            let (_, source) = files.iter().find(|(other, _)| other == path)?;
            Some((module, imports(module, source, &modules)))
        })
        .collect();
    let targets: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = imports
        .iter()
        .map(|(module, list)| {
            let to = list.iter().filter(|(name, _)| !name.starts_with(BELOW));
            let to = to.map(|(_, path)| defined_in(path, &modules, &imports, 0));
            (*module, to.filter(|to| to != *module).collect())
        })
        .collect();
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        targets.keys().map(|from| (*from, reachable(from, &targets))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, to) in &reach {
        let circle: Vec<String> = to
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(*from)))
            .filter_map(|other| modules.get(*other).map(|path| (*path).to_owned()))
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Begin of the name of an import from a module below: a list of what the module has, which is no circle.
const BELOW: char = '~';

/// Path of the module that a file is; `lib.rs` stands before `main.rs`, and files in `bin` are crates by themselves.
fn module(path: &str) -> Option<ModulePath> {
    let mut parts: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if parts[0] == "bin" {
        return None;
    }
    if ["mod", "lib", "main"].contains(&parts.last()?.as_str()) {
        parts.pop();
    }
    Some(parts)
}

fn imports(module: &ModulePath, source: &Source, modules: &BTreeMap<ModulePath, &str>) -> Imports {
    let mut paths = Vec::new();
    let code = source.code.join("\n");
    let mut rest = code.as_str();
    while let Some(at) = rest.find("use ") {
        let begins = rest[..at].chars().next_back().is_none_or(char::is_whitespace);
        rest = &rest[at + 4..];
        let Some(end) = rest.find(';').filter(|_| begins) else { continue };
        leaves(&[], &rest[..end], &mut paths);
    }
    let resolved = paths.into_iter().filter_map(|(name, path)| {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((name, rest.to_vec())),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let base = module.len().checked_sub(ups)?;
                Some((name, [&module[..base], &path[ups..]].concat()))
            }
            "self" => Some((format!("{BELOW}{name}"), [module, rest].concat())),
            _ => {
                let child = [module.as_slice(), std::slice::from_ref(first)].concat();
                modules.contains_key(&child).then(|| (format!("{BELOW}{name}"), [module.as_slice(), &path].concat()))
            }
        }
    });
    resolved.collect()
}

/// Paths of a tree of imports such as `a::{b, c::{self, d as e}}`, each with the name that it gets.
fn leaves(prefix: &[String], tree: &str, out: &mut Vec<(String, Vec<String>)>) {
    let tree = tree.trim();
    if let Some((head, list)) = tree.split_once('{') {
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        let head = head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
        let prefix: Vec<String> = prefix.iter().cloned().chain(head).collect();
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves(&prefix, &list[begin..at], out);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        leaves(&prefix, &list[begin..], out);
    } else if !tree.is_empty() {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let mut path: Vec<String> =
            prefix.iter().cloned().chain(path.split("::").map(|part| part.trim().to_owned())).collect();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
        out.push((name, path));
    }
}

/// Module in which a path ends, through re-exports.
fn defined_in(
    path: &ModulePath,
    modules: &BTreeMap<ModulePath, &str>,
    imports: &BTreeMap<&ModulePath, Imports>,
    depth: usize,
) -> ModulePath {
    let length = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n])).unwrap_or(0);
    let module = path[..length].to_vec();
    let name = path.get(length);
    let exported = imports.get(&module).and_then(|list| {
        list.iter().find(|(other, _)| Some(other.trim_start_matches(BELOW)) == name.map(String::as_str))
    });
    match exported {
        Some((_, to)) if depth < 8 && to != path => defined_in(to, modules, imports, depth + 1),
        _ => module,
    }
}

fn reachable<'a>(
    from: &'a ModulePath,
    targets: &'a BTreeMap<&'a ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in targets.get(module).into_iter().flatten() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<Source> = files.iter().map(|(_, text)| Source::of(text)).collect();
        circles(&files.iter().zip(&sources).map(|((path, _), source)| (*path, source)).collect::<Vec<_>>())
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "use crate::{b::B, c::{self, C as D}};\n"),
            ("a/d.rs", "use super::A;\n"),
            ("b.rs", "use crate::a::d::X;\n"),
            ("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(circles_of(&files), [["a/mod.rs", "a/d.rs", "b.rs"]]);
        assert_eq!(circles_of(&files[..3]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_has_the_type() {
        let lib = ("lib.rs", "mod a;\nmod b;\npub use a::A;\n");
        assert_eq!(circles_of(&[lib, ("a.rs", "use super::b::B;"), ("b.rs", "use crate::A;")]), [["a.rs", "b.rs"]]);
        assert_eq!(circles_of(&[lib, ("a.rs", ""), ("b.rs", "use crate::A;")]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_list_of_the_modules_below_is_no_circle() {
        let files = [("a/mod.rs", "mod b;\nuse b::B;\npub use self::b::C;\n"), ("a/b.rs", "use super::A;\n")];
        assert_eq!(circles_of(&files), Vec::<Vec<String>>::new());
    }
}
