//! Architectures on which nothing here was tried.

use super::Programs;

pub(super) const PROGRAMS: Option<Programs> = None;

pub(super) fn syscall_name(_number: u32) -> Option<&'static str> {
    None
}
