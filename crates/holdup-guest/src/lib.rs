//! Guests: virtual machines that boot a plan's kernel with holdup as their first process. [`image`] assembles the initramfs
//! from the host's own files and caches it; [`arch`] has what differs between architectures; [`machine`] chooses QEMU and its accelerator, starts it, and carries frames,
//! console and monitor; [`init`] is the first process in the guest. A guest that panics, hangs or exits is a [`machine::Lost`]
//! with the cause.

pub mod arch;
pub mod image;
pub mod init;
pub mod machine;
