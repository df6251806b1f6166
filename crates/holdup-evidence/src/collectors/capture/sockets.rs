//! tcp_info of the sockets of the tasks under test, as `ss -i` shows it.

use holdup_host::Host;
use holdup_host::network::{TCP_FIELDS, TasksNamespace, TcpInfo, TcpUnit};
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{EvidenceItem, SparseHistogram};
use std::collections::{BTreeMap, BTreeSet};

/// The sockets of one namespace by their cookies, or why they are not known.
pub(super) type Sockets = Result<BTreeMap<u64, TcpInfo>, String>;

/// The sockets of some tasks that are of a namespace.
pub(super) fn read(host: &Host, namespace: &TasksNamespace, files: &BTreeSet<u64>) -> Sockets {
    host.tcp_sockets(namespace, files).map_err(|e| e.to_string())
}

/// The sum over all namespaces.
#[derive(Default)]
pub(super) struct Sum {
    sockets: u64,
    gone: u64,
    values: [Option<u64>; TCP_FIELDS.len()],
    rtt: SparseHistogram,
    min_rtt: SparseHistogram,
    /// Why some are not known, each reason once.
    absent: BTreeSet<String>,
}

impl Sum {
    /// Adds a namespace: of sockets that were there at the begin what was added, of others all.
    pub(super) fn add(&mut self, before: &Sockets, after: &Sockets) {
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                self.absent.insert(why.clone());
                return;
            }
        };
        self.gone += before.keys().filter(|cookie| !after.contains_key(cookie)).count() as u64;
        for (cookie, now) in after {
            self.sockets += 1;
            let then = before.get(cookie);
            for (i, sum) in self.values.iter_mut().enumerate() {
                if let Some(value) = now.values[i] {
                    let earlier = then.and_then(|then| then.values[i]).unwrap_or(0);
                    *sum = Some(sum.unwrap_or(0).saturating_add(value.saturating_sub(earlier)));
                }
            }
            let ns = |us: u32| u64::from(us) * 1_000;
            now.rtt_us.map(ns).into_iter().for_each(|ns| self.rtt.record_n_ns(ns, 1));
            now.min_rtt_us.map(ns).into_iter().for_each(|ns| self.min_rtt.record_n_ns(ns, 1));
        }
    }

    /// The numbers; absent where no namespace could be read.
    pub(super) fn items(&self) -> Vec<EvidenceItem> {
        if self.sockets == 0 && !self.absent.is_empty() {
            let why: Vec<&str> = self.absent.iter().map(String::as_str).collect();
            return vec![EvidenceItem::absent("tcp_sockets", "1", why.join("; "))];
        }
        let mut items = vec![EvidenceItem::new("tcp_sockets", "1", self.sockets as f64)];
        for (field, value) in TCP_FIELDS.iter().zip(self.values) {
            let Some(value) = value else { continue };
            items.push(match field.unit {
                TcpUnit::Count => EvidenceItem::labelled("tcp_info", field.name, "1", value as f64),
                TcpUnit::Bytes => EvidenceItem::labelled("tcp_info_bytes", field.name, "bytes", value as f64),
                TcpUnit::Us => EvidenceItem::labelled("tcp_info_s", field.name, "s", value as f64 / 1e6),
            });
        }
        items
    }

    /// The round trips of the sockets that were there at the end.
    pub(super) fn histograms(self) -> Vec<EvidenceHistogram> {
        let named = [("tcp_info_rtt_ns", self.rtt), ("tcp_info_min_rtt_ns", self.min_rtt)];
        let seen = named.into_iter().filter(|(_, histogram)| histogram.count() > 0);
        seen.map(|(name, histogram)| EvidenceHistogram { name: name.to_owned(), label: None, histogram }).collect()
    }

    /// What is not in the numbers.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.absent.iter().map(|why| format!("the sockets of a namespace: {why}")).collect();
        if self.gone > 0 {
            notes.push(format!(
                "{} open at the begin, closed before the end: their tcp_info after the begin is not known",
                holdup_model::text::count(usize::try_from(self.gone).unwrap_or(usize::MAX), "socket")
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(all: u64, rtt_us: Option<u32>) -> TcpInfo {
        let mut info = TcpInfo { rtt_us, ..TcpInfo::default() };
        info.values[..10].fill(Some(all));
        info
    }

    fn sockets(list: &[(u64, TcpInfo)]) -> Sockets {
        Ok(list.iter().copied().collect())
    }

    #[test]
    fn increases_are_summed_and_closed_sockets_are_noted() {
        let mut sum = Sum::default();
        sum.add(
            &sockets(&[(1, info(10, None)), (2, info(5, None))]),
            &sockets(&[(1, info(13, Some(40))), (3, info(4, None))]),
        );
        let items = sum.items();
        let value = |name: &str, label: Option<&str>| {
            let item = items.iter().find(|i| i.name == name && i.label.as_deref() == label);
            item.and_then(|i| i.value.value())
        };
        assert_eq!(value("tcp_sockets", None), Some(2.0));
        assert_eq!(value("tcp_info", Some("total_retrans")), Some(7.0), "3 more of one, all 4 of the new one");
        assert_eq!(value("tcp_info_s", Some("busy_time")), Some(7e-6));
        assert_eq!(value("tcp_info_s", Some("sndbuf_limited")), None, "this kernel does not have it");
        assert!(sum.notes()[0].starts_with("1 socket open at the begin"), "{:?}", sum.notes());
        let histograms = sum.histograms();
        assert_eq!((histograms.len(), histograms[0].name.as_str()), (1, "tcp_info_rtt_ns"));
    }

    #[test]
    fn unreadable_sockets_are_absent_and_no_zero() {
        let mut sum = Sum::default();
        sum.add(&sockets(&[]), &Err("it may not".to_owned()));
        let items = sum.items();
        assert!(matches!(&items[..], [one] if one.name == "tcp_sockets" && one.value.value().is_none()), "{items:?}");
        assert_eq!(sum.notes(), ["the sockets of a namespace: it may not"]);
    }
}
