//! One trial of `ping`: the coordinator's side.
//!
//! Both ends run from before the warm-up until after the window; nothing of theirs is stopped or reset at its edges, at
//! which the coordinator reads their counts and the kernel's. Each message says itself whether it was sent while the
//! window was open: those count for latency, whenever they or their answers come. After the window the client sends
//! no more, the server reads until all that was sent has come or was dropped, and the client until all answers have.

use crate::ping::client::{Client, State};
use crate::ping::inbox::Inbox;
use crate::ping::order::Order;
use crate::ping::outbox::Outbox;
use crate::ping::region::{CLIENT, ENDS, Region, SERVER, Slot, ending};
use crate::ping::results::{self, Done, Edge, used};
use crate::ping::schedule::Schedule;
use crate::ping::server::Server;
use crate::ping::setup::{Recording, Setup};
use crate::ping::sockets::{self, End, Ends};
use holdup_catalogue::ping::Mode;
use holdup_load::board::phase;
use holdup_load::clock::now_ns;
use holdup_load::drive::{self, Team};
use holdup_load::record;
use holdup_load::worker_pool::{Job, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_model::Problem;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the ends are called, by their slot.
const NAMES: [&str; ENDS] = ["the client", "the server"];

/// Runs one trial between two ends.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled, of kind `Host` when the kernel does not
/// count its drops.
pub(crate) fn run(setup: &Setup, ends: Ends, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let unknown = |e: io::Error| Problem::host("drops of a socket", e.to_string());
    if setup.protocol.may_lose() {
        sockets::drops(&*ends.server).map_err(unknown)?;
    }
    let region = Region::new(ENDS).map_err(|e| Problem::trial("ping", format!("no memory for its counts: {e}")))?;
    let region = Arc::new(region);
    // In the order of their slots.
    let jobs = vec![client_job(setup, &region, &ends.client, false), server_job(setup, &region, &ends.server, 0)];
    let pair = Pair { region: region.clone(), pool: start(setup, &region, jobs)? };
    let edge = || edge(setup, &region, &ends);
    let (begin, end) = drive::through(trial, region.stage(), ENDS, pair, edge)?;
    let drops = |of: &End| if setup.protocol.may_lose() { sockets::drops(of) } else { Ok(0) };
    let unknown = |e: io::Error| Problem::trial("drops of a socket", e.to_string());
    results::of(&Done {
        setup,
        region: &region,
        begin: &begin,
        end: &end,
        drops: [drops(&ends.client).map_err(unknown)?, drops(&ends.server).map_err(unknown)?],
        strangers: ends.client.strangers() + ends.server.strangers(),
        one_way: &record::together(std::iter::once(&region.slot(SERVER).latency)),
        used: [CLIENT, SERVER].map(|end| used(region.slot(end))),
        apart: None,
    })
}

/// Starts ends.
///
/// # Errors
/// Of kind `Trial` when they cannot be started.
pub(crate) fn start(setup: &Setup, region: &Arc<Region>, jobs: Vec<Job>) -> Result<WorkerPool, Problem> {
    let stop = region.clone();
    WorkerPool::start(setup.sharing, "ping", jobs, move || stop.stage().enter(phase::STOP))
}

/// Waits until ends have ended, of which one may have given up.
///
/// # Errors
/// Of kind `Trial` when one did not end well.
pub(crate) fn finish(region: &Region, pool: WorkerPool, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
    pool.finish(hurry).map_err(|problem| Problem { why: named(&problem.why), ..problem })?;
    gave_up(region).map_or(Ok(()), |why| Err(Problem::trial("the end of the trial", why)))
}

/// The two ends at work. Dropping ends both.
struct Pair {
    region: Arc<Region>,
    pool: WorkerPool,
}

/// Why an end gave up, if one did.
pub(crate) fn gave_up(region: &Region) -> Option<String> {
    let mut broken = region.slots().zip(NAMES).filter(|(slot, _)| slot.has_broken()).collect::<Vec<_>>();
    // That the other end is gone explains least.
    broken.sort_by_key(|(slot, _)| slot.ending.load(Ordering::Acquire) == ending::CLOSED);
    broken.first().map(|(slot, name)| format!("{name} gave up: {}", why(slot)))
}

fn why(slot: &Slot) -> String {
    let detail = slot.detail.load(Ordering::Relaxed);
    match slot.ending.load(Ordering::Acquire) {
        ending::CLOSED => "the other end closed the connection".to_owned(),
        ending::WRONG_SIZE => format!("{detail} bytes came that are no message of this trial"),
        ending::GARBLED => format!("message number {detail} came where it does not belong: others write to the socket"),
        ending::STUCK => format!("the other end took {detail} bytes of a message and then no more"),
        _ => {
            let error = io::Error::from_raw_os_error(i32::try_from(detail).unwrap_or(0));
            format!("the kernel refused to send or receive: {error}")
        }
    }
}

impl Team for Pair {
    fn failed(&mut self) -> Option<String> {
        let reason = gave_up(&self.region);
        let reason = reason.or_else(|| self.pool.failed().map(|early| named(&early)));
        // An end that gave up between the two looks has said so before it ended.
        reason.map(|reason| gave_up(&self.region).unwrap_or(reason))
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        finish(&self.region, self.pool, hurry)
    }
}

/// What a pool says of its worker 0 or 1, said of an end.
pub(crate) fn named(early: &str) -> String {
    let ends = [
        ("worker 0", NAMES[CLIENT]),
        ("thread 0", NAMES[CLIENT]),
        ("worker 1", NAMES[SERVER]),
        ("thread 1", NAMES[SERVER]),
    ];
    let found = ends.iter().find_map(|(begin, name)| early.strip_prefix(begin).map(|rest| format!("{name}{rest}")));
    found.unwrap_or_else(|| early.to_owned())
}

/// The end that sends.
pub(crate) fn client_job(setup: &Setup, region: &Arc<Region>, end: &Arc<End>, is_apart: bool) -> Job {
    let stream = setup.protocol.is_stream();
    let fd = end.as_fd().as_raw_fd();
    let client = Client {
        region: region.clone(),
        end: end.clone(),
        inbox: Inbox::new(fd, stream, setup.size),
        outbox: Outbox(fd),
        order: Order::of_size(setup.size),
        schedule: match &setup.recorded {
            Some(Recording(recorded)) => Schedule::of_recorded(recorded.clone()),
            None => Schedule::of_rate(setup.rate, setup.burst, setup.size),
        },
        message: vec![0; setup.size],
        size: setup.size,
        burst: setup.burst,
        reply_every: setup.reply_every,
        may_lose: setup.protocol.may_lose(),
        polls: setup.polls,
        closed_loop: setup.mode == Mode::PingPong,
        open_loop: setup.is_open_loop(),
        is_apart,
        cpus: setup.placement.client.clone(),
        state: State::default(),
    };
    Job::new(move || client.run()).keeping([fd])
}

/// The end that receives and answers.
pub(crate) fn server_job(setup: &Setup, region: &Arc<Region>, end: &Arc<End>, client_less_server_ns: i64) -> Job {
    let stream = setup.protocol.is_stream();
    let fd = end.as_fd().as_raw_fd();
    let server = Server {
        region: region.clone(),
        end: end.clone(),
        inbox: Inbox::new(fd, stream, setup.size),
        outbox: Outbox(fd),
        order: Order::of_size(setup.size),
        size: setup.size,
        recorded: setup.recorded.as_ref().map(|Recording(recorded)| recorded.clone()),
        stream,
        may_lose: setup.protocol.may_lose(),
        polls: setup.polls,
        bare_answer: setup.mode == Mode::PingPong,
        cpus: setup.placement.server.clone(),
        client_less_server_ns,
        place: 0,
    };
    Job::new(move || server.run()).keeping([fd])
}

/// Reads the counts of both ends and the kernel's.
fn edge(setup: &Setup, region: &Region, ends: &Ends) -> Edge {
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let (client, server) = (region.slot(CLIENT), region.slot(SERVER));
    // The clock in the middle, so that half of what happens during the reading falls on either side.
    let delivered = count(&server.received.0);
    let delivered_bytes = count(&server.received_bytes);
    let at_ns = now_ns();
    Edge {
        at_ns,
        sent: count(&client.sent.0),
        delivered,
        delivered_bytes,
        answered: count(&client.received.0),
        dropped: if setup.protocol.may_lose() { sockets::drops(&*ends.server).unwrap_or(0) } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ping::sockets::{Here, endpoints};
    use crate::testing::Hooks;
    use holdup_catalogue::ping;
    use holdup_host::Host;
    use holdup_load::Cancel;
    use holdup_model::{Measurement, Value};
    use rustix::net::{SendFlags, Shutdown};
    use std::net::{Ipv4Addr, UdpSocket};

    /// Runs a trial, in whose window something is done to its ends.
    fn disturbed(changes: &[(&str, Value)], disturb: &mut dyn FnMut(&Ends)) -> Result<Vec<Measurement>, Problem> {
        let mut parameters = ping::Parameters::defaults(2);
        for (name, value) in changes {
            parameters.set(name, value.clone());
        }
        let setup = Setup::read(&parameters, &Host::real()).expect("valid");
        let ends = endpoints(&setup, &Here(Ipv4Addr::LOCALHOST.into())).expect("the loopback interface is up");
        let outside = ends.clone();
        let trial = TrialContext {
            parameters: &parameters,
            warmup_ns: 5_000_000,
            duration_ns: 100_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: Cancel::default(),
            window: &mut Hooks(&mut || disturb(&outside)),
        };
        run(&setup, ends, trial).map(|result| result.measurements)
    }

    const KINDS: [(&str, &str); 2] = [("sharing", "threads"), ("sharing", "processes")];

    #[test]
    fn an_end_that_is_closed_on_one_side_voids_the_trial() {
        for kind in KINDS {
            for (protocol, mode) in [("tcp", "ping-pong"), ("unix-stream", "throughput"), ("tcp", "under-load")] {
                let changes =
                    [("protocol", protocol), ("mode", mode), kind].map(|(name, word)| (name, Value::from(word)));
                let problem = disturbed(&changes, &mut |ends| {
                    rustix::net::shutdown(&ends.client, Shutdown::Write).expect("it is connected");
                })
                .expect_err("nothing can be sent any more");
                assert_eq!(problem.kind, holdup_model::ProblemKind::Trial);
                assert!(problem.why.contains("the other end closed the connection"), "{changes:?}: {problem}");
            }
        }
    }

    #[test]
    fn foreign_bytes_void_the_trial() {
        for kind in KINDS {
            // More than a message and less than one, so that all after it is out of step.
            for extra in [&[0xFFu8; 14][..], &[1u8; 3][..]] {
                let changes = [("protocol", "tcp"), ("mode", "under-load"), kind];
                let problem = disturbed(&changes.map(|(name, word)| (name, Value::from(word))), &mut |ends| {
                    rustix::net::send(&ends.client, extra, SendFlags::empty()).expect("it is connected");
                })
                .expect_err("the stream is garbled");
                assert!(problem.why.contains("others write to the socket"), "{problem}");
            }
        }
    }

    #[test]
    fn foreign_datagrams_void_the_trial() {
        let mut message = [0u8; 14];
        let far_away =
            crate::ping::message::Message { number: 1 << 40, sent_ns: Some(0), answer: false, counts: false };
        far_away.write(&mut message);
        for (bytes, expect) in [(&message[..], "messages: "), (&[0u8; 15][..], "15 bytes came")] {
            let changes = [("mode", "under-load".into())];
            let problem = disturbed(&changes, &mut |ends| {
                rustix::net::send(&ends.client, bytes, SendFlags::empty()).expect("it is connected");
            })
            .expect_err("more came than was sent");
            assert!(problem.to_string().contains(expect), "{problem}");
        }
    }

    #[test]
    fn strangers_on_the_port_are_counted_apart_and_take_no_room() {
        // So few messages that the queue holds all of them, also on a busy machine.
        let changes = [("mode", "under-load".into()), ("rate", 200.into()), ("receive_buffer", 65_536.into())];
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let measurements = disturbed(&changes, &mut |ends| {
            for end in [&ends.client, &ends.server] {
                let at = sockets::own_address(end).expect("bound");
                for _ in 0..1_000 {
                    stranger.send_to(&[7; 14], at).expect("sent");
                }
                assert!(UdpSocket::bind(at).is_err(), "no other socket can have the port");
            }
        })
        .expect("the trial is not disturbed");
        let metric = |id: &str| measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value());
        assert_eq!(metric("strangers"), Some(2_000.0));
        assert_eq!(metric("messages_sent"), metric("messages_received"));
        assert_eq!(metric("messages_dropped"), Some(0.0));
    }

    #[test]
    fn a_number_known_modulo_2_32_is_the_one_that_fits_best() {
        use crate::ping::results::unwrapped;
        for (modulo, should_be, expect) in [
            (0, 0, 0),
            (5, 5, 5),
            (5, 7, 5),
            (7, 5, 7),
            (1, (1 << 32) + 1, (1 << 32) + 1),
            (u32::MAX, 1 << 32, (1 << 32) - 1),
            (3, (5 << 32) + 1, (5 << 32) + 3),
        ] {
            assert_eq!(unwrapped(modulo, should_be), expect, "{modulo} for {should_be}");
        }
    }
}
