//! Runs in parts on a cluster: Slurm is where they run, and what they run are parts of one schedule.
//!
//! [`cut()`] makes parts of a schedule, [`Job`] is all that a node has to know of a run and [`RunFolder`] where it reads it,
//! [`Slurm`] speaks to the programs of Slurm, and [`follow()`] ends when every part is there: it submits, watches,
//! repeats what a node lost, brings and fetches where nothing is shared (`stage.rs`), and hands the parts on in the order of the
//! schedule.
//!
//! Not here: how a part is run and how parts become one bundle (`holdup-target`). Nothing here prints. Start with
//! `follow.rs`.
#![forbid(unsafe_code)]

mod client;
mod cut;
mod decide;
mod folder;
mod follow;
mod job;
mod limits;
mod queue;
mod script;
mod stage;

pub use client::{Partition, Slurm};
pub use cut::{Span, cut, even};
pub use folder::RunFolder;
pub use follow::{Collected, Follow, Piece, follow};
pub use job::{Job, Kind, Options, Stage};
pub use limits::{Needs, arguments, check_time};
pub use queue::{Mark, Node, State, Task, Usable, accounted, cancelled_waiting, exit_code, nodes, partitions, tasks};
