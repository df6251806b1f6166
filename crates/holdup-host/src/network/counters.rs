//! What the kernel counts in a network: packets, drops and retransmissions.

use super::link::LinkCounters;
use crate::{Host, HostError};
use std::collections::BTreeMap;
use std::io;

/// What the kernel counted at both ends and on every link of a network since they were made.
///
/// [`Counters::minus`] gives what was added between two readings. The readings of the two ends and of the links are
/// made one after another, so that their sums agree only while nothing is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// The protocols on the client's side.
    pub client: ProtocolCounters,
    /// The protocols on the server's side; the same as `client` where both ends are in one namespace.
    pub server: ProtocolCounters,
    /// The links by their place: `client`, `server`, and `switch.client`, `switch.server` where there is a switch.
    /// Where both ends are in one namespace only `client`, its loopback link.
    pub links: BTreeMap<&'static str, LinkCounters>,
    /// What the CPUs of the whole host did with received packets, in any namespace; or why that is not known.
    pub softnet: Result<Softnet, String>,
    /// What an Open vSwitch dropped, empty without one; or why that is not known. `datapath.lost`: packets that its
    /// datapath could not hand to ovs-vswitchd. `client.socket.dropped`, `server.socket.dropped`: with the datapath in user
    /// space, packets of that end that the switch's packet socket had no room for.
    pub switch: Result<BTreeMap<&'static str, u64>, String>,
}

impl Counters {
    /// What was added since an earlier reading of the same network. What the earlier one does not have is left out.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let links = self.links.iter().filter_map(|(place, now)| Some((*place, now.minus(earlier.links.get(place)?))));
        let softnet = match (&self.softnet, &earlier.softnet) {
            (Ok(now), Ok(before)) => now.minus(before),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let switch = match (&self.switch, &earlier.switch) {
            (Ok(now), Ok(before)) => {
                let added = now.iter().filter_map(|(name, n)| Some((*name, n.wrapping_sub(*before.get(name)?))));
                Ok(added.collect())
            }
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        Counters {
            client: self.client.minus(&earlier.client),
            server: self.server.minus(&earlier.server),
            links: links.collect(),
            softnet,
            switch,
        }
    }

    /// Every counter of lost UDP datagrams and IP packets that is not 0, as `PLACE.GROUP.NAME`, with its number:
    /// `server.Udp.RcvbufErrors`. They do not overlap, save that a datagram of several fragments is many packets.
    pub fn losses(&self) -> Vec<(String, u64)> {
        let of_end = |place: &'static str, end: &ProtocolCounters| {
            let named = LOSSES.iter().filter_map(|(group, name)| Some((group, name, end.get(group, name)?)));
            named.map(|(group, name, n)| (format!("{place}.{group}.{name}"), n)).collect::<Vec<_>>()
        };
        let mut found = of_end("client", &self.client);
        if self.links.contains_key("server") {
            found.extend(of_end("server", &self.server));
        }
        for (place, link) in &self.links {
            let named = [
                ("rx_errors", link.rx_errors),
                ("tx_errors", link.tx_errors),
                ("rx_dropped", link.rx_dropped),
                ("tx_dropped", link.tx_dropped),
            ];
            found.extend(named.map(|(name, n)| (format!("{place}.link.{name}"), n)));
        }
        found.extend(self.softnet.iter().map(|softnet| ("host.softnet.dropped".to_owned(), softnet.dropped())));
        found.extend(self.switch.iter().flatten().map(|(name, n)| (format!("switch.{name}"), *n)));
        found.retain(|(_, n)| *n > 0);
        found
    }
}

/// The counters of lost datagrams and packets. `Udp.InErrors` is the sum of its kinds and is left out for them.
const LOSSES: &[(&str, &str)] = &[
    ("Udp", "RcvbufErrors"),
    ("Udp", "MemErrors"),
    ("Udp", "InCsumErrors"),
    ("Udp", "NoPorts"),
    ("Udp", "SndbufErrors"),
    ("Udp6", "RcvbufErrors"),
    ("Udp6", "MemErrors"),
    ("Udp6", "InCsumErrors"),
    ("Udp6", "NoPorts"),
    ("Udp6", "SndbufErrors"),
    ("Ip", "InDiscards"),
    ("Ip", "OutDiscards"),
    ("Ip", "InHdrErrors"),
    ("Ip", "InAddrErrors"),
    ("Ip", "OutNoRoutes"),
    ("Ip", "ReasmFails"),
    ("Ip", "FragFails"),
];

/// The groups that are kept, and what in them is a state or a setting and no count.
const GROUPS: &[&str] = &["Ip", "IpExt", "Tcp", "TcpExt", "Udp", "Udp6"];
const NO_COUNTS: &[(&str, &str)] = &[
    ("Ip", "Forwarding"),
    ("Ip", "DefaultTTL"),
    ("Tcp", "RtoAlgorithm"),
    ("Tcp", "RtoMin"),
    ("Tcp", "RtoMax"),
    ("Tcp", "MaxConn"),
    ("Tcp", "CurrEstab"),
];

/// The counters of the protocols in one namespace, by the kernel's own names.
///
/// Sources: `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6` as a thread of that namespace reads them;
/// `net/ipv4/proc.c`, `net/ipv6/proc.c` (v6.18); the kernel's `networking/snmp_counter`. Groups: Ip, IpExt, Tcp, TcpExt,
/// Udp, Udp6. A counter that this kernel does not have is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProtocolCounters {
    counts: BTreeMap<(String, String), u64>,
}

impl ProtocolCounters {
    /// Reads those of the namespace of the calling thread.
    pub(super) fn read(host: &Host) -> Result<Self, HostError> {
        let mut found = ProtocolCounters::default();
        found.add_pairs_of_lines(&host.read_text("/proc/thread-self/net/snmp")?);
        if found.counts.is_empty() {
            let why = io::Error::new(io::ErrorKind::InvalidData, "there is no counter in it");
            return Err(HostError::new("read", "/proc/thread-self/net/snmp", &why));
        }
        found.add_pairs_of_lines(&host.read_text("/proc/thread-self/net/netstat")?);
        match host.read_text("/proc/thread-self/net/snmp6") {
            Ok(text) => found.add_lines(&text),
            // A kernel without IPv6.
            Err(e) if e.is_gone() => {}
            Err(e) => return Err(e),
        }
        Ok(found)
    }

    /// A counter, `None` where this kernel has none of that name: `get("Udp", "RcvbufErrors")`.
    pub fn get(&self, group: &str, name: &str) -> Option<u64> {
        self.counts.get(&(group.to_owned(), name.to_owned())).copied()
    }

    /// UDP datagrams that were given to receivers' sockets (`Udp.InDatagrams`): counted when they are read from the
    /// socket, not when they arrive.
    pub fn udp_delivered(&self) -> Option<u64> {
        self.get("Udp", "InDatagrams")
    }

    /// TCP segments that were sent again (`Tcp.RetransSegs`).
    pub fn tcp_retransmitted(&self) -> Option<u64> {
        self.get("Tcp", "RetransSegs")
    }

    /// All counters as (group, name, number), sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.counts.iter().map(|((group, name), n)| (group.as_str(), name.as_str(), *n))
    }

    fn minus(&self, earlier: &Self) -> Self {
        let added = self
            .counts
            .iter()
            .filter_map(|(key, now)| Some((key.clone(), now.wrapping_sub(*earlier.counts.get(key)?))));
        ProtocolCounters { counts: added.collect() }
    }

    /// A line of names, and below it one of their numbers, each after the group.
    fn add_pairs_of_lines(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((same, numbers))) = (names.split_once(':'), numbers.split_once(':')) else {
                continue;
            };
            if group != same {
                continue;
            }
            for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
                self.add(group, name, number);
            }
        }
    }

    /// A name with its group before it, and its number: `Udp6InDatagrams 0`.
    fn add_lines(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(name), Some(number)) = (words.next().and_then(|w| w.strip_prefix("Udp6")), words.next()) {
                self.add("Udp6", name, number);
            }
        }
    }

    fn add(&mut self, group: &str, name: &str, number: &str) {
        if GROUPS.contains(&group)
            && !NO_COUNTS.contains(&(group, name))
            && let Ok(number) = number.parse()
        {
            self.counts.insert((group.to_owned(), name.to_owned()), number);
        }
    }
}

/// What every CPU of the host did with received packets, since boot.
///
/// Source: `/proc/net/softnet_stat`, `net/core/net-procfs.c:softnet_seq_show` (v6.18): one line of hexadecimal numbers
/// of 32 bits for every CPU that is online, which wrap around. They belong to no namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Softnet {
    cpus: Vec<[u32; 3]>,
}

impl Softnet {
    pub(super) fn read(host: &Host) -> Result<Self, String> {
        let path = "/proc/thread-self/net/softnet_stat";
        let text = host.read_text(path).map_err(|e| e.to_string())?;
        Self::parse(&text).ok_or_else(|| format!("{path}: a line is no list of three or more hexadecimal numbers"))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16).ok());
            Some([words.next()??, words.next()??, words.next()??])
        };
        let cpus: Option<Vec<[u32; 3]>> = text.lines().map(line).collect();
        Some(Softnet { cpus: cpus.filter(|cpus| !cpus.is_empty())? })
    }

    fn total(&self, column: usize) -> u64 {
        self.cpus.iter().map(|cpu| u64::from(cpu[column])).sum()
    }

    /// Packets that were taken from the CPUs' queues.
    pub fn processed(&self) -> u64 {
        self.total(0)
    }

    /// Packets dropped because a CPU's queue was full (`net.core.netdev_max_backlog`).
    pub fn dropped(&self) -> u64 {
        self.total(1)
    }

    /// How often a CPU left packets for later because its time or its budget had run out.
    pub fn time_squeezed(&self) -> u64 {
        self.total(2)
    }

    fn minus(&self, earlier: &Self) -> Result<Self, String> {
        if self.cpus.len() != earlier.cpus.len() {
            let (before, now) = (earlier.cpus.len(), self.cpus.len());
            return Err(format!("/proc/net/softnet_stat: {before} CPUs were online at first and {now} at last"));
        }
        let added = |(now, before): (&[u32; 3], &[u32; 3])| std::array::from_fn(|at| now[at].wrapping_sub(before[at]));
        Ok(Softnet { cpus: self.cpus.iter().zip(&earlier.cpus).map(added).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    const SNMP: &str = "Ip: Forwarding DefaultTTL InReceives InDiscards\nIp: 1 64 10 2\n\
                        Tcp: RtoAlgorithm MaxConn CurrEstab RetransSegs\nTcp: 1 -1 3 7\n\
                        Udp: InDatagrams NoPorts InErrors RcvbufErrors\nUdp: 5 1 4 4\n\
                        UdpLite: InDatagrams\nUdpLite: 9\n";
    const NETSTAT: &str = "TcpExt: TCPLostRetransmit\nTcpExt: 2\n";

    fn read(files: &[(&str, &str)]) -> Result<ProtocolCounters, HostError> {
        let path = |name: &str| format!("/proc/thread-self/net/{name}");
        let files: Vec<(String, &str)> = files.iter().map(|(name, text)| (path(name), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        ProtocolCounters::read(&MemoryFs::of(&files).host())
    }

    #[test]
    fn counts_are_kept_and_states_are_not() {
        let read = read(&[("snmp", SNMP), ("netstat", NETSTAT), ("snmp6", "Ip6InReceives 3\nUdp6NoPorts 6\n")]);
        let read = read.expect("whole");
        let all: Vec<(&str, &str, u64)> = read.iter().collect();
        let expect = [
            ("Ip", "InDiscards", 2),
            ("Ip", "InReceives", 10),
            ("Tcp", "RetransSegs", 7),
            ("TcpExt", "TCPLostRetransmit", 2),
            ("Udp", "InDatagrams", 5),
            ("Udp", "InErrors", 4),
            ("Udp", "NoPorts", 1),
            ("Udp", "RcvbufErrors", 4),
            ("Udp6", "NoPorts", 6),
        ];
        assert_eq!(all, expect);
        assert_eq!(read.get("Udp", "MemErrors"), None);
    }

    #[test]
    fn files_that_are_missing_or_foreign_are_reported() {
        assert!(read(&[]).expect_err("nothing there").is_gone());
        for foreign in ["", "Ip: a\n", "Ip: a\nTcp: 1\n", "\u{0}\n\u{0}\n", "Ip: a\nIp: -1\n"] {
            let error = read(&[("snmp", foreign), ("netstat", NETSTAT)]).expect_err(foreign);
            assert!(error.to_string().contains("/proc/thread-self/net/snmp"), "{error}");
        }
        assert!(read(&[("snmp", SNMP)]).expect_err("no netstat").to_string().contains("netstat"));
    }

    #[test]
    fn softnet_wraps_around_for_each_cpu_alone() {
        let before = Softnet::parse("fffffffe 00000001 00000000 0\n00000005 00000000 00000002 0\n").expect("whole");
        let now = Softnet::parse("00000002 00000001 00000001 0\n00000006 00000003 00000002 0\n").expect("whole");
        let added = now.minus(&before).expect("as many CPUs");
        assert_eq!((added.processed(), added.dropped(), added.time_squeezed()), (5, 3, 1));
        let one = Softnet::parse("1 1 1\n").expect("whole");
        assert!(one.minus(&before).expect_err("a CPU is gone").contains("2 CPUs were online at first and 1 at last"));
        for foreign in ["", "1 2\n", "x y z\n", "1 2 3\n\n", "100000000 1 1\n"] {
            assert_eq!(Softnet::parse(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn losses_name_the_place_the_group_and_the_counter() {
        let of = |snmp: &str| read(&[("snmp", snmp), ("netstat", NETSTAT)]).expect("whole");
        let quiet = "Udp: InDatagrams RcvbufErrors InErrors NoPorts\nUdp: 5 0 0 0\n";
        let link = LinkCounters { tx_dropped: 3, ..LinkCounters::default() };
        let links = BTreeMap::from([("client", LinkCounters::default()), ("server", link)]);
        let softnet = Softnet::parse("9 1 0\n").ok_or_else(String::new);
        let switch = Ok(BTreeMap::from([("datapath.lost", 0), ("client.socket.dropped", 6)]));
        let counters = Counters { client: of(quiet), server: of(SNMP), links, softnet, switch };
        let losses: Vec<(String, u64)> = counters.losses();
        let losses: Vec<(&str, u64)> = losses.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        let expect = [
            ("server.Udp.RcvbufErrors", 4),
            ("server.Udp.NoPorts", 1),
            ("server.Ip.InDiscards", 2),
            ("server.link.tx_dropped", 3),
            ("host.softnet.dropped", 1),
            ("switch.client.socket.dropped", 6),
        ];
        assert_eq!(losses, expect);
        assert!(counters.minus(&counters).losses().is_empty());
    }
}
