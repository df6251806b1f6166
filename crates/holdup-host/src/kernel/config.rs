//! The configuration that the kernel was built with.

use crate::Host;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

/// The options of a kernel, with where they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelConfig {
    /// The file.
    pub source: String,
    options: BTreeMap<String, Stand>,
    is_cut: bool,
}

/// What the lines of a file say about one option.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    Set(String),
    NotSet,
    /// Two lines that cannot both be true.
    Contradicted(String, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelOption<'a> {
    /// It has this value: `y`, `m`, `250`.
    Set(&'a str),
    /// It is off, or this kernel does not have it.
    Off,
    /// Why the file does not say.
    Unknown(String),
}

impl KernelConfig {
    /// Reads the text of a configuration. Never fails: what it does not say is unknown.
    pub fn parse(source: &str, text: &str) -> Self {
        let mut options: BTreeMap<String, Stand> = BTreeMap::new();
        for (name, stand) in text.lines().filter_map(line) {
            let stand = match options.remove(name) {
                Some(before) if before != stand => Stand::Contradicted(before.word(), stand.word()),
                _ => stand,
            };
            options.insert(name.to_owned(), stand);
        }
        // Every file that the kernel's build writes ends its last line.
        KernelConfig { source: source.to_owned(), options, is_cut: !text.ends_with('\n') }
    }

    /// What is said about an option, such as `CONFIG_HZ`.
    pub fn option(&self, name: &str) -> KernelOption<'_> {
        match self.options.get(name) {
            Some(Stand::Set(value)) => KernelOption::Set(value),
            Some(Stand::NotSet) => KernelOption::Off,
            Some(Stand::Contradicted(a, b)) => {
                KernelOption::Unknown(format!("{} says of {name} both `{a}` and `{b}`", self.source))
            }
            None if self.options.is_empty() => KernelOption::Unknown(format!("{} holds no option", self.source)),
            None if self.is_cut => KernelOption::Unknown(format!("{} is cut off before {name}", self.source)),
            None => KernelOption::Off,
        }
    }

    /// The value of an option; `None` when it is off or not known.
    pub fn get(&self, name: &str) -> Option<&str> {
        match self.option(name) {
            KernelOption::Set(value) => Some(value),
            KernelOption::Off | KernelOption::Unknown(_) => None,
        }
    }

    /// True if an option is built in or a module.
    pub fn is_on(&self, name: &str) -> Result<bool, String> {
        match self.option(name) {
            KernelOption::Set(value) => Ok(value == "y" || value == "m"),
            KernelOption::Off => Ok(false),
            KernelOption::Unknown(why) => Err(why),
        }
    }
}

impl Stand {
    fn word(&self) -> String {
        match self {
            Stand::Set(value) => value.clone(),
            Stand::NotSet => "is not set".to_owned(),
            Stand::Contradicted(a, b) => format!("{a}` and `{b}"),
        }
    }
}

/// `CONFIG_HZ=250` or `# CONFIG_HZ_100 is not set`.
fn line(text: &str) -> Option<(&str, Stand)> {
    let text = text.trim();
    let is_name =
        |name: &str| name.starts_with("CONFIG_") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some(name) = text.strip_prefix("# ").and_then(|rest| rest.strip_suffix(" is not set")) {
        return is_name(name).then_some((name, Stand::NotSet));
    }
    let (name, value) = text.split_once('=')?;
    is_name(name).then(|| (name, Stand::Set(value.trim().trim_matches('"').to_owned())))
}

/// The configuration of the host's kernel, or why it is not known.
///
/// For the running system it is read once, because it cannot change while the kernel runs
/// and unpacking it takes longer than all other facts together.
pub(crate) fn kernel_config(host: &Host, release: Option<&str>) -> Result<KernelConfig, String> {
    static RUNNING: OnceLock<Result<KernelConfig, String>> = OnceLock::new();
    if host.is_live() { RUNNING.get_or_init(|| find(host, release)).clone() } else { find(host, release) }
}

fn find(host: &Host, release: Option<&str>) -> Result<KernelConfig, String> {
    const PACKED: &str = "/proc/config.gz";
    let mut tried = vec![PACKED.to_owned()];
    let parse = |path: &str, text: &str| Some(KernelConfig::parse(path, text)).filter(|c| !c.options.is_empty());
    let packed = host.read(PACKED).ok().and_then(|bytes| unpack(&bytes)).and_then(|text| parse(PACKED, &text));
    if let Some(config) = packed {
        return Ok(config);
    }
    // The release is a name from the kernel and becomes part of a path.
    for release in release.into_iter().filter(|r| !r.contains('/')) {
        for path in [
            format!("/boot/config-{release}"),
            format!("/usr/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/config"),
        ] {
            if let Some(config) = host.read_head(&path, LONGEST).ok().and_then(|text| parse(&path, &text)) {
                return Ok(config);
            }
            tried.push(path);
        }
    }
    Err(format!("the kernel's configuration is in none of {}", tried.join(", ")))
}

/// No configuration is longer; a broken or hostile file may unpack without end.
const LONGEST: usize = 4 << 20;

fn unpack(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    GzDecoder::new(bytes).take(LONGEST as u64).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;
    use std::io::Write;

    const TEXT: &str = "# CONFIG_PREEMPT_LAZY is not set\nCONFIG_PREEMPT_NONE=y\nCONFIG_HZ=250\nCONFIG_X=\"a\"\n";

    #[test]
    fn the_packed_file_comes_first_and_a_cut_one_is_passed_by() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(TEXT.as_bytes()).expect("in memory");
        let packed = packer.finish().expect("in memory");
        let fs = MemoryFs::of(&[("/boot/config-6.1", "CONFIG_HZ=100\n")]);
        fs.put("/proc/config.gz", &packed);
        let whole = kernel_config(&fs.host(), Some("6.1")).expect("there");
        assert_eq!((whole.source.as_str(), whole.get("CONFIG_HZ")), ("/proc/config.gz", Some("250")));
        assert_eq!((whole.is_on("CONFIG_PREEMPT_NONE"), whole.is_on("CONFIG_PREEMPT_LAZY")), (Ok(true), Ok(false)));
        fs.put("/proc/config.gz", &packed[..packed.len() / 2]);
        let plain = kernel_config(&fs.host(), Some("6.1")).expect("there");
        assert_eq!((plain.source.as_str(), plain.get("CONFIG_HZ")), ("/boot/config-6.1", Some("100")));
        let none = kernel_config(&fs.host(), Some("../x")).expect_err("no such file");
        assert!(none.contains("/proc/config.gz") && !none.contains(".."), "{none}");
    }

    #[test]
    fn lines_that_contradict_and_files_that_are_cut_leave_an_option_unknown() {
        let check = |text: &str, name: &str, expect: &str| {
            let config = KernelConfig::parse("/c", text);
            let found = match config.option(name) {
                KernelOption::Set(value) => value.to_owned(),
                KernelOption::Off => "off".to_owned(),
                KernelOption::Unknown(why) => why,
            };
            assert!(found.contains(expect), "{text:?} {name}: {found}");
        };
        check(TEXT, "CONFIG_X", "a");
        check(TEXT, "CONFIG_Y", "off");
        check("CONFIG_A=y\nCONFIG_A=y\n", "CONFIG_A", "y");
        check("CONFIG_A=y\n# CONFIG_A is not set\n", "CONFIG_A", "both `y` and `is not set`");
        check("CONFIG_A=y\nCONFIG_A=m\nCONFIG_A=n\n", "CONFIG_A", "both `y` and `m` and `n`");
        check("CONFIG_A=y\nCONFIG_PREEMPT_DYN", "CONFIG_PREEMPT_DYNAMIC", "cut off");
        check("CONFIG_A=y\nCONFIG_PREEMPT_DYN", "CONFIG_A", "y");
        check("", "CONFIG_A", "holds no option");
        check("\0\u{fffd}=\nCONFIG_\u{fffd}=y\nCONFIG_A=\r\n", "CONFIG_A", "");
    }
}
