//! Guests: the initramfs, the machine that boots it, and the line to the agent in it.

pub mod image;
pub mod init;
pub mod machine;
