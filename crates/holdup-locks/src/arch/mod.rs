//! What differs between architectures: a file for each that something was written for.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use {aarch64 as here, aarch64 as turns};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use other as here;

#[cfg(not(target_arch = "aarch64"))]
mod no_turns;
#[cfg(not(target_arch = "aarch64"))]
use no_turns as turns;

pub(crate) use here::call;
pub(crate) use turns::{HAS_TURNS_OF_ARM64, wait_while_held, yield_turn};
