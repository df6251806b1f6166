//! The two models, and what an engine has to do for them.
//!
//! Spans and choices are drawn before the clock starts, into tables that are gone through again and again: what is
//! compared is the engines, and a random number with a logarithm takes as long as half an event.

use holdup_sim::random::Random;
use std::collections::VecDeque;

/// Something that keeps one next event for each of some slots.
pub(crate) trait Engine {
    /// `gap_ns` is the mean time between two events, for those that are tuned to it.
    fn new(slots: usize, gap_ns: f64) -> Self;
    /// Gives a slot that has no event its next one.
    fn set(&mut self, slot: usize, at: u64);
    /// The earliest event, which stays.
    fn next(&mut self) -> (u64, usize);
    /// Gives the slot of the earliest event its next one.
    fn replace(&mut self, slot: usize, at: u64);
    /// Takes the earliest event away.
    fn take(&mut self, slot: usize);
}

/// Numbers that were drawn before.
pub(crate) struct Draws {
    values: Vec<u32>,
    at: usize,
}

const DRAWS: usize = 1 << 14;

impl Draws {
    /// Exponentially distributed with a mean, ns, and at least 1.
    pub(crate) fn exponential(seed: u64, mean: f64) -> Self {
        let mut random = Random::new(seed, 0);
        Draws { values: (0..DRAWS).map(|_| (random.exponential() * mean) as u32 + 1).collect(), at: 0 }
    }

    /// Numbers below a bound.
    pub(crate) fn below(seed: u64, bound: usize) -> Self {
        let mut random = Random::new(seed, 1);
        Draws { values: (0..DRAWS).map(|_| random.below(bound as u64) as u32).collect(), at: 0 }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.at = (self.at + 1) % DRAWS;
        u64::from(self.values[self.at])
    }
}

/// The mean time of a message on its way beside the lookahead, ns: so long that 100,000 messages rarely arrive in the same
/// nanosecond.
pub(crate) const MESSAGE_NS: f64 = 1_000_000.0;
/// The least time that a message is on its way, ns.
pub(crate) const LOOKAHEAD_NS: u64 = 1_000;

/// PHOLD (Fujimoto 1990): each message that arrives is sent on to a process chosen at random, after a lookahead and a
/// random time. There are as many messages as processes, and a message keeps its slot. Returns the time of the last
/// event.
pub(crate) fn phold<E: Engine>(processes: usize, events: u64) -> u64 {
    let mut spans = Draws::exponential(1, MESSAGE_NS);
    let mut choices = Draws::below(1, processes);
    let mut engine = E::new(processes, MESSAGE_NS / processes as f64);
    let mut visits = vec![0u32; processes];
    for message in 0..processes {
        engine.set(message, spans.next());
    }
    let mut last = 0;
    for _ in 0..events {
        let (at, message) = engine.next();
        visits[choices.next() as usize] += 1;
        engine.replace(message, at + LOOKAHEAD_NS + spans.next());
        last = at;
    }
    last
}

/// The mean time that a client thinks and is served, ns.
pub(crate) const THINK_NS: f64 = 1_000_000.0;
pub(crate) const SERVICE_NS: f64 = 100_000.0;

/// A closed M/M/c: clients think, queue for one of c servers, are served, and think again. Returns the time of the last
/// event.
pub(crate) fn closed<E: Engine>(clients: usize, servers: usize, events: u64) -> u64 {
    let mut thinks = Draws::exponential(2, THINK_NS);
    let mut services = Draws::exponential(3, SERVICE_NS);
    // The servers are at their limit: each service is two events.
    let mut engine = E::new(clients, SERVICE_NS / servers as f64 / 2.0);
    let mut is_served = vec![false; clients];
    let mut queue = VecDeque::with_capacity(clients);
    let (mut free, mut last) = (servers, 0);
    for client in 0..clients {
        engine.set(client, thinks.next());
    }
    for _ in 0..events {
        let (at, client) = engine.next();
        last = at;
        if is_served[client] {
            is_served[client] = false;
            engine.replace(client, at + thinks.next());
            match queue.pop_front() {
                Some(next) => {
                    is_served[next] = true;
                    engine.set(next, at + services.next());
                }
                None => free += 1,
            }
        } else if free > 0 {
            free -= 1;
            is_served[client] = true;
            engine.replace(client, at + services.next());
        } else {
            queue.push_back(client);
            engine.take(client);
        }
    }
    last
}
