//! What the scheduler is holding up, what it costs and what fixes it.

fn main() {}
