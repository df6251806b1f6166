//! The bundle: one SQLite file.
