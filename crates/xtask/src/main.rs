//! What developers run: checks, generated docs.

fn main() {}
