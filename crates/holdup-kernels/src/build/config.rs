//! Kernel configurations: a fragment, the spec's options over it, and the check of what make wrote.
//!
//! A fragment is a subset of Kconfig's `.config` format: `CONFIG_NAME=value` lines, `n` for "not set", and comments. Source:
//! `scripts/kconfig/confdata.c:conf_read_simple` (v7.2), which also accepts `# CONFIG_NAME is not set`.

use super::kconfig::Symbols;
use holdup_model::{PreemptModel, Problem};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Options of which only one can be `y`; setting one removes the others from a fragment.
///
/// Source: the `choice` blocks of `kernel/Kconfig.preempt`, `kernel/Kconfig.hz`, `kernel/time/Kconfig`, `init/Kconfig`,
/// `mm/Kconfig`, `arch/x86/Kconfig.debug` and `lib/Kconfig.debug` (v7.2).
const CHOICES: &[&[&str]] = &[
    PreemptModel::OPTIONS,
    &["HZ_100", "HZ_250", "HZ_300", "HZ_1000"],
    &["HZ_PERIODIC", "NO_HZ_IDLE", "NO_HZ_FULL"],
    &["TICK_CPU_ACCOUNTING", "VIRT_CPU_ACCOUNTING_GEN"],
    &["TRANSPARENT_HUGEPAGE_ALWAYS", "TRANSPARENT_HUGEPAGE_MADVISE", "TRANSPARENT_HUGEPAGE_NEVER"],
    &["CC_OPTIMIZE_FOR_PERFORMANCE", "CC_OPTIMIZE_FOR_SIZE"],
    &["KERNEL_GZIP", "KERNEL_BZIP2", "KERNEL_LZMA", "KERNEL_XZ", "KERNEL_LZO", "KERNEL_LZ4", "KERNEL_ZSTD"],
    &["UNWINDER_ORC", "UNWINDER_FRAME_POINTER", "UNWINDER_GUESS"],
    &["DEBUG_INFO_NONE", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT", "DEBUG_INFO_DWARF4", "DEBUG_INFO_DWARF5"],
];

/// Options that depend on others which our fragments do not set.
const COMPANIONS: &[(&str, &[&str])] = &[
    ("DEBUG_INFO_BTF", &["DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"]),
    ("SCHED_CLASS_EXT", &["DEBUG_INFO_BTF", "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT"]),
];

/// A requested configuration: names without `CONFIG_`, values as Kconfig writes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fragment {
    wanted: BTreeMap<String, Wanted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    value: String,
    /// Requested by the spec, not by the named configuration.
    by_spec: bool,
}

impl Fragment {
    /// Parses a fragment.
    ///
    /// # Errors
    /// Names `name`, the line and its number.
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

    /// Sets options; each replaces the line of its name and those of the other members of its choice.
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

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.wanted.get(name).is_some_and(|wanted| wanted.value == "y")
    }

    /// The text for `KCONFIG_ALLCONFIG`, sorted by name, so that the same request is the same text.
    pub(crate) fn text(&self) -> String {
        let line = |(name, wanted): (&String, &Wanted)| format!("CONFIG_{name}={}\n", quoted(&wanted.value));
        self.wanted.iter().map(line).collect()
    }

    /// Compares the request with what make wrote; `symbols` reads the source's Kconfig files if needed.
    ///
    /// Returns options of the named configuration that this source does not have, as older and newer kernels lack some.
    ///
    /// # Errors
    /// When an option did not take effect: names it, its value, and its dependencies with their values.
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
        // Requests of the spec first.
        refused.sort_by_key(|(_, wanted)| !wanted.by_spec);
        let why = refused.iter().take(6).map(|(name, wanted)| {
            let reason = match symbols.knows(name) {
                false => "this source has no option of that name".to_owned(),
                true => match symbols.depends(name, |option| shown(&written, option)) {
                    Some(depends) => {
                        format!("the configuration says {}; it depends on {depends}", shown(&written, name))
                    }
                    None => format!("the configuration says {}", shown(&written, name)),
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
            false => Err(problem.hint(format!("to give up the options that depend on it, add: {}", ours.join(",")))),
        }
    }
}

/// `CONFIG_NAME=value` or `# CONFIG_NAME is not set`.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let named = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(name) = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set")) {
        return named(name).then_some((name, "n"));
    }
    let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
    (named(name) && !value.is_empty()).then_some((name, value))
}

pub(crate) fn values(config: &str) -> BTreeMap<&str, &str> {
    config.lines().filter_map(|line| assignment(line.trim_end())).collect()
}

fn holds(written: &BTreeMap<&str, &str>, name: &str, value: &str) -> bool {
    let found = written.get(name).copied().unwrap_or("n");
    unquoted(found) == unquoted(value)
}

/// A value for Kconfig, which drops strings without quotation marks (`scripts/kconfig/confdata.c:conf_set_sym_val`, v7.2).
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

fn unquoted(value: &str) -> Cow<'_, str> {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Cow::Borrowed(value);
    };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Cow::Owned(text)
}

fn shown(written: &BTreeMap<&str, &str>, name: &str) -> String {
    match written.get(name).copied() {
        None | Some("n") => "\"not set\"".to_owned(),
        Some(value) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn no_symbols() -> Symbols {
        panic!("the Kconfig files are read only when something was lost")
    }

    fn symbols(text: &str) -> Symbols {
        let mut symbols = Symbols::default();
        symbols.take(text);
        symbols
    }

    #[test]
    fn a_fragment_is_parsed_and_a_malformed_line_is_named() {
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
    fn an_option_sets_its_dependencies_and_explicit_options_win() {
        let mut fragment = Fragment::default();
        fragment.lay_over(&[option("DEBUG_INFO_BTF", "y"), option("DEBUG_INFO_DWARF5", "y")]);
        assert_eq!(fragment.text(), "CONFIG_DEBUG_INFO_BTF=y\nCONFIG_DEBUG_INFO_DWARF5=y\n");
    }

    #[test]
    fn a_configuration_as_requested_is_accepted() {
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
    fn an_option_without_effect_is_named_with_its_dependencies() {
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
    fn an_unknown_option_is_an_error_from_the_spec_and_reported_from_ours() {
        let mut fragment = Fragment::parse("f", "CONFIG_SCHED_CACHE=y\n").unwrap();
        let unknown = fragment.verify("CONFIG_A=y\n", || symbols("config A\n")).unwrap();
        assert_eq!(unknown, ["SCHED_CACHE"]);
        fragment.lay_over(&[option("SCHED_CASH", "y")]);
        let problem = fragment.verify("CONFIG_A=y\n", || symbols("config A\n")).unwrap_err();
        assert_eq!(problem.why, "SCHED_CASH=y: this source has no option of that name");
    }

    #[test]
    fn options_that_an_option_disables_must_be_given_up_by_name() {
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
