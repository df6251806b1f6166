//! Nothing: a build of an example has the features that dev-dependencies add, so one with it finds what tests were built with.
fn main() {}
