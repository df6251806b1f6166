//! The suites with their PostgreSQL versions, and the packages that a guest does not need.

use crate::debian::Found;
use crate::debian::version::{compare, upstream};
use holdup_model::Problem;
use std::collections::BTreeMap;

/// Suites that are searched together: the first completes the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct SuiteSet {
    pub(in crate::cache) suites: &'static [&'static str],
    /// Its major version in 2026; such a request is looked up here first.
    in_2026: Option<u32>,
}

/// From the oldest suite to the newest: a version in several suites is taken from the most stable one.
const SUITE_SETS: &[SuiteSet] = &[
    SuiteSet { suites: &["bookworm"], in_2026: Some(15) },
    SuiteSet { suites: &["trixie"], in_2026: Some(17) },
    SuiteSet { suites: &["forky"], in_2026: Some(18) },
    SuiteSet { suites: &["sid"], in_2026: None },
    SuiteSet { suites: &["sid", "experimental"], in_2026: Some(19) },
];

/// Dependencies that are left out: system setup, cluster management, and libraries that the server loads only on request. Their
/// names are the same in all suites.
const LEFT_OUT: &[&str] = &[
    "adduser",
    "base-passwd",
    "debconf",
    "debianutils",
    "dpkg",
    "init-system-helpers",
    "libc-bin",
    "libsasl2-modules-db",
    "locales",
    "lsb-base",
    "netbase",
    "openssl",
    "openssl-provider-legacy",
    "perl",
    "perl-base",
    "postgresql-client-common",
    "postgresql-common",
    "procps",
    "python3",
    "readline-common",
    "sensible-utils",
    "ssl-cert",
    "systemd",
    "sysvinit-utils",
    "tar",
    "ucf",
    "usr-is-merged",
    "usrmerge",
];

/// The package prefix of the JIT compiler, which is larger than everything else.
pub(in crate::cache) const COMPILER: &str = "libllvm";

/// Needed beside the server: a shell, through which initdb runs the server, and UTC.
const WITH_IT: &[&str] = &["dash", "tzdata"];

impl SuiteSet {
    /// The suite that is searched; the others complete it.
    pub(in crate::cache) fn suite(&self) -> &'static str {
        self.suites.last().copied().unwrap_or_default()
    }
}

/// A requested version: `17`, `17.11`, `19rc1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cache) struct Wanted {
    pub(in crate::cache) major: u32,
    /// Without tildes.
    text: String,
}

impl Wanted {
    /// # Errors
    /// When it is not a version.
    pub(in crate::cache) fn parse(text: &str) -> Result<Self, Problem> {
        let text_without = text.replace('~', "");
        let digits: String = text_without.chars().take_while(char::is_ascii_digit).collect();
        let rest_fits = text_without.chars().all(|c| c.is_ascii_alphanumeric() || ".+-:".contains(c));
        match digits.parse() {
            Ok(major) if rest_fits && (1..1000).contains(&major) => Ok(Wanted { major, text: text_without }),
            _ => Err(Problem::usage(
                format!("PostgreSQL `deb:{}`", text.escape_debug()),
                "a major version such as 17, or a version such as 17.11 or 19rc1, is expected",
            )),
        }
    }

    /// True if a package version matches: `17` matches `17.11-0+deb13u1`, `17.1` does not.
    pub(in crate::cache) fn matches(&self, version: &str) -> bool {
        let upstream = upstream(version).replace('~', "");
        let ends_with_number = self.text.ends_with(|c: char| c.is_ascii_digit());
        let begins = upstream
            .strip_prefix(&self.text)
            .is_some_and(|rest| !(ends_with_number && rest.starts_with(|c: char| c.is_ascii_digit())));
        begins || version.replace('~', "") == self.text
    }

    /// True if only this version matches, so that no newer one can.
    pub(in crate::cache) fn is_exactly(&self, version: &str) -> bool {
        self.text == upstream(version).replace('~', "") || self.text == version.replace('~', "")
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// All places, the most likely one first.
pub(in crate::cache) fn in_order(major: u32) -> Vec<SuiteSet> {
    let (mut first, rest): (Vec<SuiteSet>, Vec<SuiteSet>) =
        SUITE_SETS.iter().partition(|place| place.in_2026 == Some(major));
    first.extend(rest);
    first
}

/// The major version of a server package such as `postgresql-17`.
pub(in crate::cache) fn major_of(package: &str) -> Option<u32> {
    let number = package.strip_prefix("postgresql-")?;
    number.chars().all(|c| c.is_ascii_digit()).then(|| number.parse().ok()).flatten()
}

/// The newest matching server package.
pub(in crate::cache) fn choose<'a>(all: &'a [Found], wanted: &Wanted) -> Option<&'a Found> {
    all.iter()
        .filter(|found| major_of(&found.package) == Some(wanted.major) && wanted.matches(&found.version))
        .max_by(|a, b| compare(&a.version, &b.version))
}

/// For an error: `15.18 (bookworm), 18.6 (forky, sid)`.
pub(in crate::cache) fn listing(all: &[Found]) -> String {
    let mut versions: BTreeMap<(u32, &str), Vec<&str>> = BTreeMap::new();
    for found in all {
        let Some(major) = major_of(&found.package) else { continue };
        let suites = versions.entry((major, upstream(&found.version))).or_default();
        if !suites.contains(&found.suite.as_str()) {
            suites.push(&found.suite);
        }
    }
    let one = |((_, version), suites): (&(u32, &str), &Vec<&str>)| format!("{version} ({})", suites.join(", "));
    versions.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The packages to install for a server.
pub(in crate::cache) fn packages(server: &Found, major: u32) -> Vec<String> {
    let mut all = vec![format!("{}={}", server.package, server.version)];
    all.push(format!("postgresql-client-{major}={}", server.version));
    all.extend(WITH_IT.iter().map(|name| (*name).to_owned()));
    all
}

/// The packages to leave out, with those of the `compiler`.
pub(in crate::cache) fn left_out(compiler: Vec<String>) -> Vec<String> {
    LEFT_OUT.iter().map(|name| (*name).to_owned()).chain(compiler).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, version: &str, suite: &str) -> Found {
        Found { package: package.into(), version: version.into(), suite: suite.into() }
    }

    #[test]
    fn versions_match() {
        let fits = |wanted: &str, version: &str| Wanted::parse(wanted).unwrap().matches(version);
        for wanted in ["17", "17.11", "17.11-0+deb13u1"] {
            assert!(fits(wanted, "17.11-0+deb13u1"), "{wanted}");
        }
        for wanted in ["19", "19rc", "19rc1", "19~rc1", "19~rc1-1"] {
            assert!(fits(wanted, "19~rc1-1"), "{wanted}");
        }
        for (wanted, version) in
            [("17.1", "17.11-0+deb13u1"), ("1", "17.11-1"), ("19beta", "19~rc1-1"), ("19rc1", "19~rc10-1")]
        {
            assert!(!fits(wanted, version), "{wanted} {version}");
        }
        let exactly = |wanted: &str| Wanted::parse(wanted).unwrap().is_exactly("19~rc1-1");
        assert_eq!([exactly("19"), exactly("19rc"), exactly("19rc1")], [false, false, true]);
    }

    #[test]
    fn text_that_is_no_version_is_refused() {
        for text in ["", "latest", "0", "1000", "99999999999", "17;x", "17 ", "17/../..", "-17", "17\n"] {
            let why = Wanted::parse(text).unwrap_err();
            assert_eq!(why.kind, holdup_model::ProblemKind::Usage, "{text}");
        }
    }

    #[test]
    fn the_likely_suite_is_searched_first_and_then_all() {
        let suites = |major| in_order(major).iter().map(SuiteSet::suite).collect::<Vec<_>>();
        assert_eq!(suites(18), ["forky", "bookworm", "trixie", "sid", "experimental"]);
        assert_eq!(suites(16), ["bookworm", "trixie", "forky", "sid", "experimental"]);
        assert_eq!(in_order(19)[0].suites, ["sid", "experimental"]);
    }

    #[test]
    fn the_newest_server_is_chosen_and_versions_are_listed() {
        let all = [
            found("postgresql-18", "18.5-1", "forky"),
            found("postgresql-18", "18.10-1", "sid"),
            found("postgresql-18-jit", "18.99-1", "sid"),
            found("postgresql-18", "18.10-1", "experimental"),
            found("postgresql-19", "19~rc1-1", "experimental"),
        ];
        let chosen = |wanted: &str| choose(&all, &Wanted::parse(wanted).unwrap()).map(|found| found.version.clone());
        assert_eq!(chosen("18").unwrap(), "18.10-1");
        assert_eq!(chosen("18.5").unwrap(), "18.5-1");
        assert_eq!(chosen("18.1"), None);
        assert_eq!(chosen("16"), None);
        assert_eq!(listing(&all), "18.10 (sid, experimental), 18.5 (forky), 19~rc1 (experimental)");
        let packages = packages(&all[0], 18);
        assert_eq!(packages[..2], ["postgresql-18=18.5-1", "postgresql-client-18=18.5-1"]);
    }
}
