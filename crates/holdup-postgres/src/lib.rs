//! PostgreSQL under test, and pgbench.
//!
//! In it: servers that are found, started in a private directory, changed, ended and removed ([`Cluster`]), servers that
//! exist already and are never started, stopped or restarted ([`External`]), and [`pgbench`] with the reader of its logs
//! ([`pgbench_log`]). Both kinds of server are a [`PostgresControl`] for knobs and collectors.
//!
//! Not in it: connections (`holdup-sql`), and what is found of a server without asking it (`holdup-survey`).
//!
//! Start with [`cluster`] and [`pgbench`]'s `session.rs`.
//!
//! [`PostgresControl`]: holdup_host::postgres::PostgresControl

pub mod child;
pub mod cluster;
mod control;
pub mod external;
pub mod facts;
pub mod find;
mod network;
pub mod pgbench;
pub mod pgbench_log;
pub mod private_dir;
mod server;
pub mod sql;
mod template;
pub mod user;

pub use cluster::{Cluster, ClusterOptions, sweep_stale};
pub use external::External;
pub use find::Binaries;
pub use private_dir::PrivateDir;
pub use user::RunAs;
