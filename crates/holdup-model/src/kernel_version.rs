//! Versions of Linux.

use serde::Serialize;

/// A kernel's version, as far as what it can do depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KernelVersion {
    /// 6 in 6.18.15.
    pub major: u32,
    /// 18 in 6.18.15.
    pub minor: u32,
}

impl KernelVersion {
    /// The oldest version whose source was read for the tables of this crate.
    pub const OLDEST_READ: Self = KernelVersion::new(5, 4);
    /// The newest one.
    pub const NEWEST_READ: Self = KernelVersion::new(7, 3);

    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        KernelVersion { major, minor }
    }

    /// The version at the head of a release such as `6.18.15+deb13-amd64` or `5.14.0-503.el9.x86_64`.
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        release.as_bytes().first().is_some_and(u8::is_ascii_digit).then_some(KernelVersion { major, minor })
    }

    /// True if the tables of this crate cover the version.
    pub fn is_read(self) -> bool {
        (Self::OLDEST_READ..=Self::NEWEST_READ).contains(&self)
    }
}

impl std::fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
