//! What `stream` is made of: N connections that carry data for a while.

pub mod profile;
