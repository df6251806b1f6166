//! Which sessions of PostgreSQL keep others from their locks.

use crate::postgres::probe;
use crate::postgres::sampler::{self, Sums};
use crate::reading::Produces;
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use holdup_sql::{Client, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) struct Blockers;

static META: Meta = Meta {
    id: "blockers",
    summary: "the sessions at the root of the queues for heavyweight locks",
    docs: "Asks pg_blocking_pids() of the sessions that wait for a heavyweight lock, twice a second on its own connection, and \
           follows it to those that wait for no such lock themselves. `blocked_sessions` is how many wait behind each of \
           them on average over the samples, directly or not, with what the blocker is in: `idle in transaction`, \
           `active` with its wait event, a prepared transaction. `blocker_transaction_s` is the longest age of its \
           transaction. `blocked_on` has the tables whose rows or whose lock they wait for, of the database of --pg. The \
           function holds the table of locks for a short time, so it is asked seldom, and only where sessions wait. \
           Statements are not read: they have data in them.",
    references: &["PostgreSQL 15-18 manual, System Information Functions: pg_blocking_pids; pg_locks"],
};

const PRODUCES: Produces = &[
    ("blocked_sessions", "sessions", "sessions that wait behind a blocker, on average over the samples"),
    ("blocker_transaction_s", "s", "the longest age of the blocker's transaction"),
    ("blocked_on", "sessions", "sessions that wait for a lock on a table or its rows, on average over the samples"),
    ("blocker_samples", "samples", "samples taken in the window"),
];

const EVERY: Duration = Duration::from_millis(500);

/// Each session that waits for a heavyweight lock, and one that it waits for.
const EDGES: &str = "SELECT pid, unnest(pg_blocking_pids(pid)) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// What sessions are in; holdup's own too, because they could block as well.
const SESSIONS: &str = "SELECT pid, CASE WHEN state = 'active' AND wait_event IS NOT NULL THEN 'active in ' || \
                        wait_event_type || ':' || wait_event ELSE coalesce(state, backend_type) END, \
                        coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float8 \
                        FROM pg_stat_activity WHERE pid = ANY($1)";

const TABLES: &str = "SELECT relation::regclass::text, count(DISTINCT pid) FROM pg_locks WHERE pid = ANY($1) AND \
                      relation IS NOT NULL AND (NOT granted OR locktype = 'tuple') AND database = \
                      (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY 1";

/// A blocker, the sessions behind it, and the age of its transaction, s.
type Blocker = (String, u64, f64);

/// The sums of one window.
#[derive(Default)]
struct Queues {
    blocked: BTreeMap<String, (u64, f64)>,
    tables: BTreeMap<String, u64>,
}

impl Sums for Queues {
    type Sample = (Vec<Blocker>, Vec<(String, u64)>);

    fn add(&mut self, (blockers, tables): Self::Sample) {
        for (label, sessions, age_s) in blockers {
            let (sum, longest_s) = self.blocked.entry(label).or_default();
            *sum += sessions;
            *longest_s = longest_s.max(age_s);
        }
        tables.into_iter().for_each(|(table, sessions)| *self.tables.entry(table).or_default() += sessions);
    }

    fn items(&self, samples: u64) -> Vec<EvidenceItem> {
        let mean =
            |name, label: &str, sum: u64| EvidenceItem::labelled(name, label, "sessions", sum as f64 / samples as f64);
        let mut items = vec![EvidenceItem::new("blocker_samples", "samples", samples as f64)];
        for (label, (sum, longest_s)) in &self.blocked {
            items.push(mean("blocked_sessions", label, *sum));
            items.push(EvidenceItem::labelled("blocker_transaction_s", label, "s", *longest_s));
        }
        items.extend(self.tables.iter().map(|(table, sum)| mean("blocked_on", table, *sum)));
        items
    }
}

struct Statements {
    edges: Statement,
    sessions: Statement,
    tables: Statement,
}

/// Who waits for whom, by pid.
type Edges = Vec<(i32, i32)>;

/// The sessions that wait.
fn waiting(edges: &Edges) -> BTreeSet<i32> {
    edges.iter().map(|(pid, _)| *pid).collect()
}

/// For each root, those that wait behind it, directly or not. A root waits for no heavyweight lock; 0 is a prepared
/// transaction. Sessions that wait for each other in a ring have no root until the server finds the deadlock.
fn roots(edges: &Edges) -> BTreeMap<i32, BTreeSet<i32>> {
    let waiting = waiting(edges);
    let mut queues: BTreeMap<i32, BTreeSet<i32>> = BTreeMap::new();
    for root in edges.iter().map(|(_, by)| *by).filter(|by| !waiting.contains(by)) {
        let behind = queues.entry(root).or_default();
        loop {
            let next = |(pid, by): &&(i32, i32)| (*by == root || behind.contains(by)) && !behind.contains(pid);
            let Some((pid, _)) = edges.iter().find(next) else { break };
            behind.insert(*pid);
        }
    }
    queues
}

fn ask(client: &mut Client, of: &Statements) -> Result<(<Queues as Sums>::Sample, u64), holdup_sql::Error> {
    let mut edges = Edges::new();
    for row in client.query(&of.edges, &[])? {
        edges.push((row.try_get(0)?, row.try_get(1)?));
    }
    let mut bytes = edges.len() as u64 * 8;
    if edges.is_empty() {
        return Ok(((Vec::new(), Vec::new()), bytes));
    }
    let roots = roots(&edges);
    let (pids, mut states) = (roots.keys().copied().collect::<Vec<i32>>(), BTreeMap::new());
    for row in client.query(&of.sessions, &[&pids])? {
        let state: String = row.try_get(1)?;
        bytes += state.len() as u64 + 12;
        states.insert(row.try_get::<_, i32>(0)?, (state, row.try_get::<_, f64>(2)?));
    }
    let of_root = |(root, behind): (&i32, &BTreeSet<i32>)| {
        let sessions = behind.len() as u64;
        match (root, states.get(root)) {
            (0, _) => Some(("a prepared transaction".to_owned(), sessions, 0.0)),
            (pid, Some((state, age_s))) => Some((format!("pid {pid} | {state}"), sessions, *age_s)),
            // It ended meanwhile.
            (_, None) => None,
        }
    };
    let blockers = roots.iter().filter_map(of_root).collect();
    let waiting: Vec<i32> = waiting(&edges).into_iter().collect();
    let mut tables = Vec::new();
    for row in client.query(&of.tables, &[&waiting])? {
        let count: i64 = row.try_get(1)?;
        tables.push((row.try_get(0)?, u64::try_from(count).unwrap_or(0)));
    }
    Ok(((blockers, tables), bytes))
}

impl Collector for Blockers {
    fn about(&self) -> About {
        About { needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        sampler::begin::<Queues>((&META, PRODUCES), context, EVERY, |client| {
            let [edges, sessions, tables] = [EDGES, SESSIONS, TABLES].map(|text| client.prepare(text));
            let of = Statements { edges: edges?, sessions: sessions?, tables: tables? };
            Ok(Box::new(move |client| ask(client, &of)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_all_that_wait_behind_its_root() {
        // 1 holds; 2 waits for it, 3 for 2 and 1, 4 for 3; 6 waits for a prepared transaction; 7 and 8 for each other.
        let edges = vec![(2, 1), (3, 2), (3, 1), (4, 3), (6, 0), (7, 8), (8, 7)];
        let queues = roots(&edges);
        assert_eq!(queues.len(), 2);
        assert_eq!(queues[&1], BTreeSet::from([2, 3, 4]));
        assert_eq!(queues[&0], BTreeSet::from([6]));
    }

    #[test]
    fn sessions_are_means_over_the_samples_and_ages_the_longest() {
        let mut queues = Queues::default();
        for age_s in [2.0, 1.0] {
            queues.add((vec![("pid 7 | idle in transaction".to_owned(), 9, age_s)], vec![("t".to_owned(), 3)]));
        }
        let items = queues.items(4);
        let value = |name: &str| items.iter().find(|i| i.name == name).and_then(|i| i.value.value());
        assert_eq!(value("blocked_sessions"), Some(4.5));
        assert_eq!(value("blocker_transaction_s"), Some(2.0));
        assert_eq!(value("blocked_on"), Some(1.5));
    }
}
