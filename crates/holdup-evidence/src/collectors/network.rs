//! TCP and UDP counters of the kernel.

use crate::reading::{Produces, Reader, Seen, TwoReadings, increase, start};
use crate::{CollectContext, Collecting, Collector};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct Network;

static META: Meta = Meta {
    id: "network",
    summary: "TCP and UDP counters: segments, retransmissions, drops",
    docs: "From /proc/net/snmp and /proc/net/netstat of holdup's own network namespace. Counters that matter are told even \
           when they did not move (retransmissions, receive-buffer errors); of the others only those that moved. Gauges \
           such as CurrEstab are left out. What is sent is not delivered: UDP's RcvbufErrors are the kernel's drops.",
    references: &["net/ipv4/proc.c:snmp_seq_show, netstat_seq_show (v6.18)", "RFC 4022", "RFC 4113"],
};

const PRODUCES: Produces = &[("network", "1", "increase of a counter, by protocol and name")];

/// Told even when they did not move: a zero here is an answer.
const ALWAYS: [&str; 6] = [
    "Tcp RetransSegs",
    "Tcp OutSegs",
    "Udp RcvbufErrors",
    "Udp SndbufErrors",
    "Udp OutDatagrams",
    "TcpExt TCPLostRetransmit",
];

/// Settings and gauges, which are no counters.
const NO_COUNTERS: [&str; 6] =
    ["Tcp RtoAlgorithm", "Tcp RtoMin", "Tcp RtoMax", "Tcp MaxConn", "Tcp CurrEstab", "Ip DefaultTTL"];

struct What;

/// Pairs of lines, the first with names and the second with numbers, both begun by the protocol.
pub(crate) fn parse(text: &str, counts: &mut BTreeMap<String, u64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, numbers))) = (names.split_once(':'), numbers.split_once(':')) else {
            continue;
        };
        if protocol != same {
            continue;
        }
        for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
            let key = format!("{protocol} {name}");
            if let (Ok(number), false) = (number.parse::<u64>(), NO_COUNTERS.contains(&key.as_str())) {
                counts.insert(key, number);
            }
        }
    }
}

impl TwoReadings for What {
    type Reading = BTreeMap<String, u64>;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        let mut counts = BTreeMap::new();
        parse(&reader.text("/proc/net/snmp")?, &mut counts);
        // A kernel without CONFIG_INET's extended counters still has the first file.
        if let Ok(text) = reader.text("/proc/net/netstat") {
            parse(&text, &mut counts);
        }
        if counts.is_empty() { Err("/proc/net/snmp holds no counters".to_owned()) } else { Ok(counts) }
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        for (name, now) in after {
            match before.get(name).and_then(|then| increase(*then, *now)) {
                Some(0) if !ALWAYS.contains(&name.as_str()) => {}
                Some(count) => seen.items.push(EvidenceItem::labelled("network", name, "1", count as f64)),
                None => seen.lost += 1,
            }
        }
        seen
    }
}

impl Collector for Network {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        let mut counts = BTreeMap::new();
        match context.host.read_text("/proc/net/snmp") {
            Ok(text) => {
                parse(&text, &mut counts);
                if counts.is_empty() {
                    return Availability::unavailable("/proc/net/snmp has another form on this kernel");
                }
                Availability::Ready
            }
            Err(e) => Availability::unavailable(e.to_string()),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What).map_err(|why| Problem::host("collector network", why))
    }
}
