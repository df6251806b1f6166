//! Spinning for locks while more clients run than there are CPUs.

use super::{About, Case};
use crate::condition::{self, Condition};
use crate::words::percent;
use holdup_model::Meta;
use holdup_model::survey::{Advice, Server, Survey, Weight};

static META: Meta = Meta {
    id: "spin-oversubscription",
    summary: "waiting for spinlocks with more running clients than CPUs",
    docs: "A backend that finds a spinlock taken spins 10 to 1000 times and then sleeps for at least 1 ms, growing up \
           to 1 s. With as many running backends as CPUs the holder is running and gone soon. With more, the holder \
           may have lost its CPU, and everybody behind it spins away the CPU that it needs, then sleeps far longer \
           than the lock is held.\n\n\
           The server shows such a sleep as the wait event SpinDelay from version 16 on; holdup samples it where it \
           has a connection. Backends that spin without sleeping do not show.",
    references: &[
        "src/backend/storage/lmgr/s_lock.c:perform_spin_delay (PostgreSQL 15.18, 17.11, 18.6)",
        "rjuju, Diagnostic of an unexpected slowdown, 2018-07-03",
    ],
};

/// Fewer looks than this at running clients say nothing about a wait that takes a few per cent of the time.
const ENOUGH_LOOKS: u64 = 50;

pub static CASE: Case =
    Case { meta: &META, weight: Weight::High, report: None, about: About::Server { conditions, advice } };

fn conditions(survey: &Survey, server: &Server) -> Vec<Condition> {
    vec![oversubscribed(survey, server), waits(server)]
}

fn advice(_survey: &Survey, _server: &Server) -> Vec<Advice> {
    vec![Advice {
        action: "let a connection pool in transaction mode keep the running clients near the number of CPUs".to_owned(),
        evidence: "with 1500 connections on 80 threads, queries of 6.5 ms took 670 ms and s_lock 9 % of the CPU \
                   time (PostgreSQL 9.3, 2018, cured by smaller shared_buffers without huge pages); from the \
                   source, a waiter behind a holder without a CPU loses at least 1 ms"
            .to_owned(),
        undo: "connect to the server itself again".to_owned(),
    }]
}

fn oversubscribed(survey: &Survey, server: &Server) -> Condition {
    match server.active_clients.get() {
        None => Condition::unknown("The number of its running clients", &server.active_clients),
        Some(active) => condition::more_than_cpus(
            survey,
            server,
            *active,
            &format!("{active} of its clients run now"),
            ("fewer running clients than CPUs", "more running clients than CPUs: look again under load"),
        ),
    }
}

fn waits(server: &Server) -> Condition {
    match server.spin_waits.get() {
        None => Condition::unknown("How long its clients wait for spinlocks", &server.spin_waits),
        Some(waits) if waits.waiting > 0 => Condition::new(
            Some(true),
            format!(
                "At {} of {} looks a running client slept for a spinlock ({}).",
                waits.waiting,
                waits.looks,
                percent(waits.waiting as f64 / waits.looks.max(1) as f64)
            ),
            "no waits for spinlocks",
        ),
        Some(waits) if waits.looks >= ENOUGH_LOOKS => Condition::new(
            Some(false),
            format!("At none of {} looks a running client slept for a spinlock.", waits.looks),
            "waits for spinlocks: look again at the time of the trouble",
        ),
        Some(waits) => Condition::new(
            None,
            format!("Running clients were seen at {} looks only, none of them slept for a spinlock.", waits.looks),
            "look again under load",
        ),
    }
}
