//! The configuration that the kernel was built with.

use crate::Host;
use flate2::read::GzDecoder;
use std::io::Read;
use std::sync::OnceLock;

/// The options that facts are made of, with where they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Config {
    /// The file.
    pub(super) source: String,
    /// Lines such as `CONFIG_HZ=250`, those of interest only.
    options: Vec<(String, String)>,
}

impl Config {
    /// The value of an option (`y`, `250`); `None` when it is not set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether an option is `y`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("y")
    }
}

/// The configuration, or why it is not known.
///
/// For the running system it is read once, because it cannot change while the kernel runs
/// and unpacking it takes longer than all other facts together.
pub(super) fn config(host: &Host, release: Option<&str>) -> Result<Config, String> {
    static RUNNING: OnceLock<Result<Config, String>> = OnceLock::new();
    if host.is_live() { RUNNING.get_or_init(|| find(host, release)).clone() } else { find(host, release) }
}

fn find(host: &Host, release: Option<&str>) -> Result<Config, String> {
    const PACKED: &str = "/proc/config.gz";
    let mut tried = vec![PACKED.to_owned()];
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
            if let Some(config) = host.read_text(&path).ok().and_then(|text| parse(&path, &text)) {
                return Ok(config);
            }
            tried.push(path);
        }
    }
    Err(format!("the kernel's configuration is in none of {}", tried.join(", ")))
}

fn unpack(bytes: &[u8]) -> Option<String> {
    // No configuration is longer; a broken or hostile file may unpack without end.
    const LONGEST: u64 = 4 << 20;
    let mut text = Vec::new();
    GzDecoder::new(bytes).take(LONGEST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn parse(source: &str, text: &str) -> Option<Config> {
    let of_interest = |name: &str| name.starts_with("CONFIG_PREEMPT") || name == "CONFIG_HZ" || name.contains("_LAZY");
    let mut options = Vec::new();
    let mut is_config = false;
    for (name, value) in text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')) {
        is_config = true;
        let name = format!("CONFIG_{name}");
        if of_interest(&name) {
            options.push((name, value.trim().trim_matches('"').to_owned()));
        }
    }
    is_config.then(|| Config { source: source.to_owned(), options })
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
        let whole = config(&fs.host(), Some("6.1")).expect("there");
        assert_eq!((whole.source.as_str(), whole.get("CONFIG_HZ")), ("/proc/config.gz", Some("250")));
        assert!(whole.is_set("CONFIG_PREEMPT_NONE") && !whole.is_set("CONFIG_PREEMPT_LAZY"));
        fs.put("/proc/config.gz", &packed[..packed.len() / 2]);
        let plain = config(&fs.host(), Some("6.1")).expect("there");
        assert_eq!((plain.source.as_str(), plain.get("CONFIG_HZ")), ("/boot/config-6.1", Some("100")));
        let none = config(&fs.host(), Some("../x")).expect_err("no such file");
        assert!(none.contains("/proc/config.gz") && !none.contains(".."), "{none}");
    }
}
