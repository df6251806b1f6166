//! Who runs next.

pub mod eevdf;
pub(crate) mod tree;
