//! The parameters of `stream`, read and checked.

use crate::profile::{MOST_DATAGRAM_BYTES, MOST_SIZE_BYTES, Mode, Protocol};
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::by;
use holdup_load::network::{MTU, NETWORK, NetworkSpec};
use holdup_load::parameters::{whole, word};
use holdup_load::placement::{PLACEMENT, Placement};
use holdup_load::worker_pool::Sharing;
use holdup_model::{Parameter, ParameterKind, Parameters, Problem};
use std::path::PathBuf;

/// The most connections in one direction.
pub(crate) const MOST_CONNECTIONS: i64 = 10_000;
/// The most workers of one end, and how many there are at most when none are asked for.
const MOST_WORKERS: i64 = 10_000;
const OWN_WORKERS: usize = 64;
/// The highest rate of one connection.
const MOST_RATE_PER_S: i64 = 1_000_000;
/// What iperf3 writes with one call over TCP.
const TCP_BYTES: u64 = 128 << 10;
/// What one Ethernet frame carries: 1500 bytes less the headers of IPv4 and UDP.
const UDP_BYTES: u64 = 1472;
/// The most that one socket buffer may be asked for; the kernel holds it in an `int` and doubles it (socket(7)).
const MOST_BUFFER_BYTES: i64 = 1 << 30;

const MODES: &[&str] = &["write", "read", "both"];
const PROTOCOLS: &[&str] = &["tcp", "udp", "unix"];
const NETWORKS: &[&str] = &["host", "loopback", "veth", "bridge", "openvswitch", PEER];
/// The network to the guest beside this one, `[guest] peer = true`.
const PEER: &str = "peer";

const fn optional(
    name: &'static str,
    kind: ParameterKind,
    default: Option<&'static str>,
    summary: &'static str,
) -> Parameter {
    Parameter { name, kind, default, required: false, summary, simulated: true }
}

/// What users may set, each also as an axis.
pub const PARAMETERS: &[Parameter] = &[
    optional(
        "connections",
        ParameterKind::Integer { min: 1, max: MOST_CONNECTIONS },
        Some("1"),
        "connections that carry data, in each direction",
    ),
    optional("protocol", ParameterKind::Choice(PROTOCOLS), Some("tcp"), "what they speak"),
    optional("size", ParameterKind::SIZE, None, "bytes of one transfer; 128KB, with udp 1472 bytes"),
    optional(
        "mode",
        ParameterKind::Choice(MODES),
        Some("write"),
        "which way the data goes, seen from the end that connects",
    ),
    optional(
        "workers",
        ParameterKind::Integer { min: 1, max: MOST_WORKERS },
        None,
        "threads or processes at each end; as many as connections, at most 64",
    ),
    optional("sharing", ParameterKind::Choice(Sharing::WORDS), Some("threads"), "what workers are"),
    Parameter {
        kind: ParameterKind::Choice(NETWORKS),
        summary: "what lies between the two ends; peer: another guest",
        ..NETWORK
    },
    MTU,
    optional("profile", ParameterKind::Path, None, "a uperf profile, which says what each strand does"),
    optional(
        "rate",
        ParameterKind::Integer { min: 0, max: MOST_RATE_PER_S },
        Some("0"),
        "transfers per second of each connection; 0 is as fast as it can",
    ),
    optional("no_delay", ParameterKind::Bool, Some("off"), "TCP_NODELAY at both ends"),
    optional("send_buffer", ParameterKind::SIZE, None, "SO_SNDBUF; left to the kernel otherwise"),
    optional("receive_buffer", ParameterKind::SIZE, None, "SO_RCVBUF; left to the kernel otherwise"),
    PLACEMENT,
    by::parameter(&[by::OWN, "iperf3", "uperf"]),
];

/// What all sockets are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SocketOptions {
    pub(crate) no_delay: bool,
    pub(crate) send_buffer: Option<u32>,
    pub(crate) receive_buffer: Option<u32>,
}

/// The parameters of an arm.
#[derive(Debug, Clone)]
pub struct Setup {
    pub(crate) connections: usize,
    pub(crate) protocol: Protocol,
    pub(crate) size: u64,
    pub(crate) mode: Mode,
    /// Of each end.
    pub(crate) workers: usize,
    pub(crate) sharing: Sharing,
    /// What lies between the two ends.
    pub network: NetworkSpec,
    /// Whether the far end is another machine.
    pub is_apart: bool,
    /// The profile of uperf that is run instead.
    pub profile: Option<PathBuf>,
    /// Time from one transfer of a connection to the next, ns; 0 for none.
    pub(crate) interval_ns: u64,
    pub(crate) sockets: SocketOptions,
    pub(crate) placement: Placement,
}

impl Setup {
    /// The parameters, checked.
    ///
    /// # Errors
    /// When one is out of bounds, or they do not go together.
    pub fn read(parameters: &Parameters, host: &Host) -> Result<Self, Problem> {
        let protocol = match word(parameters, "protocol", PROTOCOLS)? {
            0 => Protocol::Tcp,
            1 => Protocol::Udp,
            _ => Protocol::Unix,
        };
        let mode = match word(parameters, "mode", MODES)? {
            0 => Mode::Write,
            1 => Mode::Read,
            _ => Mode::Both,
        };
        let connections = whole(parameters, "connections", 1, MOST_CONNECTIONS)? as usize;
        let flows = if mode == Mode::Both { 2 * connections } else { connections };
        let workers = match parameters.integer("workers")? {
            None => flows.min(OWN_WORKERS),
            Some(_) => (whole(parameters, "workers", 1, MOST_WORKERS)? as usize).min(flows),
        };
        let sharing = Sharing::of(parameters.required_text("sharing")?).unwrap_or(Sharing::Threads);
        let is_apart = parameters.required_text("network")? == PEER;
        let network = if is_apart { NetworkSpec::HOST } else { NetworkSpec::read(parameters)? };
        if protocol == Protocol::Unix && network.topology != Topology::Host {
            return Err(Problem::usage(
                format!("protocol unix with network {}", network.topology.word()),
                "sockets of that kind do not go through a network",
            )
            .hint("take network host"));
        }
        let rate = whole(parameters, "rate", 0, MOST_RATE_PER_S)?;
        let sockets = SocketOptions {
            no_delay: parameters.required_boolean("no_delay")?,
            send_buffer: buffer(parameters, "send_buffer")?,
            receive_buffer: buffer(parameters, "receive_buffer")?,
        };
        Ok(Setup {
            connections,
            protocol,
            size: size(parameters, protocol)?,
            mode,
            workers,
            sharing,
            network,
            is_apart,
            profile: parameters.text("profile")?.map(PathBuf::from),
            interval_ns: 1_000_000_000_u64.checked_div(rate).unwrap_or(0),
            sockets,
            placement: Placement::read(parameters, host)?,
        })
    }
}

fn size(parameters: &Parameters, protocol: Protocol) -> Result<u64, Problem> {
    let most = if protocol == Protocol::Udp { MOST_DATAGRAM_BYTES } else { MOST_SIZE_BYTES };
    match parameters.integer("size")? {
        None if protocol == Protocol::Udp => Ok(UDP_BYTES),
        None => Ok(TCP_BYTES),
        Some(bytes) => match u64::try_from(bytes) {
            Ok(0) => {
                Err(Problem::usage("size 0", "a transfer without bytes has no end").hint(format!("from 1 to {most}")))
            }
            Ok(size) if size <= most => Ok(size),
            _ if protocol == Protocol::Udp => {
                Err(Problem::usage(format!("size {bytes}"), "a transfer with udp is one datagram")
                    .hint(format!("from 1 to {most}")))
            }
            _ => Err(Problem::usage(format!("size {bytes}"), format!("it is not between 1 and {most}"))),
        },
    }
}

fn buffer(parameters: &Parameters, name: &str) -> Result<Option<u32>, Problem> {
    match parameters.integer(name)? {
        None => Ok(None),
        Some(_) => Ok(Some(whole(parameters, name, 1, MOST_BUFFER_BYTES)? as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    fn read(changes: &[(&str, Value)]) -> String {
        let mut parameters = Parameters::default();
        let defaults: [(&str, Value); 7] = [
            ("connections", 1.into()),
            ("protocol", "tcp".into()),
            ("mode", "write".into()),
            ("sharing", "threads".into()),
            ("network", "host".into()),
            ("rate", 0.into()),
            ("no_delay", false.into()),
        ];
        for (name, value) in defaults.iter().chain(changes) {
            parameters.set(name, value.clone());
        }
        match Setup::read(&parameters, &Host::real()) {
            Ok(s) => format!(
                "{} connections of {} bytes, {} workers, {} ns",
                s.connections, s.size, s.workers, s.interval_ns
            ),
            Err(problem) => format!("{}: {}", problem.what, problem.why),
        }
    }

    #[test]
    fn parameters_are_checked_once_more() {
        let check = |changes: &[(&str, Value)], expect: &str| assert_eq!(read(changes), expect, "{changes:?}");
        check(&[], "1 connections of 131072 bytes, 1 workers, 0 ns");
        check(&[("protocol", "udp".into())], "1 connections of 1472 bytes, 1 workers, 0 ns");
        check(
            &[("connections", 100.into()), ("rate", 1000.into())],
            "100 connections of 131072 bytes, 64 workers, 1000000 ns",
        );
        check(
            &[("connections", 40.into()), ("mode", "both".into())],
            "40 connections of 131072 bytes, 64 workers, 0 ns",
        );
        check(&[("connections", 2.into()), ("workers", 9.into())], "2 connections of 131072 bytes, 2 workers, 0 ns");
        check(&[("size", 0.into())], "size 0: a transfer without bytes has no end");
        check(&[("size", (1i64 << 30).into())], "1 connections of 1073741824 bytes, 1 workers, 0 ns");
        check(&[("size", ((1i64 << 30) + 1).into())], "size 1073741825: it is not between 1 and 1073741824");
        check(&[("size", (-1).into())], "size -1: it is not between 1 and 1073741824");
        check(
            &[("size", 65_508.into()), ("protocol", "udp".into())],
            "size 65508: a transfer with udp is one datagram",
        );
        check(&[("connections", 0.into())], "connections 0: it is not between 1 and 10000");
        check(&[("connections", 10_001.into())], "connections 10001: it is not between 1 and 10000");
        check(&[("protocol", "sctp".into())], "protocol sctp: it is none of tcp, udp, unix");
        check(&[("network", "moon".into())], "network `moon`: there is no such network");
        check(
            &[("protocol", "unix".into()), ("network", "veth".into())],
            "protocol unix with network veth: sockets of that kind do not go through a network",
        );
        check(&[("send_buffer", 0.into())], "send_buffer 0: it is not between 1 and 1073741824");
        check(&[("mtu", 20.into())], "mtu 20: it is not between 68 and 65535");
    }
}
