//! Timelines in the forms that trace viewers open.

pub(crate) mod lanes;
mod perfetto;

pub use perfetto::perfetto;
