//! apt with its own configuration and state. The system's are not changed, and used only to find and reach the archive.

mod solve;

pub(crate) use solve::{Request, Solved};

use crate::files::{human_size, now_unix_ns, problem};
use crate::{Options, debian};
use holdup_model::{Event, Observer, Problem};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The suites in which kernels are searched.
const SUITES: &[&str] = &["bookworm", "bookworm-backports", "trixie", "trixie-backports"];

/// The files of the package debian-archive-keyring, newest name first.
const KEYRINGS: &[&str] =
    &["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

const HELPER: &str = "/usr/lib/apt/apt-helper";

const FETCHING: &str = "fetching from Debian's archive";

/// Younger indices are not fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// One version of a package in one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) suite: String,
}

/// A package's entry in the signed index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexEntry {
    uri: String,
    bytes: u64,
    sha256: String,
}

/// What an index lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Packages,
    Sources,
}

impl Kind {
    /// The word before an archive in sources.list(5).
    fn in_list(self) -> &'static str {
        match self {
            Kind::Packages => "deb",
            Kind::Sources => "deb-src",
        }
    }

    /// As `apt-get indextargets` and `apt-cache madison` print it.
    fn in_output(self) -> &'static str {
        match self {
            Kind::Packages => "Packages",
            Kind::Sources => "Sources",
        }
    }
}

/// apt for one architecture.
pub(crate) struct Apt<'a> {
    kind: Kind,
    folder: PathBuf,
    architecture: &'static str,
    options: &'a Options,
    scratch: &'a Path,
}

impl<'a> Apt<'a> {
    /// Writes the configuration for the suites of kernels and one more. `scratch` is a folder that the caller removes; the cache's lock
    /// must be held.
    ///
    /// # Errors
    /// When apt or the archive's keys are missing, or no archive is known.
    pub(crate) fn prepare(
        root: &Path,
        options: &'a Options,
        scratch: &'a Path,
        suite: Option<&str>,
    ) -> Result<Self, Problem> {
        let more = suite.filter(|suite| !SUITES.contains(suite));
        let suites: Vec<&str> = SUITES.iter().copied().chain(more).collect();
        Apt::with_suites(Kind::Packages, root, options, scratch, "", &suites)
    }

    /// apt with its own folder, whose name ends in `suffix`, and the index of these suites only.
    fn with_suites(
        kind: Kind,
        root: &Path,
        options: &'a Options,
        scratch: &'a Path,
        suffix: &str,
        suites: &[&str],
    ) -> Result<Self, Problem> {
        let architecture = debian::architecture(&options.arch).ok_or_else(|| {
            Problem::usage(
                format!("machine `{}`", options.arch),
                "holdup takes Debian's packages for x86_64, aarch64 and s390x",
            )
        })?;
        let folder = root.join("apt").join(format!("{architecture}{suffix}"));
        let apt = Apt { kind, folder, architecture, options, scratch };
        apt.write(suites)?;
        Ok(apt)
    }

    fn write(&self, suites: &[&str]) -> Result<(), Problem> {
        let folder = &self.folder;
        for part in [
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/sources.list.d",
            "etc/trusted.gpg.d",
            "state/lists/partial",
            "cache/archives/partial",
        ] {
            fs::create_dir_all(folder.join(part)).map_err(|e| problem("folder", &folder.join(part), &e))?;
        }
        let keyring = KEYRINGS.iter().find(|path| Path::new(path).exists()).ok_or_else(|| {
            Problem::host("Debian's packages", "this machine does not have the keys of Debian's archive")
                .hint("install debian-archive-keyring")
        })?;
        let mirror = match &self.options.mirror {
            Some(mirror) => mirror.clone(),
            None => self.system_mirror()?,
        };
        if mirror.is_empty() || mirror.contains(|c: char| c.is_whitespace() || c.is_control() || "[]\"".contains(c)) {
            return Err(Problem::usage(format!("mirror `{}`", mirror.escape_debug()), "not an address"));
        }
        let mut sources = String::new();
        for suite in suites {
            let kind = self.kind.in_list();
            let _infallible = writeln!(sources, "{kind} [signed-by={keyring}] {mirror} {suite} main");
        }
        let list = folder.join("etc/sources.list");
        if fs::read_to_string(&list).ok().as_deref() != Some(sources.as_str()) {
            // The index is of other sources.
            let _was_absent = fs::remove_file(self.stamp());
            fs::write(&list, sources).map_err(|e| problem("file", &list, &e))?;
        }
        let status = folder.join("state/status");
        fs::write(&status, "").map_err(|e| problem("file", &status, &e))?;
        let file = folder.join("apt.conf");
        fs::write(&file, self.configuration()?).map_err(|e| problem("file", &file, &e))
    }

    fn configuration(&self) -> Result<String, Problem> {
        let folder = self.folder.to_str().filter(|path| !path.contains(['"', '\n', '\\'])).ok_or_else(|| {
            Problem::host(format!("cache {}", self.folder.display()), "apt cannot use a folder of this name")
        })?;
        let architecture = self.architecture;
        let mut text = format!(
            "Dir::Etc \"{folder}/etc\";\nDir::State \"{folder}/state\";\nDir::State::status \"{folder}/state/status\";\n\
             Dir::Cache \"{folder}/cache\";\nDir::Log \"{folder}/state\";\nAPT::Architecture \"{architecture}\";\n\
             APT::Architectures {{ \"{architecture}\"; }};\nAcquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n\
             Acquire::Retries \"2\";\n"
        );
        let dump = Command::new("apt-config").arg("dump").env_remove("APT_CONFIG").env("LC_ALL", "C").output();
        text.push_str(&dump.map(|output| inherited(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default());
        Ok(text)
    }

    /// The Debian archive of this machine's own apt.
    fn system_mirror(&self) -> Result<String, Problem> {
        // Before the first `apt update`, as in container images, apt has addresses without origins.
        for release_info in ["true", "false"] {
            let output = Command::new("apt-get")
                .arg("indextargets")
                .args(["-o", &format!("APT::Get::IndexTargets::ReleaseInfo={release_info}")])
                .args(["--format", "$(REPO_URI) $(ORIGIN) $(COMPONENT)", "Created-By: Packages"])
                .env_remove("APT_CONFIG")
                .stdin(Stdio::null())
                .output()
                .map_err(|e| no_apt("apt-get", &e))?;
            if let Some(mirror) = String::from_utf8_lossy(&output.stdout).lines().find_map(mirror) {
                return Ok(mirror);
            }
            self.options.check(FETCHING)?;
        }
        Err(Problem::host("Debian's packages", "this machine's apt has no archive of Debian")
            .hint("give one with --mirror, in apt's notation"))
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("updated")
    }

    /// The age of the index, if there is one.
    fn age(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.stamp()).ok()?;
        let at: u64 = text.trim().parse().ok()?;
        Some(Duration::from_nanos(now_unix_ns().saturating_sub(at)))
    }

    /// Fetches the index if it is older than a day, or always with `force`. A suite that cannot be fetched is a note.
    ///
    /// # Errors
    /// When no suite can be fetched, or not `suite`; with apt's messages.
    pub(crate) fn update(&self, suite: Option<&str>, force: bool, observer: &mut dyn Observer) -> Result<(), Problem> {
        if !force && self.age().is_some_and(|age| age < FRESH) {
            return Ok(());
        }
        observer.event(Event::Step("fetching the index of Debian's archive"));
        // Without the mode, a failed fetch is a warning, and the old index stays.
        let arguments = ["update", "-q", "-o", "APT::Update::Error-Mode=any"];
        let lists = self.folder.join("state/lists");
        let watched = Some((lists.as_path(), "the index"));
        let said = self.run_in(self.scratch, "apt-get", &arguments, watched, observer)?;
        if let Some(problem) = said.expired() {
            let _was_absent = fs::remove_file(self.stamp());
            return Err(problem);
        }
        let created_by = format!("Created-By: {}", self.kind.in_output());
        let there = self.run("apt-get", &["indextargets", "--format", "$(RELEASE)", &created_by], observer)?;
        let has = |suite: &str| there.text.lines().any(|line| line == suite);
        let wanted_is_there = suite.map_or(there.text.lines().next().is_some(), has);
        if !wanted_is_there {
            let _was_absent = fs::remove_file(self.stamp());
            let what = suite.map_or("Debian's archive".to_owned(), |suite| format!("suite `{suite}`"));
            return Err(Problem::host(what, said.reason("it has no index")));
        }
        if !said.is_ok {
            observer
                .event(Event::Note(&format!("a part of the index could not be fetched: {}", said.reason("no reason"))));
        }
        // If no server answered, the next run tries again.
        if !said.text.lines().any(|line| line.starts_with("Get:") || line.starts_with("Hit:")) {
            return Ok(());
        }
        let stamp = self.stamp();
        fs::write(&stamp, now_unix_ns().to_string()).map_err(|e| problem("file", &stamp, &e))
    }

    pub(crate) fn has_index(&self) -> bool {
        self.age().is_some()
    }

    /// True if the index is less than an hour old, so that fetching it again would change nothing.
    pub(crate) fn is_just_updated(&self) -> bool {
        self.age().is_some_and(|age| age < Duration::from_secs(3600))
    }

    pub(crate) fn names(&self, begin: &str, observer: &mut dyn Observer) -> Result<Vec<String>, Problem> {
        let said = self.run("apt-cache", &["pkgnames", begin], observer)?;
        Ok(said.text.lines().map(str::to_owned).collect())
    }

    /// All versions of packages in the index.
    pub(crate) fn versions(&self, names: &[String], observer: &mut dyn Observer) -> Result<Vec<Found>, Problem> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut arguments = vec!["madison"];
        arguments.extend(names.iter().map(String::as_str));
        let said = self.run("apt-cache", &arguments, observer)?;
        Ok(said.text.lines().filter_map(|line| found(line, self.kind)).collect())
    }

    fn place(&self, found: &Found, observer: &mut dyn Observer) -> Result<IndexEntry, Problem> {
        let name = format!("{}:{}={}", found.package, self.architecture, found.version);
        let said = self.run("apt-get", &["download", "--print-uris", &name], observer)?;
        said.text
            .lines()
            .find_map(place)
            .ok_or_else(|| Problem::host(format!("package {name}"), said.reason("the index does not list it")))
    }

    /// Downloads a package into the scratch folder and compares it with the checksum of the signed index.
    ///
    /// # Errors
    /// When it cannot be fetched, does not match its checksum, or the disk is too full.
    pub(crate) fn download(&self, found: &Found, observer: &mut dyn Observer) -> Result<PathBuf, Problem> {
        let IndexEntry { bytes, sha256, .. } = self.place(found, observer)?;
        let one = Solved { package: found.package.clone(), version: found.version.clone(), bytes, sha256 };
        let name = format!("{} {}", found.package, found.version);
        self.download_all(&[one], &name, observer)?.pop().ok_or_else(|| Problem::internal(name, "no file"))
    }

    /// Downloads a package that has left the index from the pool folder of a `neighbour` with the same version; `None` if the pool
    /// does not have it. Nothing verifies it, because the signed index no longer has its checksum.
    pub(crate) fn download_unverified(
        &self,
        name: &str,
        neighbour: &Found,
        observer: &mut dyn Observer,
    ) -> Result<Option<PathBuf>, Problem> {
        let place = self.place(neighbour, observer)?;
        let wrong = || Problem::host(format!("package {name}"), format!("no pool folder in {}", place.uri));
        let (folder, file) = place.uri.rsplit_once('/').ok_or_else(wrong)?;
        let (_, version) = file.split_once('_').ok_or_else(wrong)?;
        // The signed images have their own source package; the rest is in linux.
        let folder = match folder.rsplit_once('/') {
            Some((above, last)) if last.starts_with("linux-signed-") => format!("{above}/linux"),
            _ => folder.to_owned(),
        };
        let uri = format!("{folder}/{}_{version}", name.replace('+', "%2b"));
        observer.event(Event::Step(&format!("fetching {name} {} from the pool", neighbour.version)));
        let to = self.scratch.join(format!("{name}.deb"));
        let said = self.run(HELPER, &["download-file", &uri, &to.to_string_lossy()], observer)?;
        match said.is_ok && to.is_file() {
            true => Ok(Some(to)),
            // apt's messages for an archive in the network and one in a folder.
            false if said.says("404 ") || said.says("File not found") => Ok(None),
            false => Err(Problem::host(format!("package {name}"), said.reason("apt did not fetch it"))),
        }
    }

    fn run(&self, program: &str, arguments: &[&str], observer: &mut dyn Observer) -> Result<Said, Problem> {
        self.run_in(self.scratch, program, arguments, None, observer)
    }

    /// Runs a program of apt's in a folder, and reports the growth of the `watched` folder every 10 s.
    fn run_in(
        &self,
        folder: &Path,
        program: &str,
        arguments: &[&str],
        watched: Option<(&Path, &str)>,
        observer: &mut dyn Observer,
    ) -> Result<Said, Problem> {
        let (out, err) = (self.scratch.join("out"), self.scratch.join("err"));
        let create = |path: &Path| File::create(path).map_err(|e| problem("file", path, &e));
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("APT_CONFIG", self.folder.join("apt.conf"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?)
            .spawn()
            .map_err(|e| no_apt(program, &e))?;
        let mut reported = Instant::now();
        let mut pause = Duration::from_millis(2);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => return Err(Problem::host(program, e.to_string())),
            }
            if let Err(interrupted) = self.options.check(FETCHING) {
                let _ended_already = child.kill();
                let _reaped = child.wait();
                return Err(interrupted);
            }
            if let Some((folder, what)) = watched
                && reported.elapsed() >= Duration::from_secs(10)
            {
                reported = Instant::now();
                let bytes = crate::files::bytes_below(folder);
                observer.event(Event::Step(&format!("… {} of {what}", human_size(bytes))));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        };
        // A signal to the process group may end apt first; its exit code then says nothing.
        if !status.success() {
            self.options.check(FETCHING)?;
        }
        let read = |path: &Path| fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(Said {
            is_ok: status.success(),
            text: read(&out).map_err(|e| problem("file", &out, &e))?,
            errors: read(&err).map_err(|e| problem("file", &err, &e))?,
        })
    }
}

fn no_apt(program: &str, error: &std::io::Error) -> Problem {
    Problem::host(format!("{program}: Debian's packages come through apt"), error.to_string())
        .hint("run on Debian or a derivative, or download a package and use deb:PATH")
}

/// Settings taken from this machine's apt: how it reaches the network, and whether it accepts an expired index, as administrators
/// of a frozen mirror configure.
fn inherited(dump: &str) -> String {
    let taken = ["Acquire::http::", "Acquire::https::", "Acquire::Check-Valid-Until ", "Acquire::Check-Date "];
    let lines = dump.lines().filter(|line| !line.ends_with("\"\";") && taken.iter().any(|name| line.starts_with(name)));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The output of a program.
struct Said {
    is_ok: bool,
    text: String,
    errors: String,
}

impl Said {
    fn says(&self, words: &str) -> bool {
        self.errors.contains(words) || self.text.contains(words)
    }

    /// The error for an expired part of the archive. Its signature is valid, but the mirror may have withheld later fixes; apt refuses it
    /// too.
    fn expired(&self) -> Option<Problem> {
        (!self.is_ok && self.errors.contains("is expired")).then(|| {
            Problem::host("Debian's archive", self.reason("its index is expired")).hint(
                "give an up-to-date mirror with --mirror, and check this machine's clock; for a closed archive set Acquire::Check-Valid-Until \"false\" \
                 in this machine's apt.conf(5)",
            )
        })
    }

    /// apt's messages, at most three.
    fn reason(&self, otherwise: &str) -> String {
        let mut lines: Vec<&str> = Vec::new();
        for line in self.errors.lines().chain(self.text.lines()) {
            let Some(line) = line.strip_prefix("E: ").or_else(|| line.strip_prefix("W: ")) else { continue };
            if !lines.contains(&line.trim()) {
                lines.push(line.trim());
            }
        }
        lines.truncate(3);
        if lines.is_empty() { otherwise.to_owned() } else { lines.join("; ") }
    }
}

/// The address in `ADDRESS ORIGIN COMPONENT` of Debian's main archive, recognised by its path if the origin is unknown.
fn mirror(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (uri, origin, component) = (words.next()?.trim_end_matches('/'), words.next()?, words.next()?);
    let is_debian = origin == "Debian" || (origin == "$(ORIGIN)" && uri.ends_with("/debian"));
    let is_main = component == "main" && !uri.contains("security") && !uri.starts_with("cdrom:");
    (is_debian && is_main).then(|| uri.to_owned())
}

/// `NAME | VERSION | URI SUITE/COMPONENT ARCH Packages`, or without an architecture and `Sources`.
fn found(line: &str, wanted: Kind) -> Option<Found> {
    let mut columns = line.split(" | ");
    let (package, version, place) = (columns.next()?.trim(), columns.next()?.trim(), columns.next()?);
    let mut words = place.split_whitespace();
    let (_, suite, kind) = (words.next()?, words.next()?, words.last()?);
    (kind == wanted.in_output()).then(|| Found {
        package: package.to_owned(),
        version: version.to_owned(),
        suite: suite.rsplit_once('/').map_or(suite, |(suite, _)| suite).to_owned(),
    })
}

/// `'URI' FILE BYTES SHA256:SUM`.
fn place(line: &str) -> Option<IndexEntry> {
    let (uri, rest) = line.strip_prefix('\'')?.split_once('\'')?;
    let mut words = rest.split_whitespace();
    let (_, bytes, sum) = (words.next()?, words.next()?, words.next()?);
    let sha256 = sum.strip_prefix("SHA256:")?.to_owned();
    Some(IndexEntry { uri: uri.to_owned(), bytes: bytes.parse().ok()?, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_this_machines_apt_are_inherited() {
        let dump = "APT \"\";\nAcquire::Check-Valid-Until \"false\";\nAcquire::http::Proxy \"http://p.example:1\";\n\
                    Acquire::https::Proxy \"\";\nDir::Etc \"/etc/apt\";\nAcquire::AllowInsecureRepositories \"1\";\n";
        let is = inherited(dump);
        assert_eq!(is, "Acquire::Check-Valid-Until \"false\";\nAcquire::http::Proxy \"http://p.example:1\";\n");
        assert!(inherited("").is_empty());
    }

    #[test]
    fn apts_output_is_parsed() {
        let line =
            "linux-image-6.1.0-50-amd64 |  6.1.176-1 | http://mirror.example/debian bookworm/main amd64 Packages";
        let is = found(line, Kind::Packages).unwrap();
        assert_eq!(
            (is.package.as_str(), is.version.as_str(), is.suite.as_str()),
            ("linux-image-6.1.0-50-amd64", "6.1.176-1", "bookworm")
        );
        let line = "linux | 6.1.176-1 | http://mirror.example/debian bookworm/main Sources";
        assert_eq!(found(line, Kind::Packages), None);
        assert_eq!(found(line, Kind::Sources).unwrap().suite, "bookworm");
        let is = place("'http://mirror.example/debian/pool/a%2bb_1_amd64.deb' a+b_1_amd64.deb 13647872 SHA256:108e")
            .unwrap();
        assert_eq!((is.bytes, is.sha256.as_str()), (13_647_872, "108e"));
        assert_eq!(place("Reading package lists..."), None);
        for (line, is) in [
            ("http://mirror.example/debian/ Debian main", Some("http://mirror.example/debian")),
            ("http://mirror.example/debian/ $(ORIGIN) main", Some("http://mirror.example/debian")),
            ("http://mirror.example/debian-security/ Debian main", None),
            ("http://mirror.example/ubuntu/ $(ORIGIN) main", None),
            ("http://mirror.example/debian/ Debian contrib", None),
            ("", None),
        ] {
            assert_eq!(mirror(line).as_deref(), is, "{line}");
        }
        let said = Said { is_ok: false, text: String::new(), errors: "W: first\nE: second\nE: second\n".into() };
        assert_eq!(said.reason("none"), "first; second");
        assert!(said.says("second") && !said.says("is expired"));
        let expired =
            "E: Release file for http://mirror.example/debian/dists/x/InRelease is expired (invalid since 3d)\n";
        let said = Said { is_ok: false, text: String::new(), errors: expired.into() };
        let problem = said.expired().expect("expired");
        assert!(problem.why.contains("invalid since 3d") && problem.hint.unwrap().contains("Check-Valid-Until"));
        // With Check-Valid-Until "false", apt-get reports the date and continues.
        assert_eq!(Said { is_ok: true, ..said }.expired(), None);
    }
}
