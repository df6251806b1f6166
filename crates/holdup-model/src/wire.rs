//! What the host and the agent say to each other: CBOR (RFC 8949) in [frames](crate::frame).
//!
//! The host gives orders one at a time and waits for the answer; only [`Order::Off`] may come at any time. Between an
//! order and its answer the agent may send any number of [`Answer::Step`], [`Answer::Note`] and [`Answer::Alive`].
//! Both sides are the same program, so a message that does not fit is a fault and not an older version: the agent's
//! hello carries the version, and another one is refused.

use crate::arm::{Arm, Schedule, TrialSpec};
use crate::bundle::CollectorState;
use crate::environment::{Fact, Machine};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::trial::Trial;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
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
    /// Put everything back and close the session. Answer: [`Answer::Closed`].
    Close,
    /// End the agent, and with it a guest whose first process it is. No answer.
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
    /// An order came damaged, or does not fit: it is not carried out.
    Refused(String),
    /// To [`Order::Check`].
    Checked(Result<Box<Checked>, Problem>),
    /// To [`Order::Open`]: the environment at the begin of the session.
    Opened(Result<Vec<Fact>, Problem>),
    /// To [`Order::Trial`].
    Ran(Box<Ran>),
    /// To [`Order::Close`]: notes, or what could not be put back.
    Closed {
        /// Notes, or what could not be put back.
        result: Result<Vec<String>, Problem>,
        /// The kernel's log; `Err` says why it could not be read.
        kernel_log: Result<String, String>,
    },
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

/// The longest message, bytes: histograms of a trial are some hundred kilobytes.
pub const MOST_BYTES: u64 = 64 << 20;

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
///
/// # Errors
/// When the bytes are no message of this type.
pub fn from_plain_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    ciborium::from_reader(bytes).map_err(|e| format!("a message that cannot be read: {e}"))
}

/// Reads a message of [`to_bytes`].
///
/// # Errors
/// When the bytes are no message of this type, or one above [`MOST_BYTES`].
pub fn from_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut plain = Vec::new();
    let mut limited = DeflateDecoder::new(bytes).take(MOST_BYTES + 1);
    limited.read_to_end(&mut plain).map_err(|e| format!("a message that cannot be unpacked: {e}"))?;
    if plain.len() as u64 > MOST_BYTES {
        return Err(format!("a message above {MOST_BYTES} bytes"));
    }
    from_plain_bytes(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
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
    fn damaged_messages_are_refused_at_any_length() {
        let whole = to_bytes(&ran());
        for length in 0..whole.len() {
            assert!(from_bytes::<Answer>(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(from_bytes::<Order>(&to_bytes(&Answer::Alive)).is_err());
    }

    #[test]
    fn a_message_that_unpacks_to_too_much_is_refused() {
        let bomb = to_bytes(&Answer::Note("0".repeat(70 << 20)));
        assert!(bomb.len() < 1 << 20);
        assert!(from_bytes::<Answer>(&bomb).is_err_and(|why| why.contains("above")));
    }
}
