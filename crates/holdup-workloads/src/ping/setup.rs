//! The parameters of `ping`, read and checked.

use crate::ping::message::COMPACT;
use crate::ping::playback::Recorded;
use holdup_catalogue::Sharing;
use holdup_catalogue::ping::{self, Mode, Protocol, Waiting};
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::network::NetworkSpec;
use holdup_load::placement::Placement;
use holdup_model::{Parameters, Problem};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// The longest datagram over IPv4: 65535 bytes less the headers of IP and UDP (RFC 768, RFC 791).
pub const LARGEST_DATAGRAM: usize = 65_507;
/// The longest message in a byte stream: both ends hold a whole one.
pub const LARGEST_IN_STREAM: usize = 16 << 20;
/// What `under-load` sends per second when the plan does not say.
const UNDER_LOAD_RATE: u64 = 10_000;
/// One of this number of messages is answered when the plan does not say.
const REPLY_EVERY: u64 = 100;

fn largest(protocol: Protocol) -> usize {
    if protocol.is_stream() { LARGEST_IN_STREAM } else { LARGEST_DATAGRAM }
}

/// What is played back, which both ends share.
#[derive(Debug, Clone)]
pub struct Recording(pub Arc<Recorded>);

impl Serialize for Recording {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Recording {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Recorded::deserialize(from).map(|recorded| Recording(Arc::new(recorded)))
    }
}

/// One arm's parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    pub recorded: Option<Recording>,
    /// Threads or processes.
    pub sharing: Sharing,
    /// Which CPUs. Each host has its own.
    #[serde(skip)]
    pub placement: Placement,
    /// What lies between the ends.
    #[serde(skip)]
    pub(crate) network: NetworkSpec,
    /// Bytes; 0 for the kernel's default.
    pub receive_buffer: usize,
    /// Bytes; 0 for the kernel's default.
    pub send_buffer: usize,
    /// True if an end that waits asks again and again.
    pub polls: bool,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// Of kind `Usage` when a value is out of bounds or two do not go together, of kind `Host` when this machine has no
    /// such CPUs.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let p = ping::Parameters::read(parameters)?;
        let (mode, protocol) = (p.mode, p.protocol);
        let smallest = if matches!(mode, Mode::UnderLoad | Mode::Playback) { COMPACT } else { 1 };
        let recorded = match mode {
            Mode::Playback => Some(Recording(Arc::new(recorded(&p, smallest)?))),
            _ => None,
        };
        let size = match &recorded {
            Some(Recording(recorded)) => recorded.largest(),
            None => size(&p, smallest)?,
        };
        Ok(Setup {
            mode,
            protocol,
            size,
            rate: p.rate.unwrap_or(if mode == Mode::UnderLoad { UNDER_LOAD_RATE } else { 0 }),
            burst: p.burst,
            reply_every: match mode {
                Mode::PingPong => 1,
                Mode::Throughput => 0,
                Mode::UnderLoad | Mode::Playback => p.reply_every.unwrap_or(REPLY_EVERY),
            },
            recorded,
            sharing: p.sharing,
            placement: Placement::on(p.placement, host)?,
            network: network(&p)?,
            receive_buffer: p.receive_buffer as usize,
            send_buffer: p.send_buffer as usize,
            polls: p.waiting == Waiting::Poll,
        })
    }

    /// Whether the two ends may be on two hosts.
    ///
    /// # Errors
    /// Of kind `Usage` when they may not.
    pub(crate) fn check_two_ends(&self) -> Result<(), Problem> {
        let refuse =
            |what: String, why: &str, hint: &str| Err(Problem::usage(format!("{what} with [hosts]"), why).hint(hint));
        if !matches!(self.protocol, Protocol::Udp | Protocol::Tcp) {
            let what = format!("protocol {}", self.protocol.word());
            return refuse(what, "sockets of that kind are of one host", "protocol = udp or tcp");
        }
        if self.network != NetworkSpec::HOST {
            let (what, why) = ("network".to_owned(), "the network is the one between the hosts");
            return refuse(what, why, "leave network and mtu out");
        }
        if self.placement != Placement::default() {
            return refuse("placement".to_owned(), "each host places its own end", "placement = none");
        }
        Ok(())
    }

    /// True if small messages may be put together before they are sent (Nagle): only where nothing is answered.
    pub fn coalesces(&self) -> bool {
        self.mode == Mode::Throughput
    }

    /// True if the client sends by the clock regardless of the server.
    pub fn is_open_loop(&self) -> bool {
        match self.mode {
            Mode::PingPong => false,
            Mode::Playback => true,
            Mode::UnderLoad | Mode::Throughput => self.rate > 0,
        }
    }
}

fn network(p: &ping::Parameters) -> Result<NetworkSpec, Problem> {
    let network = NetworkSpec::of(p.network.word(), p.mtu)?;
    let is_unix = matches!(p.protocol, Protocol::UnixDatagram | Protocol::UnixStream);
    if is_unix && network.topology != Topology::Host {
        let what = format!("protocol {} with network {}", p.protocol, p.network);
        return Err(Problem::usage(what, "sockets of that kind do not go through a network").hint("network = host"));
    }
    Ok(network)
}

fn size(p: &ping::Parameters, smallest: usize) -> Result<usize, Problem> {
    let largest = largest(p.protocol);
    match usize::try_from(p.size) {
        Ok(size) if (smallest..=largest).contains(&size) => Ok(size),
        _ => {
            let why = format!("a message over {} in mode {} has {smallest} to {largest} bytes", p.protocol, p.mode);
            Err(Problem::usage(format!("size {}", p.size), why))
        }
    }
}

fn recorded(p: &ping::Parameters, smallest: usize) -> Result<Recorded, Problem> {
    match p.playback_file.as_deref().filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => Recorded::read(path, smallest, largest(p.protocol)),
        None => Err(Problem::usage("mode playback", "there is nothing to play back").hint("name a playback_file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    #[test]
    fn parameters_are_checked_once_more() {
        let host = Host::real();
        let check = |changes: &[(&str, Value)], expect: Result<(), &str>| {
            let mut parameters = ping::Parameters::defaults(2);
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
        check(&[size(-1)], Err("size -1: it must be 0B or more"));
        let tcp = ("protocol", Value::from("tcp"));
        check(&[size(65_508), tcp.clone()], Ok(()));
        check(
            &[size(1 << 30), tcp],
            Err("size 1073741824: a message over tcp in mode ping-pong has 1 to 16777216 bytes"),
        );
        let load = ("mode", Value::from("under-load"));
        check(&[size(7), load], Err("size 7: a message over udp in mode under-load has 8 to 65507 bytes"));
        check(&[("rate", (-1).into())], Err("rate -1: it must be from 0 to 1000000000"));
        check(&[("burst", 0.into())], Err("burst 0: it must be from 1 to 1048576"));
        check(&[("reply_every", 0.into())], Err("reply_every 0: it must be from 1 to 1000000000"));
        check(&[("receive_buffer", (1 << 30).into())], Err("receive_buffer 1073741824: it must be from 0B to 512MB"));
        check(
            &[("protocol", "sctp".into())],
            Err("protocol sctp: it must be one of udp, tcp, unix-datagram, unix-stream"),
        );
        check(&[("waiting", "hope".into())], Err("waiting hope: it must be one of block, poll"));
        check(&[("mode", "playback".into())], Err("mode playback: there is nothing to play back"));
        check(
            &[("placement", "moon".into())],
            Err("placement moon: it must be one of none, same-cpu, two-cpus, smt-siblings, llc, node"),
        );
        let none = Setup::read(&Parameters::default(), &host).expect_err("nothing was given");
        assert_eq!(none.to_string(), "parameter mode: the checked plan holds no value for it");
    }

    #[test]
    fn what_the_plan_does_not_say_follows_from_the_mode() {
        let check = |mode: &str, expect: (u64, u64, bool)| {
            let mut parameters = ping::Parameters::defaults(2);
            parameters.set("mode", mode);
            let setup = Setup::read(&parameters, &Host::real()).expect("valid");
            assert_eq!((setup.rate, setup.reply_every, setup.is_open_loop()), expect, "{mode}");
        };
        check("ping-pong", (0, 1, false));
        check("under-load", (10_000, 100, true));
        check("throughput", (0, 0, false));
    }
}
