//! Running a profile: strands as threads or processes, those of client and server in pairs.
//!
//! [`pass`] prepares the strands and leads them through their transactions, [`run`] is what a strand does, [`link`] its
//! connections, [`counts`] what it counts, [`results`] what becomes of that.

mod counts;
mod link;
pub mod pass;
mod prepare;
mod results;
mod run;
