//! Checks of the repository that no compiler makes.
//!
//! Each check is a function from a [`Repo`] to the list of what is wrong; the
//! tests in `tests/tidy.rs` ask for that list to be empty, and each check has
//! its own tests that show it a wrong repository.
#![forbid(unsafe_code)]

pub mod against_guests;
pub mod budgets;
pub mod calibrate;
pub mod catalogues;
pub mod constants;
pub mod curve;
pub mod ignored;
pub mod inside;
pub mod invariants;
pub mod layers;
pub mod opens;
pub mod platforms;
pub mod purity;
pub mod repo;
pub mod reports;
pub mod site;
pub mod texts;
pub mod truth;
pub mod validation;
pub mod web;

pub use repo::Repo;
