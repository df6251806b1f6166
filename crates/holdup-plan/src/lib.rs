//! TOML to a checked plan, a design and a seeded order.
#![forbid(unsafe_code)]
