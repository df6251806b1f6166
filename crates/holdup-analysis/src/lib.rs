//! Evidence to findings, one file per analysis.
#![forbid(unsafe_code)]
