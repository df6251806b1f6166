//! The parameters of `ping`, read and checked.

use crate::ping::message::COMPACT;
use crate::ping::playback::Recorded;
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::by;
use holdup_load::network::{MTU, NETWORK, NetworkSpec};
use holdup_load::parameters::{parse_enum, whole, whole_or_none, word};
use holdup_load::placement::{PLACEMENT, Placement};
use holdup_load::worker_pool::Sharing;
use holdup_model::{Parameter, ParameterKind, Parameters, Problem, Value};
use std::path::Path;
use std::sync::Arc;

/// The longest datagram over IPv4: 65535 bytes less the headers of IP and UDP (RFC 768, RFC 791).
pub const LARGEST_DATAGRAM: usize = 65_507;
/// The longest message in a byte stream: both ends hold a whole one.
pub const LARGEST_IN_STREAM: usize = 16 << 20;
/// The largest buffer that a socket can be given: the kernel keeps twice as much in a 32-bit number.
const LARGEST_BUFFER: i64 = 1 << 29;
const MOST_PER_S: i64 = 1_000_000_000;
const LONGEST_BURST: i64 = 1 << 20;
/// What `under-load` sends per second when the plan does not say.
const UNDER_LOAD_RATE: u64 = 10_000;
/// One of this number of messages is answered when the plan does not say.
const REPLY_EVERY: u64 = 100;

/// How the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One burst, then its answers, then the next burst: a closed loop.
    PingPong,
    /// At its own rate, regardless of the server; some messages are answered: an open loop.
    UnderLoad,
    /// At its own rate or as fast as it can; nothing is answered.
    Throughput,
    /// At recorded times; some messages are answered: an open loop.
    Playback,
}

const MODES: &[&str] = &["ping-pong", "under-load", "throughput", "playback"];

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Datagrams that may be dropped.
    Udp,
    /// A byte stream with back-pressure.
    Tcp,
    /// Datagrams with back-pressure.
    UnixDatagram,
    /// A byte stream with back-pressure, without a network.
    UnixStream,
}

const PROTOCOLS: &[&str] = &["udp", "tcp", "unix-datagram", "unix-stream"];

impl Protocol {
    /// Its word in plans.
    pub fn word(self) -> &'static str {
        PROTOCOLS[self as usize]
    }

    /// Whether it has no borders between messages.
    pub fn is_stream(self) -> bool {
        matches!(self, Protocol::Tcp | Protocol::UnixStream)
    }

    /// Whether the kernel may drop what it took.
    pub fn may_lose(self) -> bool {
        self == Protocol::Udp
    }

    fn largest(self) -> usize {
        if self.is_stream() { LARGEST_IN_STREAM } else { LARGEST_DATAGRAM }
    }
}

const fn parameter(
    name: &'static str,
    kind: ParameterKind,
    default: Option<&'static str>,
    summary: &'static str,
) -> Parameter {
    Parameter { name, kind, default, required: false, summary, simulated: true }
}

/// What users may set, each also as an axis.
pub const PARAMETERS: &[Parameter] = &[
    parameter(
        "mode",
        ParameterKind::Choice(MODES),
        Some("ping-pong"),
        "closed loop, open loop, one way only, or as recorded",
    ),
    parameter("protocol", ParameterKind::Choice(PROTOCOLS), Some("udp"), "what carries the messages"),
    parameter(
        "size",
        ParameterKind::SIZE,
        Some("14"),
        "bytes of a message, header included; 8 at least where some are answered and some not",
    ),
    parameter(
        "rate",
        ParameterKind::Integer { min: 0, max: MOST_PER_S },
        None,
        "messages per second, 0 for as fast as can be; by default 10000 under load, else 0",
    ),
    parameter(
        "burst",
        ParameterKind::Integer { min: 1, max: LONGEST_BURST },
        Some("1"),
        "messages that are sent one right after the other",
    ),
    parameter(
        "reply_every",
        ParameterKind::Integer { min: 1, max: MOST_PER_S },
        None,
        "one of n messages is answered under load and in playback; by default 100",
    ),
    parameter("playback_file", ParameterKind::Path, None, "lines of seconds and bytes (mode = playback)"),
    parameter(
        "sharing",
        ParameterKind::Choice(Sharing::WORDS),
        Some("processes"),
        "whether client and server are processes or threads",
    ),
    PLACEMENT,
    parameter("receive_buffer", ParameterKind::SIZE, Some("0"), "of each socket, bytes; 0 for the kernel's default"),
    parameter("send_buffer", ParameterKind::SIZE, Some("0"), "of each socket, bytes; 0 for the kernel's default"),
    parameter(
        "waiting",
        ParameterKind::Choice(&["block", "poll"]),
        Some("block"),
        "whether an end that waits sleeps in the kernel or asks again and again",
    ),
    NETWORK,
    MTU,
    by::parameter(&[by::OWN, "sockperf"]),
];

/// One arm's parameters.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How the client sends.
    pub mode: Mode,
    /// What carries the messages.
    pub protocol: Protocol,
    /// Bytes of a message; of the longest one in playback.
    pub size: usize,
    /// Messages per second; 0 for as fast as can be.
    pub rate: u64,
    /// Messages sent one right after the other.
    pub burst: u64,
    /// One of n messages is answered; 0 for none.
    pub reply_every: u64,
    /// What is played back.
    pub recorded: Option<Arc<Recorded>>,
    /// Threads or processes.
    pub sharing: Sharing,
    /// Which CPUs.
    pub placement: Placement,
    /// What lies between the ends.
    pub(crate) network: NetworkSpec,
    /// Bytes; 0 for the kernel's default.
    pub receive_buffer: usize,
    /// Bytes; 0 for the kernel's default.
    pub send_buffer: usize,
    /// Whether an end that waits asks again and again.
    pub polls: bool,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// Of kind `Usage` when a value is out of bounds or two do not go together, of kind `Host` when this machine has no
    /// such CPUs.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        const MODE: [Mode; 4] = [Mode::PingPong, Mode::UnderLoad, Mode::Throughput, Mode::Playback];
        const PROTOCOL: [Protocol; 4] = [Protocol::Udp, Protocol::Tcp, Protocol::UnixDatagram, Protocol::UnixStream];
        let mode = MODE[word(parameters, "mode", MODES)?];
        let protocol = PROTOCOL[word(parameters, "protocol", PROTOCOLS)?];
        let smallest = if matches!(mode, Mode::UnderLoad | Mode::Playback) { COMPACT } else { 1 };
        let recorded = match mode {
            Mode::Playback => Some(Arc::new(recorded(parameters, smallest, protocol.largest())?)),
            _ => None,
        };
        let size = match &recorded {
            Some(recorded) => recorded.largest(),
            None => size(parameters, mode, protocol, smallest)?,
        };
        let rate = whole_or_none(parameters, "rate", 0, MOST_PER_S)?;
        let reply_every = whole_or_none(parameters, "reply_every", 1, MOST_PER_S)?;
        Ok(Setup {
            mode,
            protocol,
            size,
            rate: rate.unwrap_or(if mode == Mode::UnderLoad { UNDER_LOAD_RATE } else { 0 }),
            burst: whole(parameters, "burst", 1, LONGEST_BURST)?,
            reply_every: match mode {
                Mode::PingPong => 1,
                Mode::Throughput => 0,
                Mode::UnderLoad | Mode::Playback => reply_every.unwrap_or(REPLY_EVERY),
            },
            recorded,
            sharing: parse_enum(parameters, "sharing", Sharing::WORDS, Sharing::of)?,
            placement: Placement::read(parameters, host)?,
            network: network(parameters, protocol)?,
            receive_buffer: buffer(parameters, "receive_buffer")?,
            send_buffer: buffer(parameters, "send_buffer")?,
            polls: word(parameters, "waiting", &["block", "poll"])? == 1,
        })
    }

    /// Whether small messages may be put together before they are sent (Nagle): only where nothing is answered.
    pub fn coalesces(&self) -> bool {
        self.mode == Mode::Throughput
    }

    /// Whether the client sends by the clock regardless of the server.
    pub fn is_open_loop(&self) -> bool {
        match self.mode {
            Mode::PingPong => false,
            Mode::Playback => true,
            Mode::UnderLoad | Mode::Throughput => self.rate > 0,
        }
    }
}

fn network(parameters: &Parameters, protocol: Protocol) -> Result<NetworkSpec, Problem> {
    let network = NetworkSpec::read(parameters)?;
    let is_unix = matches!(protocol, Protocol::UnixDatagram | Protocol::UnixStream);
    if is_unix && network.topology != Topology::Host {
        let what = format!("protocol {} with network {}", protocol.word(), network.topology.word());
        return Err(Problem::usage(what, "sockets of that kind do not go through a network").hint("network = host"));
    }
    Ok(network)
}

fn size(parameters: &Parameters, mode: Mode, protocol: Protocol, smallest: usize) -> Result<usize, Problem> {
    let bytes = parameters.required_integer("size")?;
    let largest = protocol.largest();
    match usize::try_from(bytes) {
        Ok(size) if (smallest..=largest).contains(&size) => Ok(size),
        _ => {
            let (protocol, mode) = (protocol.word(), MODES[mode as usize]);
            let why = format!("a message over {protocol} in mode {mode} has {smallest} to {largest} bytes");
            Err(Problem::usage(format!("size {bytes}"), why))
        }
    }
}

fn buffer(parameters: &Parameters, name: &str) -> Result<usize, Problem> {
    Ok(whole(parameters, name, 0, LARGEST_BUFFER)? as usize)
}

fn recorded(parameters: &Parameters, smallest: usize, largest: usize) -> Result<Recorded, Problem> {
    match parameters.text("playback_file")?.filter(|path| !path.is_empty()) {
        Some(path) => Recorded::read(Path::new(path), smallest, largest),
        None => Err(Problem::usage("mode playback", "there is nothing to play back").hint("name a playback_file")),
    }
}

/// The defaults as values.
#[doc(hidden)]
pub fn defaults() -> Parameters {
    let mut parameters = Parameters::default();
    let values: [(&str, Value); 10] = [
        ("mode", "ping-pong".into()),
        ("protocol", "udp".into()),
        ("size", 14.into()),
        ("burst", 1.into()),
        ("sharing", "processes".into()),
        ("placement", "none".into()),
        ("receive_buffer", 0.into()),
        ("send_buffer", 0.into()),
        ("waiting", "block".into()),
        ("network", "host".into()),
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
    fn parameters_are_checked_once_more() {
        let host = Host::real();
        let check = |changes: &[(&str, Value)], expect: Result<(), &str>| {
            let mut parameters = defaults();
            for (name, value) in changes {
                parameters.set(name, value.clone());
            }
            let got = Setup::read(&parameters, &host).map(|_| ()).map_err(|p| format!("{}: {}", p.what, p.why));
            assert_eq!(got, expect.map_err(str::to_owned), "{changes:?}");
        };
        let size = |bytes: i64| ("size", Value::Integer(bytes));
        check(&[], Ok(()));
        check(&[size(1)], Ok(()));
        check(&[size(65_507)], Ok(()));
        check(&[size(0)], Err("size 0: a message over udp in mode ping-pong has 1 to 65507 bytes"));
        check(&[size(65_508)], Err("size 65508: a message over udp in mode ping-pong has 1 to 65507 bytes"));
        check(&[size(-1)], Err("size -1: a message over udp in mode ping-pong has 1 to 65507 bytes"));
        let tcp = ("protocol", Value::from("tcp"));
        check(&[size(65_508), tcp.clone()], Ok(()));
        check(
            &[size(1 << 30), tcp],
            Err("size 1073741824: a message over tcp in mode ping-pong has 1 to 16777216 bytes"),
        );
        let load = ("mode", Value::from("under-load"));
        check(&[size(7), load], Err("size 7: a message over udp in mode under-load has 8 to 65507 bytes"));
        check(&[("rate", (-1).into())], Err("rate -1: it is not between 0 and 1000000000"));
        check(&[("burst", 0.into())], Err("burst 0: it is not between 1 and 1048576"));
        check(&[("reply_every", 0.into())], Err("reply_every 0: it is not between 1 and 1000000000"));
        check(
            &[("receive_buffer", (1 << 30).into())],
            Err("receive_buffer 1073741824: it is not between 0 and 536870912"),
        );
        check(&[("protocol", "sctp".into())], Err("protocol sctp: it is none of udp, tcp, unix-datagram, unix-stream"));
        check(&[("waiting", "hope".into())], Err("waiting hope: it is neither block nor poll"));
        check(&[("mode", "playback".into())], Err("mode playback: there is nothing to play back"));
        check(&[("placement", "moon".into())], Err("placement moon: there is no such placement"));
        let none = Setup::read(&Parameters::default(), &host).expect_err("nothing was given");
        assert_eq!(none.to_string(), "parameter mode: the checked plan holds no value for it");
    }

    #[test]
    fn what_the_plan_does_not_say_follows_from_the_mode() {
        let check = |mode: &str, expect: (u64, u64, bool)| {
            let mut parameters = defaults();
            parameters.set("mode", mode);
            let setup = Setup::read(&parameters, &Host::real()).expect("valid");
            assert_eq!((setup.rate, setup.reply_every, setup.is_open_loop()), expect, "{mode}");
        };
        check("ping-pong", (0, 1, false));
        check("under-load", (10_000, 100, true));
        check("throughput", (0, 0, false));
    }
}
