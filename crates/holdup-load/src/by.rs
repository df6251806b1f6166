//! The parameter `by`: which program measures, where an original tool can.

/// The parameter.
pub const BY: &str = "by";
/// The level that means holdup's own engine.
pub const OWN: &str = "holdup";
