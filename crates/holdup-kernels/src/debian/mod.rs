//! Debian's archive, accessed through apt.

mod apt;
mod kernels;
pub(crate) mod version;

pub(crate) use apt::{Apt, Found, Kind, Request};
pub use kernels::Available;
pub(crate) use kernels::{available, belongs, choose, config_below, fetch, image_below, modules_below};

pub(crate) fn architecture(arch: &str) -> Option<&'static str> {
    match arch {
        "x86_64" => Some("amd64"),
        "aarch64" => Some("arm64"),
        "s390x" => Some("s390x"),
        _ => None,
    }
}
