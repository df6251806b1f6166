//! The simulated machine beside models whose answers are known: queues, locks, laws.
//!
//! On a machine on which nothing costs anything, programs are customers, and devices and CPUs are servers. What a model
//! says must come out within 1 % or within the simulation's own interval of 99.9 %, whichever is wider.

mod amdahl;
mod common;
mod hand_over;
mod laws;
mod multi_server;
mod repairman;
mod single_server;
mod ticket_lock;
