//! Who runs next.

pub mod alone;
mod bandwidth;
pub mod cfs;
pub mod eevdf;
pub(crate) mod fair;
pub mod group;
pub(crate) mod line;
pub(crate) mod rt;
pub(crate) mod rules;
pub(crate) mod tree;
pub mod weight;
