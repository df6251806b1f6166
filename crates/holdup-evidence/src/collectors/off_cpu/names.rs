//! Names of wait events: the server's own, learned by asking it while its memory is read.

use crate::CollectContext;
use crate::background::{Background, End};
use crate::kernel::OffCpu;
use crate::postgres::{ASKING, connect};
use crate::reading::thread_cpu_ns;
use holdup_host::Host;
use holdup_model::SelfCost;
use holdup_sql::{Client, Statement};
use std::collections::BTreeMap;

const SQL: &str = "SELECT pid, wait_event_type || ': ' || wait_event FROM pg_stat_activity \
                   WHERE wait_event IS NOT NULL AND pid <> pg_backend_pid()";
/// Backends whose memory is read in each round.
const MOST_BACKENDS: usize = 128;

/// Names by number.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// How often each name was met with a number.
    votes: BTreeMap<u32, BTreeMap<String, u64>>,
    pub(super) notes: Vec<String>,
    pub(super) cost: SelfCost,
}

/// Classes of wait events by the highest byte of their number (utils/wait_event.h, wait_classes.h; 14 to 18).
fn class(event: u32) -> &'static str {
    match event >> 24 {
        0x01 => "LWLock",
        0x03 => "Lock",
        0x04 => "BufferPin",
        0x05 => "Activity",
        0x06 => "Client",
        0x07 => "Extension",
        0x08 => "IPC",
        0x09 => "Timeout",
        0x0a => "IO",
        0x0b => "InjectionPoint",
        _ => "Unknown",
    }
}

impl Named {
    /// `TYPE: EVENT`; the number where the name was never met.
    pub(super) fn name(&self, event: u32) -> String {
        if event == 0 {
            return "not waiting".to_owned();
        }
        let known = self.votes.get(&event).and_then(|names| names.iter().max_by_key(|(_, votes)| **votes));
        known.map_or_else(|| format!("{}: number {}", class(event), event & 0x00ff_ffff), |(name, _)| name.clone())
    }

    fn vote(&mut self, event: u32, name: &str) {
        // A name of another class belongs to another moment.
        if name.split(": ").next() == Some(class(event)) {
            *self.votes.entry(event).or_default().entry(name.to_owned()).or_default() += 1;
        }
    }
}

struct Asking {
    host: Host,
    /// Where the pointer lies.
    at: u64,
    client: Client,
    statement: Statement,
}

/// Begins to ask; `None` where there is no server to ask, or nothing to read in its memory. A server that cannot be asked
/// leaves numbers without names.
pub(super) fn begin(context: &CollectContext, how: &OffCpu) -> Option<Background<Named>> {
    let asking = asking(context, how)?.map_err(|why| format!("wait events have no names: {why}"));
    let run = move |end: &End| match asking {
        Ok(asking) => asking.run(end),
        Err(why) => Named { notes: vec![why], ..Named::default() },
    };
    Background::begin("wait-names", run).ok()
}

fn asking(context: &CollectContext, how: &OffCpu) -> Option<Result<Asking, String>> {
    let server = context.postgres.as_deref()?;
    let at = how.wait_event_at.iter().copied().find(|at| *at != 0)?;
    let connected = connect(server).and_then(|mut client| Ok((client.prepare(SQL)?, client)));
    let asking = connected.map(|(statement, client)| Asking { host: context.host.clone(), at, client, statement });
    Some(asking.map_err(|e| e.to_string()))
}

impl Asking {
    fn run(mut self, end: &End) -> Named {
        let mut named = Named::default();
        let begun = thread_cpu_ns();
        let mut pids: Vec<u32> = Vec::new();
        loop {
            named.cost.wakeups += 1;
            if let Err(e) = self.round(&mut pids, &mut named) {
                named.notes.push(format!("wait events that came later have no names: {e}"));
                break;
            }
            if end.wait(ASKING) {
                break;
            }
        }
        named.cost.cpu_ns = thread_cpu_ns().saturating_sub(begun);
        named
    }

    /// A name belongs to a number where the number stood in the backend's memory before and after the question.
    fn round(&mut self, pids: &mut Vec<u32>, named: &mut Named) -> Result<(), holdup_sql::Error> {
        let before: BTreeMap<u32, u32> = pids.iter().filter_map(|pid| Some((*pid, self.event(*pid)?))).collect();
        let rows = self.client.query(&self.statement, &[])?;
        pids.clear();
        for row in rows.iter().take(MOST_BACKENDS) {
            let (pid, name): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
            let Ok(pid) = u32::try_from(pid) else { continue };
            pids.push(pid);
            named.cost.bytes += name.len() as u64 + 4;
            if let Some(event) = before.get(&pid).filter(|event| self.event(pid) == Some(**event)) {
                named.vote(*event, &name);
            }
        }
        Ok(())
    }

    fn event(&self, pid: u32) -> Option<u32> {
        let place: [u8; 8] = self.host.read_memory(pid, self.at).ok()?;
        let event: [u8; 4] = self.host.read_memory(pid, u64::from_ne_bytes(place)).ok()?;
        Some(u32::from_ne_bytes(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_name_that_it_was_met_with_most_and_never_one_of_another_class() {
        let mut named = Named::default();
        for name in ["Client: ClientWrite", "Client: ClientRead", "Client: ClientRead", "IO: WALWrite"] {
            named.vote(0x0600_0000, name);
        }
        assert_eq!(named.name(0x0600_0000), "Client: ClientRead");
        assert_eq!(named.name(0x0a00_0007), "IO: number 7");
        assert_eq!(named.name(0), "not waiting");
    }
}
