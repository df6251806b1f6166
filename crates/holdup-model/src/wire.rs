//! What the host and the agent say to each other: CBOR (RFC 8949) in [frames](crate::frame).
//!
//! The host gives orders one at a time and waits for the answer; only those that say so may come at any time. Between an
//! order and its answer the agent may send any number of [`Answer::Step`], [`Answer::Note`] and [`Answer::Alive`].
//! Both sides are the same program, so a message that does not fit is a fault and not an older version: the agent's
//! hello carries the version, and another one is refused.

use crate::arm::{Arm, Schedule, TrialSpec};
use crate::bundle::CollectorState;
use crate::ends::{ClientAnswer, ClientHostsView, ClientOrder, ClientPlan};
use crate::environment::{Fact, Machine};
use crate::evidence::Collected;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::trial::Trial;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;

/// From the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Ask everything that the work needs whether it can be had; touches nothing. Answer: [`Answer::Checked`].
    Check(Box<Work>),
    /// Open a session. Answer: [`Answer::Opened`].
    Open(Box<Work>),
    /// Run one trial in the open session. Answer: [`Answer::Ran`].
    Trial {
        /// The arm.
        arm: Box<Arm>,
        /// Its place in the schedule.
        spec: TrialSpec,
        /// The trial's seed.
        seed: u64,
    },
    /// Open a session on the host that makes the load of another one. Answer: [`Answer::Opened`].
    Attend {
        /// The folder of PostgreSQL's programs there; `None` lets the agent look.
        postgres_bin: Option<String>,
        /// All that it may be asked for in that session.
        plan: Box<ClientPlan>,
    },
    /// In that session: do this for the host under test. Answer: [`Answer::OfClient`].
    Client(ClientOrder),
    /// To the host under test: what came of its [`Answer::Clients`], in their order. No answer.
    OfClients(Result<Vec<ClientAnswer>, Problem>),
    /// Put everything back and close the session. Answer: [`Answer::Closed`].
    Close,
    /// Measure what things cost there. Answer: [`Answer::Calibrated`].
    Calibrate {
        /// Ticks per second of a kernel that does not report it; `None` when that is not known either.
        hz: Option<u32>,
    },
    /// End the work under way; its answer follows. May come at any time.
    Cancel,
    /// Read the clock. May come at any time. Answer: [`Answer::Clock`].
    Clock,
    /// Sent each second by a host that may be cut off. May come at any time. No answer.
    Alive,
    /// End the agent, and with it a guest whose first process it is. May come at any time. No answer.
    Off,
}

/// What an agent is to work on: the part of the plan that runs in its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The plan, with only those levels that occur in `schedule`.
    pub plan: Plan,
    /// The arms; the trials are left out.
    pub schedule: Schedule,
    /// The folder of PostgreSQL's programs as the agent sees it; `None` lets it look.
    pub postgres_bin: Option<String>,
    /// An existing server as the agent sees it; nothing is started or stopped then.
    #[serde(default)]
    pub postgres_url: Option<String>,
    /// The hosts that make the load; `None` where that is the same host.
    #[serde(default)]
    pub clients: Option<ClientHostsView>,
    /// The servers that were built for the plan, as in `PostgresOptions::builds` of `holdup-load`.
    pub postgres_builds: BTreeMap<String, String>,
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The first message: it is there.
    Hello(Box<Hello>),
    /// Something slow begins.
    Step(String),
    /// Something worth knowing.
    Note(String),
    /// Sent each second while it lives.
    Alive,
    /// To [`Order::Clock`]: ns since 1970.
    Clock(i64),
    /// An order came damaged, or does not fit: it is not carried out.
    Refused(String),
    /// To [`Order::Check`].
    Checked(Result<Box<Checked>, Problem>),
    /// To [`Order::Open`]: the environment at the begin of the session.
    Opened(Result<Vec<Fact>, Problem>),
    /// From a host under test while it carries out an order: hosts that make its load, by their numbers in the plan, are to
    /// do this, all at the same time.
    Clients(Vec<(u32, ClientOrder)>),
    /// To [`Order::Client`].
    OfClient(Result<ClientAnswer, Problem>),
    /// To [`Order::Trial`].
    Ran(Box<Ran>),
    /// To [`Order::Close`]: notes, or what could not be put back.
    Closed {
        /// Notes, or what could not be put back.
        result: Result<Vec<String>, Problem>,
        /// The kernel's log; `Err` says why it could not be read.
        kernel_log: Result<String, String>,
    },
    /// To [`Order::Calibrate`]: the machine file.
    Calibrated(Result<String, Problem>),
}

/// What an agent says of itself and of where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of holdup.
    pub version: String,
    /// The kernel's release.
    pub release: String,
    /// CPUs and memory that it may use.
    pub machine: Machine,
    /// Time since the kernel started, ns.
    pub uptime_ns: u64,
    /// Which boot of the kernel it is (`/proc/sys/kernel/random/boot_id`); `None` where it is not to be read.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// True if it runs as root.
    #[serde(default)]
    pub is_root: bool,
    /// What did not work while the guest was set up (a module that did not load, a mount that failed).
    pub notes: Vec<String>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The metrics of each workload, as (workload name in the plan, metric).
    pub metrics: Vec<(String, Metric)>,
    /// The collectors, and whether they can work.
    pub collectors: Vec<CollectorState>,
    /// What each factor and setting changes, as (factor, in words).
    pub touches: Vec<(String, String)>,
    /// What is worth saying before the run starts.
    pub notes: Vec<String>,
    /// The preemption models that the kernel offers, the one in force in brackets, as `sched/preempt` in debugfs has
    /// them; `None` where there is no such file.
    pub preempt: Option<String>,
}

/// A trial that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The trial.
    pub trial: Trial,
    /// The problem that made it void.
    pub problem: Option<Problem>,
}

/// The longest message, bytes, unpacked: histograms and stacks of a trial are some megabytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// The longest message that is none of [`LONG`]: lists of empty texts take 24 times as much memory.
const MOST_BYTES_OF_OTHERS: u64 = 4 << 20;

/// How messages begin that have trials or plans, as a map of one entry with this key (RFC 8949).
const LONG: [&[u8]; 5] = [b"\xa1cRan", b"\xa1hOfClient", b"\xa1iOfClients", b"\xa1eCheck", b"\xa1dOpen"];

impl Ran {
    /// Leaves out of the evidence what a message of `most_bytes` has no room for, and says so beside it: first the later
    /// half of the longest timeline, again and again, then whole profiles and distributions, the longest first. What was
    /// measured always fits.
    pub fn fit(&mut self, most_bytes: u64) {
        // The longest thing goes first, so that it takes few turns.
        while plain_bytes(self) > most_bytes && self.shed() {}
    }

    /// Leaves out one thing; `false` when there is nothing left.
    fn shed(&mut self) -> bool {
        let runs = &mut self.trial.evidence;
        let events = |c: &Collected| c.timeline.as_ref().map_or(0, |t| t.events.len());
        if let Some(c) = runs.iter_mut().max_by_key(|c| events(c)).filter(|c| events(c) > 0)
            && let Some(timeline) = &mut c.timeline
        {
            let kept = timeline.events.len() / 2;
            let cut = timeline.events.len() - kept;
            timeline.events.truncate(kept);
            timeline.lost += cut as u64;
            c.coverage.notes.push(format!("the last {cut} events of the timeline had no room on the agent's line"));
            return true;
        }
        let stacks = |c: &Collected| c.stacks.iter().map(|p| p.stacks.len()).sum::<usize>();
        if let Some(c) = runs.iter_mut().max_by_key(|c| stacks(c)).filter(|c| !c.stacks.is_empty()) {
            c.stacks.clear();
            c.coverage.notes.push("its call stacks had no room on the agent's line".to_owned());
            return true;
        }
        if let Some(c) = runs.iter_mut().max_by_key(|c| c.histograms.len()).filter(|c| !c.histograms.is_empty()) {
            c.histograms.clear();
            c.coverage.notes.push("its distributions had no room on the agent's line".to_owned());
            return true;
        }
        false
    }
}

/// How long a message is, unpacked, bytes.
fn plain_bytes<T: Serialize>(message: &T) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let written = ciborium::into_writer(message, &mut count).is_ok();
    debug_assert!(written, "counting cannot fail");
    count.0
}

/// A message as the payload of a frame: CBOR, deflated (RFC 1951), since an emulated serial port is slow.
pub fn to_bytes<T: Serialize>(message: &T) -> Vec<u8> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
    let written = ciborium::into_writer(message, &mut packed).is_ok();
    let bytes = packed.finish().unwrap_or_default();
    debug_assert!(written, "writing into memory cannot fail");
    bytes
}

/// A message as the payload of a frame on a fast line: CBOR as it is. Packing costs an emulated CPU milliseconds.
pub fn to_plain_bytes<T: Serialize>(message: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = ciborium::into_writer(message, &mut bytes).is_ok();
    debug_assert!(written, "writing into memory cannot fail");
    bytes
}

/// Reads a message of [`to_plain_bytes`].
pub fn from_plain_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    ciborium::from_reader(bytes).map_err(|e| format!("a message that cannot be read: {e}"))
}

/// Reads a message of [`to_bytes`].
///
/// # Errors
/// When the bytes are no message of this type, or one that is longer than its kind may be.
pub fn from_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut plain = Vec::new();
    let mut limited = DeflateDecoder::new(bytes).take(MOST_BYTES + 1);
    limited.read_to_end(&mut plain).map_err(|e| format!("a message that cannot be unpacked: {e}"))?;
    let is_long = LONG.iter().any(|begin| plain.starts_with(begin));
    let most = if is_long { MOST_BYTES } else { MOST_BYTES_OF_OTHERS };
    if plain.len() as u64 > most {
        return Err(format!("a message above {most} bytes"));
    }
    from_plain_bytes(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{BpfCost, EvidenceHistogram, SelfCost};
    use crate::histogram::Histogram;
    use crate::stacks::{Frame, FrameKind, Stack, StackProfile};
    use crate::timeline::{Timeline, TimelineEvent, TimelineKind, TimelineTask};
    use crate::trial::{NamedHistogram, TrialStatus};

    fn ran() -> Answer {
        let mut histogram = Histogram::new();
        (1..1000).for_each(|n| histogram.record_ns(n * 977));
        let trial = Trial {
            seq: 3,
            session: 1,
            boot: 4,
            block: 2,
            position: 0,
            arm: 1,
            attempt: 0,
            status: TrialStatus::Void { reason: "a Grund".to_owned() },
            started_unix_ns: -5,
            ended_unix_ns: i64::MAX,
            window: None,
            measurements: vec![crate::Measurement {
                metric: "tps".to_owned(),
                value: crate::Measured::Value(0.1 + 0.2),
            }],
            histograms: vec![NamedHistogram { name: "latency".to_owned(), histogram }],
            evidence: Vec::new(),
            environment_before: vec![Fact::read("k", "v", "s").steady()],
            environment_moved: Vec::new(),
            notes: vec!["ä".to_owned()],
        };
        Answer::Ran(Box::new(Ran { trial, problem: Some(Problem::trial("a", "b").hint("c")) }))
    }

    #[test]
    fn a_trial_arrives_as_it_was_sent() {
        let sent = ran();
        let arrived: Answer = from_bytes(&to_bytes(&sent)).expect("it is whole");
        assert_eq!(arrived, sent);
        assert_eq!(from_plain_bytes::<Answer>(&to_plain_bytes(&sent)), Ok(sent));
    }

    #[test]
    fn only_trials_and_plans_may_be_long() {
        let text = "x".repeat(5 << 20);
        let refused = from_bytes::<Answer>(&to_bytes(&Answer::Note(text.clone())));
        assert_eq!(refused, Err("a message above 4194304 bytes".to_owned()));
        let Answer::Ran(mut long) = ran() else { unreachable!("it is one") };
        long.trial.notes.push(text);
        let long = Answer::Ran(long);
        assert_eq!(from_bytes(&to_bytes(&long)), Ok(long));
    }

    /// A trial whose collector brought everything that there is.
    fn rich(events: u64) -> Ran {
        let frame = Frame { function: "ä".to_owned(), module: None, kind: FrameKind::Kernel };
        let stack = Stack { task: "postgres".to_owned(), role: None, frames: vec![0; 30], weight: u64::MAX };
        let kind = |n: u64| match n % 3 {
            0 => TimelineKind::Switch { from: None, to: Some(0), left: "sleeping".to_owned(), section: None },
            1 => TimelineKind::Wakeup { task: 0, by: None },
            _ => TimelineKind::Fault { task: 0, length_ns: n, section: Some("WALWrite".to_owned()) },
        };
        let Answer::Ran(mut ran) = ran() else { unreachable!("it is one") };
        let histogram = crate::SparseHistogram::from(&ran.trial.histograms[0].histogram);
        ran.trial.evidence = vec![Collected {
            collector: "switches".to_owned(),
            cost: SelfCost { bpf: Some(BpfCost { runs: 7, run_ns: u64::MAX }), memory_bytes: 9, ..SelfCost::default() },
            histograms: vec![EvidenceHistogram { name: "off_cpu_ns".to_owned(), label: None, histogram }],
            stacks: vec![StackProfile { frames: vec![frame], stacks: vec![stack; 100], ..StackProfile::default() }],
            timeline: Some(Timeline {
                tasks: vec![TimelineTask { tid: 1, pid: 1, name: "postgres".to_owned() }],
                events: (0..events).map(|n| TimelineEvent { at_ns: n << 30, cpu: 1, kind: kind(n) }).collect(),
                ..Timeline::default()
            }),
            ..Collected::default()
        }];
        *ran
    }

    #[test]
    fn distributions_stacks_and_timelines_arrive_as_they_were_sent() {
        let sent = rich(9);
        assert_eq!(from_bytes(&to_bytes(&sent)), Ok(sent.clone()));
        assert_eq!(from_plain_bytes(&to_plain_bytes(&sent)), Ok(sent));
    }

    #[test]
    fn what_has_no_room_on_the_line_is_left_out_and_named() {
        let whole = rich(1_000);
        let bytes = to_plain_bytes(&whole).len() as u64;
        let fitted = |most_bytes| {
            let mut ran = whole.clone();
            ran.fit(most_bytes);
            assert!(to_plain_bytes(&ran).len() as u64 <= most_bytes);
            ran.trial.evidence.remove(0)
        };
        assert_eq!(fitted(bytes), whole.trial.evidence[0]);
        let cut = fitted(bytes - 1);
        let timeline = cut.timeline.expect("half of it");
        assert_eq!((timeline.events.len(), timeline.lost), (500, 500));
        assert_eq!(cut.coverage.notes, ["the last 500 events of the timeline had no room on the agent's line"]);
        assert_eq!((cut.stacks.len(), cut.histograms.len()), (1, 1), "the rest is there");
        let bare = fitted(6_000);
        assert_eq!(bare.timeline.map(|t| (t.events.len(), t.lost)), Some((0, 1_000)));
        assert_eq!((bare.stacks.len(), bare.histograms.len()), (0, 1));
        let mut nothing_left = whole.clone();
        nothing_left.fit(1);
        assert_eq!(nothing_left.trial.histograms, whole.trial.histograms, "what was measured is never left out");
    }

    #[test]
    fn damaged_messages_are_refused_at_any_length() {
        let whole = to_bytes(&ran());
        for length in 0..whole.len() {
            assert!(from_bytes::<Answer>(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(from_bytes::<Order>(&to_bytes(&Answer::Note(String::new()))).is_err());
    }

    #[test]
    fn a_message_that_unpacks_to_too_much_is_refused() {
        let bomb = to_bytes(&Answer::Note("0".repeat(70 << 20)));
        assert!(bomb.len() < 1 << 20);
        assert!(from_bytes::<Answer>(&bomb).is_err_and(|why| why.contains("above")));
    }
}
