//! Timelines in the forms that trace viewers open.

mod perfetto;

pub use perfetto::perfetto;
