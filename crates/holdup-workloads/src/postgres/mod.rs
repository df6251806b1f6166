//! PostgreSQL under test: found, started in a private directory, changed, ended and removed.
//!
//! [`Cluster`] is a temporary server of holdup's own; [`External`] is one that exists already and is
//! never started, stopped or restarted. Both are a [`PostgresControl`] for knobs and collectors.
//!
//! [`PostgresControl`]: holdup_host::postgres::PostgresControl

pub(crate) mod child;
pub mod cluster;
mod control;
pub mod external;
pub mod facts;
pub mod find;
pub mod private_dir;
mod server;
pub(crate) mod sql;
mod template;
pub mod user;

pub use cluster::{Cluster, ClusterOptions, sweep_stale};
pub use external::External;
pub use find::Binaries;
pub use private_dir::PrivateDir;
pub use user::RunAs;
