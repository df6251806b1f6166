//! Whether the built web bundle belongs to its sources. The recipe is in docs/web.md.

use crate::Repo;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The built bundle; its first line names the sources that it was built from.
pub const BUILT: &str = "crates/holdup-report/assets/report.js";

/// The first line of the built bundle for sources with this hash.
pub fn head(hash: &str) -> String {
    format!("/* holdup-web-sources: {hash} */")
}

fn is_source(path: &str) -> bool {
    path.starts_with("src/") || ["package.json", "package-lock.json", "build.mjs"].contains(&path)
}

/// SHA-256 over the sources, hexadecimal: for each file, in the byte order of its path relative to `web/`, the path,
/// NUL, the length in decimal, NUL, the content. `None` when there is no source.
pub fn hash(repo: &Repo) -> Option<String> {
    let mut sha = Sha256::new();
    let mut sources = 0;
    for (path, bytes) in repo.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("web/")?, bytes))) {
        if is_source(path) {
            sources += usize::from(path.starts_with("src/"));
            sha.update(path.as_bytes());
            sha.update([0]);
            sha.update(bytes.len().to_string().as_bytes());
            sha.update([0]);
            sha.update(bytes);
        }
    }
    let hex = sha.finalize().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing into a string cannot fail");
        hex
    });
    (sources > 0).then_some(hex)
}

/// What is wrong with the built bundle.
pub fn check(repo: &Repo) -> Vec<String> {
    let Some(hash) = hash(repo) else { return vec!["web/src: there are no sources".to_owned()] };
    let Some(built) = repo.text(BUILT) else {
        return vec![format!("{BUILT} is missing: (cd web && npm ci && node build.mjs)")];
    };
    let first = built.lines().next().unwrap_or_default();
    if first == head(&hash) {
        Vec::new()
    } else {
        let found: String = first.chars().take(120).collect();
        vec![format!(
            "{BUILT} is stale: its first line is `{found}`, for the present sources it is `{}`: \
             (cd web && npm ci && node build.mjs)",
            head(&hash)
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_is_fixed() {
        let repo = Repo::of(&[
            ("web/src/main.ts", "let a = 1;\n"),
            ("web/package.json", "{}"),
            ("web/README.md", "not a source"),
            ("web/src/a/b.css", ""),
        ]);
        // printf 'package.json\0002\000{}src/a/b.css\0000\000src/main.ts\00011\000let a = 1;\n' | sha256sum
        let expected = "635e1cf3a0cb9dfe9475c262e5f8be33d44c54091e1305070b94521daa7c5422";
        assert_eq!(hash(&repo).as_deref(), Some(expected));
    }

    #[test]
    fn a_stale_bundle_is_found() {
        let with = |source: &str, first: &str| {
            let built = format!("{first}\n(() => {{}})();\n");
            check(&Repo::of(&[("web/src/main.ts", source), (BUILT, &built)])).len()
        };
        let hash = hash(&Repo::of(&[("web/src/main.ts", "a")])).expect("there is a source");
        assert_eq!(with("a", &head(&hash)), 0);
        assert_eq!(with("b", &head(&hash)), 1);
        assert_eq!(with("a", ""), 1);
        assert_eq!(check(&Repo::of(&[("web/src/main.ts", "a")])).len(), 1, "not built");
        assert_eq!(check(&Repo::of(&[(BUILT, &head(&hash))])).len(), 1, "no sources");
    }
}
