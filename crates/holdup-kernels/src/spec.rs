//! Kernel specs: the text that names a kernel in a plan or on the command line.

use holdup_model::Problem;
use std::fmt;
use std::path::PathBuf;

/// A parsed spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Spec {
    /// `debian:7.0`, `debian:6.19.14/cloud`, `debian:trixie`.
    Debian(DebianSpec),
    /// `file:PATH`, an image.
    File(PathBuf),
    /// `deb:PATH`, a package with an image.
    Deb(PathBuf),
    /// `rpm:PATH`, a package with an image.
    Rpm(PathBuf),
    /// `host`, the running kernel.
    Host,
    /// `build:SOURCE,OPTION=y,…`, built here.
    Build(BuildSpec),
}

/// A kernel in Debian's archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DebianSpec {
    /// The version or suite.
    pub wanted: Wanted,
    /// `cloud`, `rt`; the architecture's default flavour if unset.
    pub flavour: Option<String>,
}

/// Selects among Debian's kernels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The newest with this version or version prefix (`7.0` matches 7.0.13, not 7.01), or this ABI name (`6.1.0-50`).
    Version(String),
    /// The newest in a suite.
    Suite(String),
}

/// A build: `SOURCE[,OPTION=VALUE|,patch=NAME|,config=NAME]…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuildSpec {
    /// The path of a source tree, or `debian:VERSION` for Debian's source package.
    pub source: String,
    /// A named configuration or a path; `guest-small` if unset.
    pub config: Option<String>,
    /// Options without `CONFIG_`, in the given order: `("RSEQ_SLICE_EXTENSION", "y")`.
    pub options: Vec<(String, String)>,
    /// Names of carried patches, or paths, in the given order.
    pub patches: Vec<String>,
}

const FORMS: &str = "forms: debian:VERSION[/FLAVOUR], debian:SUITE[/FLAVOUR], file:PATH, deb:PATH, rpm:PATH, host, \
                     build:SOURCE[,OPTION=VALUE][,patch=NAME][,config=NAME]";

impl Spec {
    /// Parses a spec.
    ///
    /// # Errors
    /// Names the text and what is wrong with it.
    pub fn parse(text: &str) -> Result<Spec, Problem> {
        let wrong = |why: &str| Problem::usage(format!("kernel `{}`", text.escape_debug()), why).hint(FORMS);
        if text == "host" {
            return Ok(Spec::Host);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(|| wrong("it does not name a source"))?;
        if rest.is_empty() || rest.contains(['\0', '\n']) {
            return Err(wrong("nothing follows the colon"));
        }
        match kind {
            "debian" => DebianSpec::parse(rest).map(Spec::Debian).map_err(|why| wrong(&why)),
            "file" => Ok(Spec::File(PathBuf::from(rest))),
            "deb" => Ok(Spec::Deb(PathBuf::from(rest))),
            "rpm" => Ok(Spec::Rpm(PathBuf::from(rest))),
            "build" => BuildSpec::parse(rest).map(Spec::Build).map_err(|why| wrong(&why)),
            _ => Err(wrong(&format!("`{}` is not a kind of source", kind.escape_debug()))),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spec::Debian(debian) => write!(f, "debian:{debian}"),
            Spec::File(path) => write!(f, "file:{}", path.display()),
            Spec::Deb(path) => write!(f, "deb:{}", path.display()),
            Spec::Rpm(path) => write!(f, "rpm:{}", path.display()),
            Spec::Host => f.write_str("host"),
            Spec::Build(build) => write!(f, "build:{build}"),
        }
    }
}

impl DebianSpec {
    fn parse(text: &str) -> Result<DebianSpec, String> {
        let (wanted, flavour) = match text.split_once('/') {
            Some((wanted, flavour)) => (wanted, Some(flavour)),
            None => (text, None),
        };
        if let Some(flavour) = flavour
            && (flavour.is_empty() || !flavour.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()))
        {
            return Err(format!("`{}` cannot be a flavour", flavour.escape_debug()));
        }
        // These words become arguments and configuration of apt.
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.+~".contains(c);
        if !wanted.starts_with(|c: char| c.is_ascii_alphanumeric()) || !wanted.chars().all(fits) {
            return Err(format!("`{}` can be neither a version nor a suite", wanted.escape_debug()));
        }
        let wanted = match wanted.starts_with(|c: char| c.is_ascii_digit()) {
            true => Wanted::Version(wanted.to_owned()),
            false => Wanted::Suite(wanted.to_owned()),
        };
        Ok(DebianSpec { wanted, flavour: flavour.map(str::to_owned) })
    }
}

impl fmt::Display for DebianSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted {
            Wanted::Version(word) | Wanted::Suite(word) => f.write_str(word)?,
        }
        match &self.flavour {
            Some(flavour) => write!(f, "/{flavour}"),
            None => Ok(()),
        }
    }
}

impl BuildSpec {
    fn parse(text: &str) -> Result<BuildSpec, String> {
        let mut parts = text.split(',');
        let source = parts.next().unwrap_or_default();
        if source.is_empty() {
            return Err("it names no source".to_owned());
        }
        let mut spec = BuildSpec { source: source.to_owned(), config: None, options: Vec::new(), patches: Vec::new() };
        for part in parts {
            let (name, value) = part
                .split_once('=')
                .filter(|(name, value)| !name.is_empty() && !value.is_empty())
                .ok_or_else(|| format!("`{}` is not OPTION=VALUE, patch=NAME or config=NAME", part.escape_debug()))?;
            match name {
                "patch" => spec.patches.push(value.to_owned()),
                "config" if spec.config.is_some() => return Err("it names two configurations".to_owned()),
                "config" => spec.config = Some(value.to_owned()),
                _ => spec.option(name.strip_prefix("CONFIG_").unwrap_or(name), value)?,
            }
        }
        Ok(spec)
    }

    fn option(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!("`{}` cannot be an option of the configuration", name.escape_debug()));
        }
        if self.options.iter().any(|(known, _)| known == name) {
            return Err(format!("it sets the option {name} twice"));
        }
        self.options.push((name.to_owned(), value.to_owned()));
        Ok(())
    }
}

impl fmt::Display for BuildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        for (name, value) in &self.options {
            write!(f, ",{name}={value}")?;
        }
        for patch in &self.patches {
            write!(f, ",patch={patch}")?;
        }
        match &self.config {
            Some(config) => write!(f, ",config={config}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_form_is_parsed_and_printed() {
        for text in [
            "debian:7.0",
            "debian:6.19.14/cloud",
            "debian:trixie-backports/rt",
            "debian:6.1.0-50",
            "file:/boot/vmlinuz",
            "deb:a,b.deb",
            "rpm:./x.rpm",
            "host",
            "build:debian:7.2,RSEQ_SLICE_EXTENSION=y,HZ=1000,patch=restore-preempt-none,config=guest-small",
            "build:/usr/src/linux",
        ] {
            assert_eq!(Spec::parse(text).unwrap().to_string(), text);
        }
        let Spec::Build(build) = Spec::parse("build:tree,patch=a,CONFIG_X=n,patch=b").unwrap() else { panic!() };
        assert_eq!(build.patches, ["a", "b"]);
        assert_eq!(build.options, [("X".to_owned(), "n".to_owned())]);
    }

    #[test]
    fn malformed_specs_are_refused() {
        for (text, says) in [
            ("7.0", "does not name a source"),
            ("debian:", "nothing"),
            ("debian:7.0/", "flavour"),
            ("debian:7.0/../x", "flavour"),
            ("debian:-o=x", "neither a version"),
            ("debian:7.0 x", "neither a version"),
            ("snap:x", "not a kind"),
            ("build:,X=y", "names no source"),
            ("build:t,X", "is not OPTION=VALUE"),
            ("build:t,X=y,X=n", "twice"),
            ("build:t,config=a,config=b", "two configurations"),
            ("build:t,X Y=1", "cannot be an option"),
        ] {
            let problem = Spec::parse(text).unwrap_err();
            assert!(problem.why.contains(says), "{problem}");
            assert!(problem.hint.unwrap().contains("debian:VERSION"));
        }
    }

    proptest! {
        #[test]
        fn a_parsed_spec_is_printed_the_same(text in "(debian|file|deb|build|host|x):?[-a-z0-9.,=/+~ _A-Z]{0,30}") {
            if let Ok(spec) = Spec::parse(&text) {
                prop_assert_eq!(Spec::parse(&spec.to_string()).unwrap(), spec);
            }
        }
    }
}
