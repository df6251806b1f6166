//! The parameters of `messenger`, read and checked.

use crate::messenger::message::STAMP_BYTES;
use holdup_host::Host;
use holdup_load::by;
use holdup_load::placement::{self, Placement};
use holdup_load::worker_pool::Sharing;
use holdup_load::{files, parameters};
use holdup_model::{Parameter, ParameterKind, Parameters, Problem, Value};

/// The most senders and receivers of all groups together.
pub const MOST_TASKS: u64 = 16_384;
/// The largest message: each task has its own buffer.
pub const LARGEST: i64 = 1 << 20;
/// A larger message may be cut by the kernel where several write to one pipe (PIPE_BUF, pipe(7)) or socket, so that
/// what is received as one message was sent by two.
pub const LARGEST_WHOLE: usize = 4096;

/// What messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// AF_UNIX, SOCK_STREAM, socketpair(2).
    SocketPair,
    /// pipe(2).
    Pipe,
    /// A connection over 127.0.0.1, without TCP_NODELAY as hackbench has it.
    Tcp,
}

impl Transport {
    /// The words of plans.
    pub const WORDS: &'static [&'static str] = &["socketpair", "pipe", "tcp"];

    /// What a word of [`Transport::WORDS`] means.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "socketpair" => Some(Transport::SocketPair),
            "pipe" => Some(Transport::Pipe),
            "tcp" => Some(Transport::Tcp),
            _ => None,
        }
    }
}

const fn parameter(name: &'static str, kind: ParameterKind, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind, default: Some(default), required: false, summary, simulated: true }
}

/// What users may set, each also as an axis.
pub const PARAMETERS: &[Parameter] = &[
    parameter("groups", ParameterKind::Integer { min: 1, max: 8192 }, "10", "groups of senders and receivers"),
    parameter("senders", ParameterKind::Integer { min: 1, max: 8192 }, "20", "senders of a group"),
    parameter("receivers", ParameterKind::Integer { min: 1, max: 8192 }, "20", "receivers of a group"),
    parameter("size", ParameterKind::SIZE, "100B", "a message, up to 1 MB; with timing from 16 bytes"),
    parameter("sharing", ParameterKind::Choice(Sharing::WORDS), "processes", "what the tasks are"),
    parameter("transport", ParameterKind::Choice(Transport::WORDS), "socketpair", "what messages go through"),
    parameter(
        "messages",
        ParameterKind::Integer { min: 0, max: 1_000_000_000 },
        "0",
        "of each sender to each receiver of its group; 0: until the window ends",
    ),
    parameter("timing", ParameterKind::Bool, "on", "whether the latency of messages is measured"),
    parameter(
        "sample_every",
        ParameterKind::Integer { min: 1, max: 1_000_000_000 },
        "16",
        "one of n messages is timed, at random distances",
    ),
    placement::PLACEMENT,
    by::parameter(&[by::OWN, "hackbench", "perf-bench"]),
];

/// One arm's parameters.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Groups.
    pub groups: usize,
    /// Senders of each group.
    pub senders: usize,
    /// Receivers of each group.
    pub receivers: usize,
    /// Length of a message, bytes.
    pub size: usize,
    /// Threads or processes.
    pub sharing: Sharing,
    /// What messages go through.
    pub transport: Transport,
    /// Messages of each sender to each receiver of its group; `None` for endless.
    pub messages: Option<u64>,
    /// One of n messages is timed; `None` for none.
    pub sample_every: Option<u64>,
    /// Senders are the client side, receivers the server side.
    pub placement: Placement,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included, and checks that there is room for them.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, when there are more tasks or files than fit, or no
    /// CPUs as asked for.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let whole = |name: &str, min: i64, max: i64| parameters::whole(parameters, name, min, max);
        let timed = parameters.required_boolean("timing")?;
        let every = whole("sample_every", 1, 1_000_000_000)?;
        let setup = Setup {
            groups: whole("groups", 1, 8192)? as usize,
            senders: whole("senders", 1, 8192)? as usize,
            receivers: whole("receivers", 1, 8192)? as usize,
            size: whole("size", 1, LARGEST)? as usize,
            sharing: parameters::parse_enum(parameters, "sharing", Sharing::WORDS, Sharing::of)?,
            transport: parameters::parse_enum(parameters, "transport", Transport::WORDS, Transport::of)?,
            messages: Some(whole("messages", 0, 1_000_000_000)?).filter(|messages| *messages > 0),
            sample_every: timed.then_some(every),
            placement: Placement::read(parameters, host)?,
        };
        setup.fits()?;
        Ok(setup)
    }

    fn fits(&self) -> Result<(), Problem> {
        if self.tasks() as u64 > MOST_TASKS {
            return Err(Problem::usage(
                format!("{} groups of {} + {} tasks", self.groups, self.senders, self.receivers),
                format!("{} tasks are more than {MOST_TASKS}", self.tasks()),
            ));
        }
        if self.sample_every.is_some() && self.size < STAMP_BYTES {
            return Err(Problem::usage(
                format!("size {}", self.size),
                format!("a message with its time of sending has at least {STAMP_BYTES} bytes"),
            )
            .hint("take a larger size, or timing = off"));
        }
        if self.sample_every.is_some() && self.size > LARGEST_WHOLE && self.senders > 1 {
            return Err(Problem::usage(
                format!("size {}", self.size),
                format!(
                    "several senders write to one receiver, and the kernel cuts messages over {LARGEST_WHOLE} bytes"
                ),
            )
            .hint("take a smaller size, senders = 1, or timing = off"));
        }
        files::fit(self.files())
    }

    /// Senders and receivers of all groups.
    pub fn tasks(&self) -> usize {
        self.groups * (self.senders + self.receivers)
    }

    /// How many files they open: two ends for each receiver, and a listening socket.
    pub fn files(&self) -> u64 {
        (self.groups * self.receivers * 2 + 1) as u64
    }
}

/// The defaults as values.
#[doc(hidden)]
pub fn defaults() -> Parameters {
    let mut parameters = Parameters::default();
    let values: [(&str, Value); 10] = [
        ("groups", 10.into()),
        ("senders", 20.into()),
        ("receivers", 20.into()),
        ("size", 100.into()),
        ("sharing", "processes".into()),
        ("transport", "socketpair".into()),
        ("messages", 100.into()),
        ("timing", true.into()),
        ("sample_every", 16.into()),
        ("placement", "none".into()),
    ];
    for (name, value) in values {
        parameters.set(name, value);
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked_before_anything_starts() {
        let check = |changes: &[(&str, Value)], expect: Result<(), &str>| {
            let mut parameters = defaults();
            for (name, value) in changes {
                parameters.set(name, value.clone());
            }
            let got = Setup::read(&parameters, &Host::real()).map(|_| ()).map_err(|p| format!("{}: {}", p.what, p.why));
            assert_eq!(got, expect.map_err(str::to_owned), "{changes:?}");
        };
        check(&[], Ok(()));
        check(&[("messages", 0.into())], Ok(()));
        check(&[("size", 0.into())], Err("size 0: it is not between 1 and 1048576"));
        check(&[("size", (1 << 30).into())], Err("size 1073741824: it is not between 1 and 1048576"));
        check(&[("size", 15.into())], Err("size 15: a message with its time of sending has at least 16 bytes"));
        check(&[("size", 15.into()), ("timing", false.into())], Ok(()));
        check(
            &[("size", 4097.into())],
            Err("size 4097: several senders write to one receiver, and the kernel cuts messages over 4096 bytes"),
        );
        check(&[("size", 4097.into()), ("senders", 1.into())], Ok(()));
        check(&[("groups", 410.into())], Err("410 groups of 20 + 20 tasks: 16400 tasks are more than 16384"));
        check(&[("groups", 0.into())], Err("groups 0: it is not between 1 and 8192"));
        check(&[("transport", "carrier pigeon".into())], Err("transport carrier pigeon: there is no such value"));
        check(&[("sharing", "fibers".into())], Err("sharing fibers: there is no such value"));
        check(
            &[("groups", "ten".into())],
            Err("parameter groups: a whole number was expected, the checked plan holds Text(\"ten\")"),
        );
    }
}
