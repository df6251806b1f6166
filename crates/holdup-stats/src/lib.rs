//! Estimates, intervals, verdicts.
#![forbid(unsafe_code)]
