//! What frames are read as: by cases with their expectation, and by thousands of random ones with tshark 4.6 as the judge.

#[path = "../judge/mod.rs"]
mod judge;

mod cases;
mod lines;
mod random;
