//! TCP and UDP counters of the kernel.

use crate::reading::{Produces, Reader, TwoReadings, WindowStats, host_only, increase};
use holdup_model::{EvidenceItem, Meta};
use std::collections::BTreeMap;
use std::time::Duration;
pub(crate) static NETWORK: &TwoReadings<(), BTreeMap<String, u64>> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| {
        let text = context.host.read_text("/proc/net/snmp").map_err(|e| e.to_string())?;
        let mut counts = BTreeMap::new();
        parse(&text, &mut counts);
        if counts.is_empty() { Err("/proc/net/snmp has another form on this kernel".to_owned()) } else { Ok(()) }
    },
    remedy: None,
    open: host_only,
    read,
    compare,
};

static META: Meta = Meta {
    id: "network",
    summary: "TCP and UDP counters: segments, retransmissions, drops",
    docs: "From /proc/net/snmp and /proc/net/netstat of holdup's own network namespace. Counters that matter are reported even \
           when they did not move (retransmissions, receive-buffer errors); of the others only those that moved. Gauges \
           such as CurrEstab are left out. What is sent is not delivered: UDP's RcvbufErrors are the kernel's drops.",
    references: &["net/ipv4/proc.c:snmp_seq_show, netstat_seq_show (v6.18)", "RFC 4022", "RFC 4113"],
};

const PRODUCES: Produces = &[("network", "1", "increase of a counter, by protocol and name")];

/// Reported even when they did not move: a zero here is an answer.
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

fn read((): &(), reader: &mut Reader<'_>) -> Result<BTreeMap<String, u64>, String> {
    let mut counts = BTreeMap::new();
    parse(&reader.text("/proc/net/snmp")?, &mut counts);
    // A kernel without CONFIG_INET's extended counters still has the first file.
    if let Ok(text) = reader.text("/proc/net/netstat") {
        parse(&text, &mut counts);
    }
    if counts.is_empty() { Err("/proc/net/snmp holds no counters".to_owned()) } else { Ok(counts) }
}

fn compare(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, _elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (name, now) in after {
        match before.get(name).and_then(|then| increase(*then, *now)) {
            Some(0) if !ALWAYS.contains(&name.as_str()) => {}
            Some(count) => stats.items.push(EvidenceItem::labelled("network", name, "1", count as f64)),
            None => stats.lost += 1,
        }
    }
    stats
}
