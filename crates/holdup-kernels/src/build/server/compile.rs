//! configure, make, make check and make install.

use super::Work;
use crate::build::key::hash;
use crate::build::tools::{has_header, has_library};
use holdup_model::{Event, Observer, Problem};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's server has its programs, without its `bin`.
const PREFIX: &str = "/usr/lib/postgresql";

/// As `pg_config --configure` of Debian's packages 15 to 18 says, without `-g`: it does not change the code, and what it writes
/// would be stripped.
const CFLAGS: &str = "-O2 -fstack-protector-strong -Wformat -Werror=format-security -fno-omit-frame-pointer";
const CPPFLAGS: &str = "-Wdate-time -D_FORTIFY_SOURCE=2";
const LDFLAGS: &str = "-Wl,-z,relro -Wl,-z,now";

/// What a trial needs: the server with what initdb installs, the client side, and extensions that measure or warm.
const FOLDERS: &[&str] = &[
    "src/backend",
    // With the file that initdb makes the catalogs from.
    "src/include",
    "src/backend/snowball",
    "src/backend/utils/mb/conversion_procs",
    "src/backend/replication/libpqwalreceiver",
    "src/backend/replication/pgoutput",
    "src/timezone",
    "src/pl/plpgsql/src",
    "src/interfaces/libpq",
    "src/bin/initdb",
    "src/bin/pg_ctl",
    "src/bin/pg_controldata",
    "src/bin/pgbench",
    "src/bin/psql",
    "contrib/pg_prewarm",
    "contrib/pg_buffercache",
    "contrib/pg_stat_statements",
];

/// What initdb and a trial cannot do without.
const NEEDED: &[&str] =
    &["bin/postgres", "bin/initdb", "bin/pgbench", "lib/plpgsql.so", "share/postgres.bki", "share/timezonesets"];

/// Suites of tests, each a folder with the target `check`.
const SUITES: &[&str] = &["src/test/regress", "src/test/isolation"];

/// The options of configure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flags {
    major: u32,
    /// Those that stand for libraries of this host.
    with: Vec<&'static str>,
    without: Vec<&'static str>,
}

impl Flags {
    /// Debian's, as far as the libraries are here; what only clients, languages, authentication and collations need is left out.
    pub(super) fn here(major: u32) -> Flags {
        let libraries = [
            ("--with-ssl=openssl", 14, has_library("openssl")),
            ("--with-lz4", 14, has_library("liblz4")),
            ("--with-zstd", 15, has_library("libzstd")),
            ("--with-libnuma", 18, has_library("numa")),
            ("--with-liburing", 18, has_library("liburing")),
        ];
        let known = libraries.into_iter().filter(|(_, first, _)| major >= *first);
        let (with, without): (Vec<_>, Vec<_>) = known.partition(|(_, _, is_here)| *is_here);
        let options = |all: Vec<(&'static str, u32, bool)>| all.into_iter().map(|(option, ..)| option).collect();
        let mut flags = Flags { major, with: options(with), without: options(without) };
        if !has_header("zlib.h") {
            flags.with.push("--without-zlib");
        }
        flags
    }

    fn arguments(&self, version: &str) -> Vec<String> {
        let mut all = vec![
            format!("--prefix={PREFIX}/{}", self.major),
            format!("--with-extra-version= (holdup, Debian {version})"),
            format!("CFLAGS={CFLAGS}"),
            format!("CPPFLAGS={CPPFLAGS}"),
            format!("LDFLAGS={LDFLAGS}"),
        ];
        let fixed = ["--enable-depend", "--disable-rpath", "--without-readline", "--without-icu"];
        all.extend(fixed.iter().chain(&self.with).map(|option| (*option).to_owned()));
        all
    }

    pub(super) fn key(&self) -> String {
        format!("{:?} {FOLDERS:?}", self.arguments(""))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = format!("CFLAGS {CFLAGS}");
        for (word, options) in [("", &self.with), ("without ", &self.without)] {
            for option in options {
                text.push_str(&format!(", {word}{}", option.trim_start_matches("--with-")));
            }
        }
        text
    }
}

impl Work<'_> {
    fn objects(&self) -> PathBuf {
        self.held.path.join("objects")
    }

    fn failed(&self, e: &io::Error) -> Problem {
        Problem::host(format!("objects {}", self.objects().display()), e.to_string())
    }

    /// Compiles; configure runs again where it or its options changed.
    pub(super) fn compile(&self, tree: &Path, observer: &mut dyn Observer) -> Result<(), Problem> {
        let objects = self.objects();
        let arguments = self.flags.arguments(&self.package.version);
        let configure = std::fs::read(tree.join("configure")).map_err(|e| self.failed(&e))?;
        let wanted = hash(&[&arguments.join("\n"), &String::from_utf8_lossy(&configure)]);
        let stamp = objects.join("configured");
        // Left by a make that was killed: the file that it wrote may be a part of one, and newer than its source.
        let unfinished = objects.join("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&objects).map_err(|e| self.failed(&e))?;
        }
        if std::fs::read_to_string(&stamp).ok().as_deref() != Some(wanted.as_str()) {
            if objects.exists() {
                std::fs::remove_dir_all(&objects).map_err(|e| self.failed(&e))?;
            }
            std::fs::create_dir_all(&objects).map_err(|e| self.failed(&e))?;
            let mut command = Command::new(tree.join("configure"));
            for name in ["CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LIBS"] {
                command.env_remove(name);
            }
            command.args(&arguments).current_dir(&objects).env("LC_ALL", "C");
            self.run(&self.title("configuring"), command, observer)?;
            std::fs::write(&stamp, wanted).map_err(|e| self.failed(&e))?;
        }
        std::fs::write(&unfinished, "").map_err(|e| self.failed(&e))?;
        observer.event(Event::Step(&self.title("building")));
        // Headers that files in several folders include; without them a parallel make of one folder fails at times.
        let headers = self.make_target(&objects.join("src/backend"), "generated-headers", observer);
        let made = headers.and_then(|()| {
            FOLDERS.iter().try_for_each(|folder| self.make_target(&objects.join(folder), "all", observer))
        });
        std::fs::remove_file(&unfinished).map_err(|e| self.failed(&e))?;
        made
    }

    fn make_target(&self, folder: &Path, target: &str, observer: &mut dyn Observer) -> Result<(), Problem> {
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut command = self.make(folder);
        command.arg(format!("-j{jobs}")).arg(target);
        self.silently(&self.title("building"), command, observer)
    }

    /// Runs PostgreSQL's own tests of the server.
    pub(super) fn check(&self, observer: &mut dyn Observer) -> Result<(), Problem> {
        for suite in SUITES {
            let make = self.make(&self.objects().join(suite));
            // initdb refuses root: in a user namespace root is another user, who has the same files.
            let as_user: &[&str] = match rustix::process::geteuid().is_root() {
                true => &["unshare", "--map-user=1000", "--map-group=1000"],
                false => &["env"],
            };
            let mut command = Command::new(as_user[0]);
            command.args(&as_user[1..]).arg(make.get_program()).args(make.get_args()).arg("check").arg("NO_LOCALE=1");
            for (name, value) in make.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            let of = suite.rsplit('/').next().unwrap_or(suite);
            self.run(&format!("{}: tests of {of}", self.title("testing")), command, observer)
                .map_err(|problem| problem.hint(format!("its differences: {}", self.differences(suite).display())))?;
        }
        Ok(())
    }

    fn differences(&self, suite: &str) -> PathBuf {
        let folder = self.objects().join(suite);
        let places = ["regression.diffs", "output_iso/regression.diffs"].map(|name| folder.join(name));
        places.into_iter().find(|path| path.is_file()).unwrap_or_else(|| self.held.log())
    }

    /// Installs into the build's folder, with symbols and without line numbers.
    pub(super) fn install(&self, observer: &mut dyn Observer) -> Result<PathBuf, Problem> {
        let staged = self.held.path.join("staged");
        if staged.exists() {
            std::fs::remove_dir_all(&staged).map_err(|e| self.failed(&e))?;
        }
        let what = self.title("installing");
        observer.event(Event::Step(&what));
        for folder in FOLDERS {
            let mut command = self.make(&self.objects().join(folder));
            command.arg("-s").arg("install").arg(format!("DESTDIR={}", staged.display()));
            self.silently(&what, command, observer)?;
        }
        let installed = staged.join(PREFIX.trim_start_matches('/')).join(self.flags.major.to_string());
        // Headers and build files are for extensions.
        for unneeded in ["include", "lib/pgxs", "lib/pkgconfig"] {
            let _was_absent = std::fs::remove_dir_all(installed.join(unneeded));
        }
        let mut command = Command::new("find");
        command.arg(installed.join("bin")).arg(installed.join("lib")).args(["-type", "f", "-exec"]);
        // Static libraries are not executed and may keep what they have.
        command.args(["sh", "-c", "case $1 in *.a) rm \"$1\";; *) strip --strip-debug \"$1\";; esac", "sh", "{}", ";"]);
        self.silently(&what, command, observer)?;
        match NEEDED.iter().find(|path| !installed.join(path).exists()) {
            Some(path) => Err(Problem::host(what, format!("make installed no {path}"))
                .hint(format!("the whole log: {}", self.held.log().display()))),
            None => Ok(installed),
        }
    }
}
