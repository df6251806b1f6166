//! What a kernel is configured with: a fragment, options laid over it, and whether make took them.
//!
//! A fragment is the subset of Kconfig's own `.config` form that says something: `CONFIG_NAME=value` lines, `n` for
//! "not set", and comments. Source: `scripts/kconfig/confdata.c:conf_read_simple` (v7.2), which also takes the form
//! `# CONFIG_NAME is not set`.

use super::kconfig::Symbols;
use holdup_model::Problem;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Options of which one may be `y`; choosing one takes the others' lines out of a fragment.
///
/// Source: the `choice` blocks of `kernel/Kconfig.preempt`, `kernel/Kconfig.hz`, `kernel/time/Kconfig`, `init/Kconfig`,
/// `mm/Kconfig`, `arch/x86/Kconfig.debug` and `lib/Kconfig.debug` (v7.2).
const CHOICES: &[&[&str]] = &[
    &["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY"],
    &["HZ_100", "HZ_250", "HZ_300", "HZ_1000"],
    &["HZ_PERIODIC", "NO_HZ_IDLE", "NO_HZ_FULL"],
    &["TICK_CPU_ACCOUNTING", "VIRT_CPU_ACCOUNTING_GEN"],
    &["TRANSPARENT_HUGEPAGE_ALWAYS", "TRANSPARENT_HUGEPAGE_MADVISE", "TRANSPARENT_HUGEPAGE_NEVER"],
    &["CC_OPTIMIZE_FOR_PERFORMANCE", "CC_OPTIMIZE_FOR_SIZE"],
    &["KERNEL_GZIP", "KERNEL_BZIP2", "KERNEL_LZMA", "KERNEL_XZ", "KERNEL_LZO", "KERNEL_LZ4", "KERNEL_ZSTD"],
    &["UNWINDER_ORC", "UNWINDER_FRAME_POINTER", "UNWINDER_GUESS"],
    &["DEBUG_INFO_NONE", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "DEBUG_INFO_DWARF4", "DEBUG_INFO_DWARF5"],
];

/// Options that stand on another one which no fragment of ours has.
const COMPANIONS: &[(&str, &[&str])] = &[
    ("DEBUG_INFO_BTF", &["DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"]),
    ("SCHED_CLASS_EXT", &["DEBUG_INFO_BTF", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"]),
];

/// A configuration that is asked for: names without `CONFIG_`, values as Kconfig writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fragment {
    wanted: BTreeMap<String, Wanted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    value: String,
    /// Whether the spec asked for it, and not the named configuration.
    by_spec: bool,
}

impl Fragment {
    /// Reads a fragment.
    ///
    /// # Errors
    /// A usage problem that names `name`, the line's number and the line.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Fragment, Problem> {
        let mut fragment = Fragment::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let Some((option, value)) = assignment(line) else {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let shown: String = line.escape_debug().take(80).collect();
                return Err(Problem::usage(
                    format!("configuration {name}, line {}: `{shown}`", number + 1),
                    "is neither CONFIG_NAME=value nor a comment",
                ));
            };
            fragment.wanted.insert(option.to_owned(), Wanted { value: value.to_owned(), by_spec: false });
        }
        Ok(fragment)
    }

    /// Lays options over it: each replaces the line of its name, and of a choice those of the other members.
    pub(crate) fn lay_over(&mut self, options: &[(String, String)]) {
        for (name, value) in options {
            let companions = COMPANIONS.iter().find(|(option, _)| option == name && value == "y");
            for companion in companions.into_iter().flat_map(|(_, companions)| *companions) {
                self.set(companion, "y");
            }
        }
        for (name, value) in options {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        if value == "y" {
            for other in CHOICES.iter().filter(|choice| choice.contains(&name)).flat_map(|choice| *choice) {
                self.wanted.remove(*other);
            }
        }
        self.wanted.insert(name.to_owned(), Wanted { value: value.to_owned(), by_spec: true });
    }

    /// Whether an option is asked for with `y`.
    pub(crate) fn asks_for(&self, name: &str) -> bool {
        self.wanted.get(name).is_some_and(|wanted| wanted.value == "y")
    }

    /// The text for `KCONFIG_ALLCONFIG`, strings in quotation marks as Kconfig wants them, in the order of names, so that the same wishes are the same text.
    pub(crate) fn text(&self) -> String {
        let line = |(name, wanted): (&String, &Wanted)| format!("CONFIG_{name}={}\n", quoted(&wanted.value));
        self.wanted.iter().map(line).collect()
    }

    /// Compares what was asked for with what make wrote; `symbols` reads the source's Kconfig files when it is needed.
    ///
    /// Answers with the options of the named configuration that this source does not know: an older or newer kernel
    /// lacks some, and whoever builds is told.
    ///
    /// # Errors
    /// When an option could not be had: names it, what make wrote, and what it depends on with the values that hold.
    pub(crate) fn verify(&self, written: &str, symbols: impl FnOnce() -> Symbols) -> Result<Vec<String>, Problem> {
        let written = values(written);
        let lost: Vec<(&String, &Wanted)> =
            self.wanted.iter().filter(|(name, wanted)| !holds(&written, name, &wanted.value)).collect();
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let symbols = symbols();
        let (unknown, mut refused): (Vec<_>, Vec<_>) =
            lost.into_iter().partition(|(name, wanted)| !wanted.by_spec && !symbols.knows(name));
        if refused.is_empty() {
            return Ok(unknown.into_iter().map(|(name, _)| name.clone()).collect());
        }
        // What the spec asks for is the more interesting error.
        refused.sort_by_key(|(_, wanted)| !wanted.by_spec);
        let why = refused.iter().take(6).map(|(name, wanted)| {
            let reason = match symbols.knows(name) {
                false => "this source has no option of that name".to_owned(),
                true => match symbols.depends(name, |option| word(&written, option)) {
                    Some(depends) => {
                        format!("the configuration says {}; it depends on {depends}", word(&written, name))
                    }
                    None => format!("the configuration says {}", word(&written, name)),
                },
            };
            format!("{name}={}: {reason}", wanted.value)
        });
        let why = why.collect::<Vec<_>>().join("; ");
        let more = refused.len().saturating_sub(6);
        let why = if more > 0 { format!("{why}; and {more} more") } else { why };
        let problem = Problem::usage("options of the kernel", why);
        let ours: Vec<String> =
            refused.iter().filter(|(_, wanted)| !wanted.by_spec).map(|(name, _)| format!("{name}=n")).collect();
        match ours.is_empty() || !self.wanted.values().any(|wanted| wanted.by_spec) {
            true => Err(problem),
            false => Err(problem.hint(format!("to do without what an option took away, say so: {}", ours.join(",")))),
        }
    }
}

/// `CONFIG_NAME=value` or `# CONFIG_NAME is not set` as name and value.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let named = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(name) = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set")) {
        return named(name).then_some((name, "n"));
    }
    let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
    (named(name) && !value.is_empty()).then_some((name, value))
}

/// All options of a `.config` that are set to something.
pub(crate) fn values(config: &str) -> BTreeMap<&str, &str> {
    config.lines().filter_map(|line| assignment(line.trim_end())).collect()
}

fn holds(written: &BTreeMap<&str, &str>, name: &str, value: &str) -> bool {
    let found = written.get(name).copied().unwrap_or("n");
    unquoted(found) == unquoted(value)
}

/// A value as Kconfig reads it: strings stand in quotation marks, the rest does not. Source:
/// `scripts/kconfig/confdata.c:conf_set_sym_val` (v7.2), which drops a string without them.
fn quoted(value: &str) -> Cow<'_, str> {
    let is_decimal = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let is_hex = hex.is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_plain = matches!(value, "y" | "n" | "m") || is_hex || is_decimal(value.strip_prefix('-').unwrap_or(value));
    let is_quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
    match is_plain || is_quoted {
        true => Cow::Borrowed(value),
        false => Cow::Owned(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))),
    }
}

/// A value without quotation marks.
fn unquoted(value: &str) -> Cow<'_, str> {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Cow::Borrowed(value);
    };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        // A backslash takes the next character as it is.
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Cow::Owned(text)
}

/// The value of an option in words.
fn word(written: &BTreeMap<&str, &str>, name: &str) -> String {
    match written.get(name).copied() {
        None | Some("n") => "\"not set\"".to_owned(),
        Some(value) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn option(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn no_symbols() -> Symbols {
        panic!("the Kconfig files are read only when something was lost")
    }

    fn symbols(text: &str) -> Symbols {
        let mut symbols = Symbols::default();
        symbols.take(Path::new("Kconfig"), text);
        symbols
    }

    #[test]
    fn a_fragment_is_read_and_a_line_that_is_none_is_named() {
        let fragment = Fragment::parse("f", "# a comment\n\nCONFIG_B=y\n# CONFIG_C is not set\nCONFIG_A=64\n").unwrap();
        assert_eq!(fragment.text(), "CONFIG_A=64\nCONFIG_B=y\nCONFIG_C=n\n");
        for (text, line) in [("CONFIG_A=y\nB=y\n", "line 2: `B=y`"), ("CONFIG_=y", "line 1"), ("CONFIG_A=", "line 1")] {
            let problem = Fragment::parse("mine", text).unwrap_err();
            assert!(problem.what.contains(line) && problem.what.contains("mine"), "{problem}");
        }
    }

    #[test]
    fn an_option_replaces_the_line_of_its_name_and_the_rest_of_its_choice() {
        let mut fragment = Fragment::parse("f", "CONFIG_PREEMPT_LAZY=y\nCONFIG_HZ_250=y\nCONFIG_A=y\n").unwrap();
        fragment.lay_over(&[option("PREEMPT_NONE", "y"), option("A", "n")]);
        assert_eq!(fragment.text(), "CONFIG_A=n\nCONFIG_HZ_250=y\nCONFIG_PREEMPT_NONE=y\n");
    }

    #[test]
    fn an_option_brings_what_it_stands_on_and_an_option_against_that_wins() {
        let mut fragment = Fragment::default();
        fragment.lay_over(&[option("DEBUG_INFO_BTF", "y"), option("DEBUG_INFO_DWARF5", "y")]);
        assert_eq!(fragment.text(), "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_DEBUG_INFO_DWARF5=y\n");
    }

    #[test]
    fn what_make_wrote_as_asked_is_silent() {
        let mut fragment = Fragment::parse("f", "CONFIG_A=y\nCONFIG_B=n\nCONFIG_C=n\nCONFIG_N=64\n").unwrap();
        fragment.lay_over(&[option("S", "-mine")]);
        let written = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_N=64\nCONFIG_S=\"-mine\"\nCONFIG_OTHER=y\n";
        assert_eq!(fragment.verify(written, no_symbols).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn strings_are_quoted_and_compared_without() {
        let mut fragment = Fragment::parse("f", "CONFIG_A=\"q\"\nCONFIG_B=0x1F\nCONFIG_C=-5\nCONFIG_D=m\n").unwrap();
        fragment.lay_over(&[option("E", "word"), option("F", "say \"x\\"), option("G", "-mine"), option("H", "0x")]);
        let text = "CONFIG_A=\"q\"\nCONFIG_B=0x1F\nCONFIG_C=-5\nCONFIG_D=m\nCONFIG_E=\"word\"\n\
                    CONFIG_F=\"say \\\"x\\\\\"\nCONFIG_G=\"-mine\"\nCONFIG_H=\"0x\"\n";
        assert_eq!(fragment.text(), text);
        assert!(fragment.verify(text, no_symbols).unwrap().is_empty());
        let other = text.replace("\"word\"", "\"words\"");
        assert!(fragment.verify(&other, || symbols("config E\n")).unwrap_err().why.starts_with("E=word: "));
    }

    #[test]
    fn an_option_that_could_not_be_had_is_named_with_what_it_depends_on() {
        let mut fragment = Fragment::default();
        fragment.lay_over(&[option("RSEQ_SLICE_EXTENSION", "y")]);
        let kconfig =
            "config RSEQ_SLICE_EXTENSION\n\tbool \"x\"\n\tdepends on RSEQ && GENERIC_ENTRY\n\tdepends on ALPHA\n";
        let problem =
            fragment.verify("CONFIG_RSEQ=y\n# CONFIG_GENERIC_ENTRY is not set\n", || symbols(kconfig)).unwrap_err();
        assert_eq!(
            problem.why,
            "RSEQ_SLICE_EXTENSION=y: the configuration says \"not set\"; it depends on RSEQ (y) && \
             GENERIC_ENTRY (\"not set\"), and on ALPHA (\"not set\")"
        );
        assert_eq!(problem.hint, None);
    }

    #[test]
    fn an_option_that_no_kconfig_file_has_is_wrong_when_asked_for_and_told_when_ours() {
        let mut fragment = Fragment::parse("f", "CONFIG_SCHED_CACHE=y\n").unwrap();
        let unknown = fragment.verify("CONFIG_A=y\n", || symbols("config A\n")).unwrap();
        assert_eq!(unknown, ["SCHED_CACHE"]);
        fragment.lay_over(&[option("SCHED_CASH", "y")]);
        let problem = fragment.verify("CONFIG_A=y\n", || symbols("config A\n")).unwrap_err();
        assert_eq!(problem.why, "SCHED_CASH=y: this source has no option of that name");
    }

    #[test]
    fn what_an_option_takes_away_has_to_be_given_up_by_name() {
        let mut fragment = Fragment::parse("f", "CONFIG_NUMA=y\nCONFIG_NUMA_BALANCING=y\n").unwrap();
        fragment.lay_over(&[option("NUMA", "n")]);
        let kconfig = "config NUMA\nconfig NUMA_BALANCING\n\tdepends on NUMA\n";
        let problem = fragment.verify("# CONFIG_NUMA is not set\n", || symbols(kconfig)).unwrap_err();
        assert!(problem.why.starts_with("NUMA_BALANCING=y: "), "{problem}");
        assert!(problem.hint.unwrap().ends_with(": NUMA_BALANCING=n"));
        fragment.lay_over(&[option("NUMA_BALANCING", "n")]);
        assert!(fragment.verify("# CONFIG_NUMA is not set\n", no_symbols).unwrap().is_empty());
    }
}
