//! The UDP counters of a network namespace (`/proc/net/snmp`, net/ipv4/proc.c:snmp_seq_show, Linux 6.18; RFC 4113).

use holdup_host::Host;

/// Datagrams of the whole namespace, IPv4 only, counted by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Udp {
    /// Read by programs (`InDatagrams`: counted when a program takes one from its queue).
    pub received: u64,
    /// Handed to the network by programs (`OutDatagrams`).
    pub sent: u64,
    /// Dropped because the queue of the receiving socket was full (`RcvbufErrors`).
    pub queue_full: u64,
    /// Dropped for any reason, those above among them (`InErrors`).
    pub errors: u64,
}

impl Udp {
    /// What was counted since an earlier reading; `None` when a counter went back.
    pub fn since(self, before: Udp) -> Option<Udp> {
        Some(Udp {
            received: self.received.checked_sub(before.received)?,
            sent: self.sent.checked_sub(before.sent)?,
            queue_full: self.queue_full.checked_sub(before.queue_full)?,
            errors: self.errors.checked_sub(before.errors)?,
        })
    }
}

/// Where they are read.
pub const PATH: &str = "/proc/net/snmp";

/// The counters now.
///
/// # Errors
/// Why they cannot be had.
pub fn read(host: &Host) -> Result<Udp, String> {
    let text = host.read_text(PATH).map_err(|e| e.to_string())?;
    parse(&text).ok_or_else(|| format!("{PATH} has no counters of UDP"))
}

/// Two lines `Udp:`, the first with names, the second with numbers.
pub fn parse(text: &str) -> Option<Udp> {
    let mut lines = text.lines().filter_map(|l| l.strip_prefix("Udp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let named = |name: &str| {
        let at = names.split_whitespace().position(|n| n == name)?;
        numbers.split_whitespace().nth(at)?.parse().ok()
    };
    Some(Udp {
        received: named("InDatagrams")?,
        sent: named("OutDatagrams")?,
        queue_full: named("RcvbufErrors")?,
        errors: named("InErrors")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Tcp: a b\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 5 4 3 2 1\n\
                    UdpLite: InDatagrams\nUdpLite: 0\n";
        let udp = Udp { received: 5, sent: 2, queue_full: 1, errors: 3 };
        assert_eq!(parse(text), Some(udp));
        assert_eq!(parse("Udp: InDatagrams\n"), None);
        assert_eq!(parse("Udp: InDatagrams\nUdp: x\n"), None);
        assert_eq!(udp.since(Udp::default()), Some(udp));
        assert_eq!(Udp::default().since(udp), None);
    }
}
