//! The parameters of `stream`, read and checked.

use crate::profile::{MOST_DATAGRAM_BYTES, MOST_SIZE_BYTES};
use holdup_catalogue::stream::{self, Mode, Network, Protocol};
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::network::NetworkSpec;
use holdup_load::placement::Placement;
use holdup_load::worker_pool::Sharing;
use holdup_model::{Parameters, Problem};
use std::path::PathBuf;

/// What all sockets are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketOptions {
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
    /// True if the server is another machine.
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
        let p = stream::Parameters::read(parameters)?;
        let flows: u32 = p.flows().iter().sum();
        let is_apart = p.network == Network::Peer;
        let network = if is_apart { NetworkSpec::HOST } else { NetworkSpec::of(p.network.word(), p.mtu)? };
        if p.protocol == Protocol::Unix && network.topology != Topology::Host {
            return Err(Problem::usage(
                format!("protocol unix with network {}", p.network),
                "sockets of that kind do not go through a network",
            )
            .hint("take network host"));
        }
        Ok(Setup {
            connections: p.connections as usize,
            protocol: p.protocol,
            size: size(&p)?,
            mode: p.mode,
            workers: p.most_workers().min(flows) as usize,
            sharing: p.sharing,
            network,
            is_apart,
            interval_ns: 1_000_000_000_u64.checked_div(p.rate).unwrap_or(0),
            sockets: SocketOptions {
                no_delay: p.no_delay,
                send_buffer: p.send_buffer.map(|bytes| bytes as u32),
                receive_buffer: p.receive_buffer.map(|bytes| bytes as u32),
            },
            placement: Placement::on(p.placement, host)?,
            profile: p.profile,
        })
    }
}

fn size(p: &stream::Parameters) -> Result<u64, Problem> {
    let most = if p.protocol == Protocol::Udp { MOST_DATAGRAM_BYTES } else { MOST_SIZE_BYTES };
    let wrong =
        |size: u64, why: String| Err(Problem::usage(format!("size {size}"), why).hint(format!("from 1 to {most}")));
    match p.transfer_bytes() {
        0 => wrong(0, "a transfer without bytes has no end".to_owned()),
        size if size <= most => Ok(size),
        size if p.protocol == Protocol::Udp => wrong(size, "a transfer with udp is one datagram".to_owned()),
        size => wrong(size, format!("it is not between 1 and {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    fn read(changes: &[(&str, Value)]) -> String {
        let mut parameters = stream::Parameters::defaults(2);
        for (name, value) in changes {
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
        check(&[("size", (-1).into())], "size -1: it must be 0B or more");
        check(
            &[("size", 65_508.into()), ("protocol", "udp".into())],
            "size 65508: a transfer with udp is one datagram",
        );
        check(&[("connections", 0.into())], "connections 0: it must be from 1 to 10000");
        check(&[("connections", 10_001.into())], "connections 10001: it must be from 1 to 10000");
        check(&[("protocol", "sctp".into())], "protocol sctp: it must be one of tcp, udp, unix");
        check(
            &[("network", "moon".into())],
            "network moon: it must be one of host, loopback, veth, bridge, openvswitch, peer",
        );
        check(
            &[("protocol", "unix".into()), ("network", "veth".into())],
            "protocol unix with network veth: sockets of that kind do not go through a network",
        );
        check(&[("send_buffer", 0.into())], "send_buffer 0: it must be from 1B to 1GB");
        check(&[("mtu", 20.into())], "mtu 20: it must be from 68 to 65535");
    }
}
