//! Where the programs of PostgreSQL are.

use super::child::{clean_command, last_lines};
use holdup_host::postgres::SettingContext;
use holdup_model::Problem;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A folder with the programs of one PostgreSQL version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The folder.
    pub bin: PathBuf,
    /// What `pgbench --version` says, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub pgbench_version: String,
    /// The major version of pgbench.
    pub pgbench_major: u32,
}

/// What is wanted from the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A server of our own: `postgres`, `initdb`, `pgbench`.
    Server,
    /// `pgbench` alone, for a server that exists already.
    Client,
}

impl Need {
    fn programs(self) -> &'static [&'static str] {
        match self {
            Need::Server => &["postgres", "initdb", "pgbench"],
            Need::Client => &["pgbench"],
        }
    }
}

/// Where to look: from the environment, or made up by a test.
#[derive(Debug, Clone)]
pub struct SearchPath {
    /// `--pg-bin`.
    pub given: Option<PathBuf>,
    /// The folders of PATH.
    pub path: Vec<PathBuf>,
    /// Where distributions keep one folder for each version: (`/usr/lib/postgresql`, "") holds
    /// `15/bin`, (`/usr`, "pgsql-") holds `pgsql-15/bin`.
    pub versioned: Vec<(PathBuf, &'static str)>,
}

impl SearchPath {
    /// Those of this host.
    pub fn of_this_host(given: Option<&Path>) -> Self {
        let path = std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default();
        let versioned = vec![("/usr/lib/postgresql".into(), ""), ("/usr".into(), "pgsql-")];
        SearchPath { given: given.map(Path::to_owned), path, versioned }
    }
}

impl Binaries {
    /// Looks for the programs, in this order: `--pg-bin`, `pg_config --bindir` on PATH, PATH itself,
    /// `/usr/lib/postgresql/*/bin` and `/usr/pgsql-*/bin` with the highest version first.
    ///
    /// # Errors
    /// When no place has them all; names every place that was looked at.
    pub fn find(paths: &SearchPath, need: Need) -> Result<Self, Problem> {
        let mut looked = Vec::new();
        if let Some(given) = &paths.given {
            return match missing(given, need) {
                None => Self::asked(given),
                Some(program) => Err(Problem::host(
                    format!("PostgreSQL in {}", given.display()),
                    format!("there is no program `{program}`"),
                )
                .hint("give with --pg-bin the folder that holds postgres, initdb and pgbench")),
            };
        }
        for (place, folder) in candidates(paths) {
            match missing(&folder, need) {
                None => return Self::asked(&folder),
                Some(program) => looked.push(format!("{place} has no {program}")),
            }
        }
        if paths.path.iter().all(|p| !p.join("pg_config").is_file()) {
            looked.insert(0, "no pg_config on PATH".to_owned());
        }
        for (folder, prefix) in &paths.versioned {
            if versions(folder, prefix).is_empty() {
                looked.push(format!("there is no {}", folder.join(format!("{prefix}*/bin")).display()));
            }
        }
        let path: Vec<String> = paths.path.iter().map(|p| p.display().to_string()).collect();
        looked.push(format!("PATH ({}) has no folder with {}", path.join(":"), need.programs().join(", ")));
        Err(Problem::host("PostgreSQL", format!("not found: {}", looked.join("; ")))
            .hint("install it (Debian: apt-get install postgresql) or give its folder with --pg-bin"))
    }

    fn asked(bin: &Path) -> Result<Self, Problem> {
        let program = bin.join("pgbench");
        let output = clean_command(&program)
            .arg("--version")
            .output()
            .map_err(|e| Problem::host(format!("program {}", program.display()), e.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.trim().strip_prefix("pgbench (PostgreSQL) ").unwrap_or("").to_owned();
        let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
        let Ok(pgbench_major) = digits.parse() else {
            let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
            return Err(Problem::host(
                format!("program {} --version", program.display()),
                format!("it says `{}`", last_lines(&said, 2)),
            ));
        };
        Ok(Binaries { bin: bin.to_owned(), pgbench_version: version, pgbench_major })
    }

    /// The settings that the server has, each with what a new value needs (`postgres --describe-config`).
    ///
    /// # Errors
    /// When the program does not run.
    pub fn settings(&self) -> Result<BTreeMap<String, SettingContext>, Problem> {
        let program = self.program("postgres");
        let failed = |why: String| Problem::host(format!("program {} --describe-config", program.display()), why);
        let output = clean_command(&program).arg("--describe-config").output().map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(last_lines(&String::from_utf8_lossy(&output.stderr), 2)));
        }
        let described = String::from_utf8_lossy(&output.stdout);
        let setting = |line: &str| {
            let mut columns = line.split('\t');
            Some((columns.next()?.to_owned(), SettingContext::from_word(columns.next()?)))
        };
        Ok(described.lines().filter_map(setting).collect())
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// Every folder worth a look, with what to call it, best first.
fn candidates(paths: &SearchPath) -> Vec<(String, PathBuf)> {
    let mut all = Vec::new();
    if let Some(folder) = paths.path.iter().find_map(|p| bindir(&p.join("pg_config"))) {
        all.push((format!("pg_config --bindir ({})", folder.display()), folder));
    }
    // On Debian /usr/bin/pgbench is a wrapper that picks a version by its own rules: a server is never
    // there, and for a client the real programs below come first.
    let (wrapped, real): (Vec<&PathBuf>, Vec<&PathBuf>) =
        paths.path.iter().filter(|p| p.join("pgbench").is_file()).partition(|p| is_wrapper(&p.join("pgbench")));
    let named = |p: &PathBuf| (p.display().to_string(), p.clone());
    all.extend(real.into_iter().map(named));
    for (folder, prefix) in &paths.versioned {
        all.extend(versions(folder, prefix).iter().map(named));
    }
    all.extend(wrapped.into_iter().map(named));
    all
}

fn is_wrapper(program: &Path) -> bool {
    std::fs::canonicalize(program).is_ok_and(|real| real.file_name() == Some(OsStr::new("pg_wrapper")))
}

fn missing(folder: &Path, need: Need) -> Option<&'static str> {
    need.programs().iter().copied().find(|program| !folder.join(program).is_file())
}

fn bindir(pg_config: &Path) -> Option<PathBuf> {
    if !pg_config.is_file() {
        return None;
    }
    let output = clean_command(pg_config).arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
}

/// `FOLDER/PREFIXn/bin` for every number n, the highest first.
fn versions(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u32, u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let mut numbers = name.to_str()?.strip_prefix(prefix)?.split('.').map(str::parse);
            let (major, minor) = (numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0));
            let bin = entry.path().join("bin");
            bin.is_dir().then_some((major, minor, bin))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, _, bin)| bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(path: &Path, script: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn whole(bin: &Path, version: &str) {
        for name in ["postgres", "initdb", "pgbench"] {
            program(&bin.join(name), &format!("echo '{name} (PostgreSQL) {version}'"));
        }
    }

    #[test]
    fn places_are_tried_in_order() {
        let top = tempfile::tempdir().unwrap();
        let at = |p: &str| top.path().join(p);
        let mut paths =
            SearchPath { given: None, path: vec![at("path")], versioned: vec![(at("lib"), ""), (at("usr"), "pgsql-")] };
        let nothing = Binaries::find(&paths, Need::Server).unwrap_err();
        for word in ["no pg_config on PATH", "lib/*/bin", "usr/pgsql-*/bin", "PATH (", "apt-get install postgresql"] {
            assert!(nothing.to_string().contains(word), "{word} in {nothing}");
        }
        let found = |paths: &SearchPath| Binaries::find(paths, Need::Server).unwrap();
        whole(&at("usr/pgsql-12/bin"), "12.1");
        assert_eq!(found(&paths).bin, at("usr/pgsql-12/bin"));
        whole(&at("lib/9.6/bin"), "9.6.1");
        whole(&at("lib/15/bin"), "15.18");
        assert_eq!((found(&paths).bin, found(&paths).pgbench_major), (at("lib/15/bin"), 15));
        program(&at("path/pgbench"), "echo");
        assert_eq!(found(&paths).bin, at("lib/15/bin"), "PATH has only a part of it");
        whole(&at("path"), "16.2 (Debian)");
        assert_eq!(found(&paths).pgbench_version, "16.2 (Debian)");
        program(&at("path/pg_config"), &format!("echo {}", at("lib/9.6/bin").display()));
        assert_eq!(found(&paths).bin, at("lib/9.6/bin"));
        paths.given = Some(at("usr/pgsql-12/bin"));
        assert_eq!(found(&paths).pgbench_major, 12);
        paths.given = Some(at("nowhere"));
        let refused = Binaries::find(&paths, Need::Server).unwrap_err();
        assert!(refused.to_string().contains("nowhere: there is no program `postgres`"), "{refused}");
    }

    #[test]
    fn a_program_that_says_no_version_is_quoted() {
        let top = tempfile::tempdir().unwrap();
        program(&top.path().join("pgbench"), "echo no such luck >&2");
        let paths = SearchPath { given: Some(top.path().to_owned()), path: vec![], versioned: vec![] };
        let refused = Binaries::find(&paths, Need::Client).unwrap_err();
        assert!(refused.why.contains("no such luck"), "{refused}");
    }
}
