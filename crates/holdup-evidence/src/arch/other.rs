//! Architectures on which nothing here was tried.

pub(super) const HAS_PROGRAMS: bool = false;
pub(super) const UNWINDS: bool = false;

pub(super) fn syscall_name(_number: u32) -> Option<&'static str> {
    None
}
