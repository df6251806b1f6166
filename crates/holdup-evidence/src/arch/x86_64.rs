//! x86-64.

pub(super) const HAS_PROGRAMS: bool = true;
pub(super) const UNWINDS: bool = true;

pub(super) fn syscall_name(number: u32) -> Option<&'static str> {
    syscalls::Sysno::new(number as usize).map(|known| known.name())
}
