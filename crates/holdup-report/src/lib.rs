//! Findings to terminal, HTML, Markdown, JSON, CSV.
#![forbid(unsafe_code)]
