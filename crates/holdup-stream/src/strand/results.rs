//! From the counts of a pass to metrics.

use crate::profile::program::Action;
use crate::profile::{Protocol, Repeat};
use crate::results::{Life, Measured, datagrams, fairness, retransmitted};
use crate::strand::counts::Part;
use crate::strand::pass::{Passed, moves_data, window_of};
use holdup_load::TrialResult;
use holdup_load::record;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Problem};
use std::sync::atomic::{AtomicU64, Ordering};

/// One transaction, over all groups and strands.
struct Transaction {
    number: usize,
    line: u32,
    length_ns: u64,
    sent: u64,
    received: u64,
    transfers: u64,
    turns: u64,
    failed: u64,
    moves_data: bool,
    is_timed: bool,
}

/// What a pass brought. All strands have ended.
///
/// # Errors
/// Of kind `Trial` when what was sent is not what was received and dropped.
pub(crate) fn of(passed: &Passed<'_>) -> Result<TrialResult, Problem> {
    let mut notes: Vec<String> =
        passed.profile.notes.iter().map(|note| format!("profile, line {}: {}", note.line, note.text)).collect();
    let (life, bytes_dropped) = reckon(passed, &mut notes)?;
    let transactions: Vec<Transaction> = (0..passed.begun_ns.len()).map(|number| transaction(passed, number)).collect();
    let longest = transactions.iter().filter(|t| t.moves_data).max_by_key(|t| t.length_ns);
    notes.extend(transactions.iter().map(in_words));
    if let Some(longest) = longest.filter(|_| transactions.iter().filter(|t| t.moves_data).count() > 1) {
        notes.push(format!("rates are those of transaction {}, the longest that moves data", longest.number + 1));
    }
    let (first, last) = window_of(passed.pairs);
    let in_window: u64 = transactions.iter().filter(|t| (first..=last).contains(&t.number)).map(|t| t.received).sum();
    let client = passed.strands.slots().count() / 2;
    let latency = record::together(passed.strands.slots().take(client).map(|slot| &slot.latency));
    let cpu = |end: usize| Some(passed.cpu_ns[1][end]?.saturating_sub(passed.cpu_ns[0][end]?));
    let number = longest.map_or(0, |t| t.number);
    let pair_bytes = |index: usize| {
        let of = |index: usize| passed.strands.slot(index).parts[number].received.load(Ordering::Relaxed);
        of(index) + of(client + index)
    };
    let measured = Measured {
        length_ns: longest.map_or(0, |t| t.length_ns),
        sent: longest.map_or(0, |t| t.sent),
        received: longest.map_or(0, |t| t.received),
        transfers: longest.map_or(0, |t| t.transfers),
        latency: if latency.count() == 0 { Err("no transfer was whole".to_owned()) } else { Ok(&latency) },
        cpu_ns: [cpu(0), cpu(1)],
        cpu_bytes: in_window,
        fairness: fairness((0..client).map(pair_bytes)),
        life,
        bytes_dropped,
        retransmitted: retransmitted(protocol(passed), passed.setup.network.topology, passed.counters, &mut notes),
        held: passed.strands.slots().take(client).map(|slot| slot.held.load(Ordering::Relaxed)).sum(),
    };
    let strangers: u64 = passed.strands.slots().map(|slot| slot.strangers.load(Ordering::Relaxed)).sum();
    if strangers > 0 {
        notes.push(format!("{strangers} connections of others were turned away"));
    }
    notes.extend(passed.setup.placement.in_words());
    let measurements = measured.measurements();
    Ok(TrialResult::new(measurements, named(latency), notes))
}

fn named(latency: Histogram) -> Vec<NamedHistogram> {
    if latency.count() == 0 {
        return Vec::new();
    }
    vec![NamedHistogram { name: "latency".to_owned(), histogram: latency }]
}

/// What most of the connections speak: TCP if any does.
fn protocol(passed: &Passed<'_>) -> Protocol {
    let mut spoken = passed.pairs.iter().flat_map(|pair| &pair.client.endpoints).map(|endpoint| endpoint.protocol);
    if spoken.clone().any(|protocol| protocol == Protocol::Tcp) {
        return Protocol::Tcp;
    }
    spoken.next().unwrap_or(Protocol::Tcp)
}

fn transaction(passed: &Passed<'_>, number: usize) -> Transaction {
    let sum = |of: fn(&Part) -> &AtomicU64| {
        passed.strands.slots().map(|slot| of(&slot.parts[number]).load(Ordering::Relaxed)).sum::<u64>()
    };
    let client = passed.strands.slots().count() / 2;
    let client_sum = |of: fn(&Part) -> &AtomicU64| {
        passed.strands.slots().take(client).map(|slot| of(&slot.parts[number]).load(Ordering::Relaxed)).sum::<u64>()
    };
    let ended = passed.strands.slots().map(|slot| slot.parts[number].ended_ns.load(Ordering::Acquire)).max();
    let phases = || passed.pairs.iter().filter_map(|pair| pair.client.phases.get(number));
    let lines = passed.profile.groups.iter().filter_map(|group| group.transactions.get(number));
    Transaction {
        number,
        line: lines.map(|transaction| transaction.line).next().unwrap_or(0),
        length_ns: ended.unwrap_or(0).saturating_sub(passed.begun_ns[number]),
        sent: sum(|part| &part.sent),
        received: sum(|part| &part.received),
        transfers: sum(|part| &part.receives),
        turns: client_sum(|part| &part.turns),
        failed: sum(|part| &part.failed),
        moves_data: passed.pairs.iter().any(|pair| moves_data(&pair.client, number)),
        is_timed: phases().any(|phase| matches!(phase.repeat, Repeat::Duration(_))),
    }
}

fn in_words(t: &Transaction) -> String {
    let seconds = t.length_ns as f64 / 1e9;
    let rate = |count: u64| if t.length_ns == 0 { 0.0 } else { count as f64 / seconds };
    let kind = if t.is_timed { "for" } else { "in" };
    let mut text = format!("transaction {} (line {}): {} turns {kind} {seconds:.3} s", t.number + 1, t.line, t.turns);
    if t.moves_data {
        text.push_str(&format!(
            ", {:.3} Gbit/s delivered, {:.0} transfers/s",
            rate(t.received) * 8.0 / 1e9,
            rate(t.transfers)
        ));
    } else {
        text.push_str(&format!(", {:.0} turns/s", rate(t.turns)));
    }
    if t.failed > 0 {
        text.push_str(&format!(", {} steps failed that may", t.failed));
    }
    text
}

/// What was sent must be what was received, in its transaction or before its connection was closed.
fn reckon(passed: &Passed<'_>, notes: &mut Vec<String>) -> Result<(Life, u64), Problem> {
    let mut life = Life::default();
    let mut dropped = passed.left.dropped;
    for slot in passed.strands.slots() {
        let (sent, received) = slot.life();
        life.sent += sent;
        life.received += received;
        life.datagrams_sent += slot.datagrams_sent.load(Ordering::Relaxed);
        life.datagrams_received += slot.datagrams_received.load(Ordering::Relaxed);
        dropped += slot.datagrams_dropped.load(Ordering::Relaxed);
    }
    life.received += passed.left.bytes;
    life.datagrams_received += passed.left.datagrams;
    let has_udp = passed.pairs.iter().any(|pair| pair.client.endpoints.iter().any(|e| e.protocol == Protocol::Udp));
    let sends_files = passed.pairs.iter().flat_map(|pair| &pair.client.phases).flat_map(|phase| &phase.steps);
    let sends_files = sends_files.filter(|step| matches!(step.action, Action::SendFiles { .. })).count() > 0;
    if !has_udp {
        if life.sent != life.received {
            let why = format!("{} bytes were sent and {} received", life.sent, life.received);
            let problem = Problem::trial("what was sent is not what was received", why);
            return Err(if sends_files {
                problem.hint("files that change while they are sent do that")
            } else {
                problem
            });
        }
        return Ok((life, 0));
    }
    // Datagrams that come after their connection was closed are counted by Udp.NoPorts.
    let losses = passed.counters.losses();
    let no_ports: u64 = losses.iter().filter(|(name, _)| name.ends_with("Udp.NoPorts")).map(|(_, n)| n).sum();
    let lost = life.datagrams_sent.saturating_sub(life.datagrams_received).saturating_sub(dropped);
    datagrams(&life, dropped + lost.min(no_ports), &losses, notes)?;
    Ok((life, life.sent.saturating_sub(life.received)))
}
