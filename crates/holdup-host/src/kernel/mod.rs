//! The kernel: which one, how it was built and how it was started.

mod config;
mod preempt;

use crate::Host;
use crate::text::{chosen, one_line, shown};
pub(crate) use config::kernel_config;
pub use config::{KernelConfig, KernelOption};
use holdup_model::KernelVersion;
use holdup_model::survey::{Kernel, Preemption, Reading};
pub use preempt::preemption as preemption_of;

/// What the other parts of facts and survey depend on.
pub struct KernelFacts {
    /// `uname -r`.
    pub release: Reading<String>,
    /// The numbers at its head.
    pub version: Reading<KernelVersion>,
    /// True if its vendor puts newer parts into older versions, so that a version alone decides nothing.
    pub has_backports: bool,
    /// `uname -m`.
    pub architecture: Reading<String>,
    pub command_line: Reading<String>,
    /// What it was built with, or why that is not known.
    pub config: Result<KernelConfig, String>,
    /// `none`, `integrity` or `confidentiality`.
    pub lockdown: Reading<String>,
}

impl KernelFacts {
    /// Reads them.
    pub fn of(host: &Host) -> Self {
        let release = one_line(host, "/proc/sys/kernel/osrelease");
        let config = kernel_config(host, release.get().map(String::as_str));
        let version = release.clone().and_then(|release| {
            KernelVersion::of_release(&release)
                .ok_or_else(|| format!("`{}` does not begin with a version", shown(&release)))
        });
        let architecture = architecture(host, &release, config.as_ref().ok());
        KernelFacts {
            command_line: command_line(host),
            lockdown: lockdown(host),
            has_backports: release.get().is_some_and(|r| has_backports(r)),
            release,
            version,
            architecture,
            config,
        }
    }

    /// Whether an option of the configuration is on.
    pub fn option(&self, name: &str) -> Reading<bool> {
        match &self.config {
            Err(why) => Reading::unknown("the kernel's configuration", why.clone()),
            Ok(config) => match config.is_on(name) {
                Ok(on) => Reading::found(on, config.source.clone()),
                Err(why) => Reading::unknown(config.source.clone(), why),
            },
        }
    }
}

/// The preemption model in force.
pub fn preemption(host: &Host) -> Preemption {
    preempt::preemption(host, &KernelFacts::of(host))
}

/// What a survey says of the kernel.
pub fn kernel(host: &Host, facts: &KernelFacts) -> Kernel {
    Kernel {
        release: facts.release.clone(),
        version: facts.version.clone(),
        has_backports: facts.has_backports,
        architecture: facts.architecture.clone(),
        command_line: facts.command_line.clone(),
        lockdown: facts.lockdown.clone(),
        hz: hz(facts),
        distribution: distribution(host),
    }
}

/// A kernel that was started without a word shows a line without a word; a file without a line is a masked one.
fn command_line(host: &Host) -> Reading<String> {
    const PATH: &str = "/proc/cmdline";
    match host.read_head_bytes(PATH, 2) {
        Ok(bytes) if bytes == b"\n" => Reading::found(String::new(), PATH),
        _ => one_line(host, PATH),
    }
}

/// The kernels of Red Hat and SUSE, and those made of them, carry much of later versions under an old number.
fn has_backports(release: &str) -> bool {
    // 5.14.21-150500.55.19-default
    let is_of_suse = release.ends_with("-default") && release.contains("-15");
    is_of_suse
        || release.split(['.', '-', '_']).any(|part| {
            part == "el7uek" || part.strip_prefix("el").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        })
}

/// The machine's word as `uname -m` prints it. A captured tree has it in
/// the release of many distributions, in the configuration, or in the fields of /proc/cpuinfo.
fn architecture(host: &Host, release: &Reading<String>, config: Option<&KernelConfig>) -> Reading<String> {
    if host.is_live() {
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        return Reading::found(machine, "uname(2)");
    }
    const ARCH: &str = "/proc/sys/kernel/arch";
    if let Ok(word) = host.read_value(ARCH)
        && !word.is_empty()
    {
        return Reading::found(word, ARCH);
    }
    if let Some(config) = config {
        let options = [
            ("CONFIG_X86_64", "x86_64"),
            ("CONFIG_ARM64", "aarch64"),
            ("CONFIG_PPC64", "ppc64le"),
            ("CONFIG_S390", "s390x"),
            ("CONFIG_RISCV", "riscv64"),
            ("CONFIG_LOONGARCH", "loongarch64"),
            ("CONFIG_ARM", "armv7l"),
            ("CONFIG_X86_32", "i686"),
        ];
        if let Some((_, word)) = options.iter().find(|(name, _)| config.option(name) == KernelOption::Set("y")) {
            return Reading::found((*word).to_owned(), config.source.clone());
        }
    }
    let words = [
        ("amd64", "x86_64"),
        ("x86_64", "x86_64"),
        ("arm64", "aarch64"),
        ("aarch64", "aarch64"),
        ("ppc64le", "ppc64le"),
        ("s390x", "s390x"),
        ("riscv64", "riscv64"),
    ];
    let parts = || release.get().into_iter().flat_map(|r| r.split(['-', '.', '+']));
    match words.iter().find(|(word, _)| parts().any(|part| part == *word)) {
        Some((_, word)) => Reading::found((*word).to_owned(), release.source.clone()),
        None => Reading::unknown(ARCH, "the tree does not name the architecture")
            .but("capture it with `holdup check --capture FILE`, or write the word of `uname -m` into this file"),
    }
}

fn lockdown(host: &Host) -> Reading<String> {
    const PATH: &str = "/sys/kernel/security/lockdown";
    match host.read_value(PATH) {
        Err(e) if e.kind == std::io::ErrorKind::NotFound => {
            Reading::unknown(PATH, "it does not exist: no lockdown in this kernel, or securityfs is not mounted")
        }
        Err(e) => Reading::unknown(PATH, e.message),
        Ok(text) => match chosen(&text, '[', ']') {
            Some(word) => Reading::found(word.to_owned(), PATH),
            None => Reading::unknown(PATH, format!("no word of `{}` is in brackets", shown(&text))),
        },
    }
}

fn hz(facts: &KernelFacts) -> Reading<u32> {
    match &facts.config {
        Err(why) => Reading::unknown("the kernel's configuration", why.clone()),
        Ok(config) => match config.option("CONFIG_HZ") {
            KernelOption::Set(text) => match text.parse() {
                Ok(hz) => Reading::found(hz, config.source.clone()),
                Err(_) => Reading::unknown(config.source.clone(), format!("CONFIG_HZ is `{}`", shown(text))),
            },
            KernelOption::Off => Reading::unknown(config.source.clone(), "CONFIG_HZ is not in it"),
            KernelOption::Unknown(why) => Reading::unknown(config.source.clone(), why),
        },
    }
}

fn distribution(host: &Host) -> Reading<String> {
    const PATH: &str = "/etc/os-release";
    match host.read_text(PATH) {
        Err(e) => Reading::unknown(PATH, e.message),
        Ok(text) => match text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME=")) {
            Some(name) => Reading::found(name.trim().trim_matches('"').to_owned(), PATH),
            None => Reading::unknown(PATH, "PRETTY_NAME is not in it"),
        },
    }
}

/// Every value of `key=value` on a kernel command line, in its order; what follows ` -- ` is for init.
pub fn all_asked_for<'a>(command_line: &'a str, key: &str) -> Vec<&'a str> {
    let own = command_line.split(" -- ").next().unwrap_or_default();
    let value = |word: &'a str| word.trim_matches('"').strip_prefix(key)?.strip_prefix('=');
    own.split_ascii_whitespace().filter_map(value).map(|v| v.trim_matches('"')).collect()
}

/// The last of them.
pub fn asked_for<'a>(command_line: &'a str, key: &str) -> Option<&'a str> {
    all_asked_for(command_line, key).pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_command_line_counts_and_init_s_do_not() {
        let check = |line: &str, expect: Option<&str>| assert_eq!(asked_for(line, "preempt"), expect, "{line}");
        check("quiet preempt=full", Some("full"));
        check("preempt=full preempt=lazy ro", Some("lazy"));
        check("preempt=full -- preempt=none", Some("full"));
        check("preempt=\"none\"", Some("none"));
        check("nopreempt=full preempt", None);
        check("preempt=", Some(""));
    }

    #[test]
    fn vendors_that_put_new_parts_into_old_versions_are_known() {
        for release in [
            "5.14.0-503.el9.x86_64",
            "4.18.0-553.el8_10.x86_64",
            "5.15.0-3.60.5.1.el9uek.x86_64",
            "5.14.21-150500.55.19-default",
        ] {
            assert!(has_backports(release), "{release}");
        }
        for release in ["6.18.15+deb13-amd64", "6.1.141-155.222.amzn2023.aarch64", "6.8.0-45-generic", "6.1.0-elf"] {
            assert!(!has_backports(release), "{release}");
        }
    }
}
