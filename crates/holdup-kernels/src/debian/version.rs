//! Debian's version numbers and kernel names. The order is dpkg's, in 45 lines and a table of cases; a crate would replace only
//! these.

use std::cmp::Ordering;

/// Orders versions as dpkg does (deb-version(7)).
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (epoch_a, upstream_a, revision_a) = parts(a);
    let (epoch_b, upstream_b, revision_b) = parts(b);
    epoch_a
        .cmp(&epoch_b)
        .then_with(|| compare_part(upstream_a.as_bytes(), upstream_b.as_bytes()))
        .then_with(|| compare_part(revision_a.as_bytes(), revision_b.as_bytes()))
}

fn parts(version: &str) -> (u64, &str, &str) {
    let (epoch, rest) = match version.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, version),
    };
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch, upstream, revision)
}

/// The upstream version: `7.0.13` of `7.0.13-1~bpo13+1`.
pub(crate) fn upstream(version: &str) -> &str {
    parts(version).1
}

fn compare_part(mut a: &[u8], mut b: &[u8]) -> Ordering {
    // A tilde comes before the end, the end before letters, letters before the rest.
    let weight = |byte: Option<&u8>| match byte {
        Some(b'~') => -1,
        Some(digit) if digit.is_ascii_digit() => 0,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => i32::from(*other) + 256,
    };
    while !a.is_empty() || !b.is_empty() {
        let is_text = |part: &[u8]| part.first().is_some_and(|byte| !byte.is_ascii_digit());
        while is_text(a) || is_text(b) {
            match weight(a.first()).cmp(&weight(b.first())) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let (digits_a, rest_a) = digits(a);
        let (digits_b, rest_b) = digits(b);
        match digits_a.len().cmp(&digits_b.len()).then_with(|| digits_a.cmp(digits_b)) {
            Ordering::Equal => (a, b) = (rest_a, rest_b),
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// Leading digits without zeros in front, and the rest.
fn digits(part: &[u8]) -> (&[u8], &[u8]) {
    let end = part.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(part.len());
    let begin = part[..end].iter().position(|byte| *byte != b'0').unwrap_or(end);
    (&part[begin..end], &part[end..])
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelName<'a> {
    /// `7.0.13+deb13-cloud-amd64`.
    pub(crate) release: &'a str,
    /// `7.0.13+deb13`, `6.1.0-50`.
    pub(crate) abi: String,
    /// `cloud`, `rt`, `16k`; `None` for the default.
    pub(crate) flavour: Option<String>,
}

/// Parses `linux-image-7.0.13+deb13-cloud-amd64`; `None` for metapackages and the like.
pub(crate) fn kernel_name<'a>(package: &'a str, architecture: &str) -> Option<KernelName<'a>> {
    let release = package.strip_prefix("linux-image-").or_else(|| package.strip_prefix("linux-binary-"))?;
    let parts: Vec<&str> = release.split('-').collect();
    let at = parts.iter().position(|part| *part == architecture)?;
    let (before, after) = (parts.get(..at)?, parts.get(at + 1..)?);
    let is_flavour = |part: &&&str| part.starts_with(|c: char| c.is_ascii_alphabetic());
    let in_front = before.last().filter(is_flavour);
    let flavour = match (in_front, after) {
        (Some(flavour), []) | (None, [flavour]) => Some((**flavour).to_owned()),
        (None, []) => None,
        _ => return None,
    };
    if matches!(flavour.as_deref(), Some("unsigned" | "dbg")) {
        return None;
    }
    let abi = before.get(..before.len() - usize::from(in_front.is_some()))?.join("-");
    // `linux-image-6.12-amd64` depends on the newest 6.12.
    let numbers = abi.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    (numbers.split('.').count() >= 3).then_some(KernelName { release, abi, flavour })
}

/// True if a requested version is a kernel's version, a prefix of it, or its ABI.
pub(crate) fn fits(wanted: &str, version: &str, abi: &str) -> bool {
    let upstream = upstream(version);
    let begins = upstream.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    begins || version == wanted || abi == wanted
}

/// The distance of a version from a requested one, most significant number first.
pub(crate) fn distance(wanted: &str, version: &str) -> Vec<u64> {
    let numbers = |text: &str| -> Vec<i64> {
        text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0)).take(3).collect()
    };
    let (wanted, is) = (numbers(wanted), numbers(upstream(version)));
    (0..3).map(|at| wanted.get(at).map_or(0, |w| w.abs_diff(is.get(at).copied().unwrap_or(0)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_dpkg_does() {
        let ordered = [
            "5.10.251-1",
            "6.1.99-1",
            "6.1.176-1",
            "6.12.94-1~bpo12+1",
            "6.12.94-1",
            "6.12.94-1+b1",
            "6.19.6-1",
            "6.19.14-1~bpo13+1",
            "7.0~rc1-1",
            "7.0-1",
            "7.0.4-1",
            "7.0.13-1~bpo13+1",
            "1:0.1-1",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("7.00-1", "7.0-1"), Ordering::Equal);
        assert_eq!(compare("7.0a-1", "7.0-1"), Ordering::Greater);
    }

    #[test]
    fn package_names_are_parsed() {
        let of = |name| kernel_name(name, "amd64").map(|k| (k.abi, k.flavour.unwrap_or_default()));
        let is = |abi: &str, flavour: &str| Some((abi.to_owned(), flavour.to_owned()));
        assert_eq!(of("linux-image-6.1.0-50-rt-amd64"), is("6.1.0-50", "rt"));
        assert_eq!(of("linux-binary-7.0.13+deb13-amd64"), is("7.0.13+deb13", ""));
        assert_eq!(of("linux-image-6.12.90+deb12.1-cloud-amd64"), is("6.12.90+deb12.1", "cloud"));
        for other in [
            "linux-image-6.12-amd64",
            "linux-image-amd64",
            "linux-image-7.0.13+deb13-amd64-dbg",
            "linux-image-7.0.13+deb13-amd64-unsigned",
            "linux-base-7.0.13+deb13-amd64",
            "linux-image-7.0.13+deb13-arm64",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let arm = kernel_name("linux-image-7.0.13+deb13-arm64-16k", "arm64").unwrap();
        assert_eq!((arm.abi.as_str(), arm.flavour.as_deref()), ("7.0.13+deb13", Some("16k")));
    }

    #[test]
    fn versions_match_by_prefix_whole_or_abi() {
        assert!(fits("7.0", "7.0.13-1~bpo13+1", "7.0.13+deb13"));
        assert!(fits("7.0.13", "7.0.13-1~bpo13+1", "7.0.13+deb13"));
        assert!(fits("6.1.0-50", "6.1.176-1", "6.1.0-50"));
        assert!(fits("7.0.13-1~bpo13+1", "7.0.13-1~bpo13+1", "7.0.13+deb13"));
        assert!(!fits("7.0.1", "7.0.13-1~bpo13+1", "7.0.13+deb13"));
        assert!(!fits("7", "70.1-1", "70.1.0"));
        let mut near = ["6.12.1-1", "7.3.4-1", "7.0.4-1", "6.19.14-1", "7.0.12-1"];
        near.sort_by_key(|version| distance("7.0.13", version));
        assert_eq!(near, ["7.0.12-1", "7.0.4-1", "7.3.4-1", "6.12.1-1", "6.19.14-1"]);
    }
}
