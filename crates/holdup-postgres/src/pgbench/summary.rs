//! What pgbench prints at its end.

/// The numbers of its last lines; `None` where a line was not there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary {
    /// `number of transactions actually processed`: those that succeeded.
    pub(crate) processed: Option<u64>,
    /// `number of failed transactions`; not printed before version 15.
    pub(crate) failed: Option<u64>,
    /// `number of transactions skipped`; printed with a latency limit only.
    pub(crate) skipped: Option<u64>,
    /// `initial connection time`, ms.
    pub(crate) connect_ms: Option<f64>,
    /// `tps`, without the time to connect.
    pub(crate) tps: Option<f64>,
    /// Lines that are not known, as they stand.
    pub(crate) unknown: Vec<String>,
}

/// Begins of lines that say what was asked for, or what is computed better from the log.
const KNOWN: [&str; 18] = [
    "pgbench (",
    "transaction type: ",
    "scaling factor: ",
    "partition method: ",
    "number of partitions: ",
    "query mode: ",
    "number of clients: ",
    "number of threads: ",
    "maximum number of tries: ",
    "duration: ",
    "number of transactions retried: ",
    "total number of retries: ",
    "number of transactions above the ",
    "number of serialization failures: ",
    "number of deadlock failures: ",
    "latency average = ",
    "latency stddev = ",
    "rate limit schedule lag: ",
];

impl Summary {
    /// Reads it. Never fails: a line that is not known is kept.
    pub(crate) fn parse(text: &str) -> Self {
        let mut summary = Summary::default();
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            if !summary.take(line) && !KNOWN.iter().any(|known| line.starts_with(known)) {
                summary.unknown.push(line.to_owned());
            }
        }
        summary
    }

    /// True if it is a line with a number that is wanted, and the number could be read.
    fn take(&mut self, line: &str) -> bool {
        let after = |head: &str| line.strip_prefix(head).and_then(|rest| rest.split([' ', '/']).next());
        fn put<T: std::str::FromStr>(slot: &mut Option<T>, text: Option<&str>) -> bool {
            match text.and_then(|t| t.parse().ok()) {
                Some(value) => {
                    *slot = Some(value);
                    true
                }
                None => false,
            }
        }
        put(&mut self.processed, after("number of transactions actually processed: "))
            || put(&mut self.failed, after("number of failed transactions: "))
            || put(&mut self.skipped, after("number of transactions skipped: "))
            || put(&mut self.connect_ms, after("initial connection time = "))
            // Before version 14 there are two such lines; the first includes connecting.
            || (!line.contains("(including ") && put(&mut self.tps, after("tps = ")))
            || (line.starts_with("tps = ") && line.contains("(including "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summaries_of_all_versions_are_read() {
        let v15 = "pgbench (15.18 (Debian 15.18-0+deb12u1))\ntransaction type: <builtin: select only>\n\
                   scaling factor: 10\nquery mode: prepared\nnumber of clients: 8\nnumber of threads: 2\n\
                   maximum number of tries: 3\nduration: 100 s\n\
                   number of transactions actually processed: 62658\n\
                   number of failed transactions: 2 (0.003%)\nnumber of transactions retried: 5 (0.008%)\n\
                   total number of retries: 9\nnumber of transactions skipped: 7 (0.011%)\n\
                   number of transactions above the 5.0 ms latency limit: 1/62658 (0.002%)\n\
                   latency average = 0.257 ms\nlatency stddev = 0.1 ms\n\
                   rate limit schedule lag: avg 0.10 (max 3.50) ms\n\
                   initial connection time = 20.044 ms\ntps = 31145.908775 (without initial connection time)\n";
        let expect = Summary {
            processed: Some(62658),
            failed: Some(2),
            skipped: Some(7),
            connect_ms: Some(20.044),
            tps: Some(31145.908775),
            unknown: vec![],
        };
        assert_eq!(Summary::parse(v15), expect);
        let v13 = "number of transactions actually processed: 5\ntps = 1.5 (including connections establishing)\n\
                   tps = 2.5 (excluding connections establishing)\n";
        let old = Summary::parse(v13);
        assert_eq!((old.processed, old.tps, old.unknown), (Some(5), Some(2.5), vec![]));
    }

    #[test]
    fn lines_that_are_not_known_are_kept() {
        let odd = Summary::parse("number of transactions actually processed: many\n\nsomething new = 5\n");
        assert_eq!(odd.processed, None);
        assert_eq!(odd.unknown, ["number of transactions actually processed: many", "something new = 5"]);
    }
}
