//! Which queries PostgreSQL's sessions are in, and what they wait for there, sampled.

use crate::postgres::sampler::{self, Sums};
use crate::postgres::{ASKING, probe};
use crate::reading::Produces;
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use holdup_sql::{Client, Statement};
use std::collections::BTreeMap;

pub(crate) struct Queries;

static META: Meta = Meta {
    id: "queries",
    summary: "which queries sessions are in, by query id, and what they wait for there",
    docs: "Samples pg_stat_activity ten times a second on its own connection and counts the sessions that execute a query by \
           its id and wait event (QUERY ID | Type:Event; `CPU` without one). The numbers are sessions on average over the samples. \
           The server computes ids with compute_query_id = on, or when pg_stat_statements is loaded, which has their text: \
           SELECT query FROM pg_stat_statements WHERE queryid = ID. Without ids the label is `no id`. The text itself is not \
           read: it has data in it.",
    references: &["PostgreSQL 15-18 manual, pg_stat_activity; compute_query_id"],
};

const PRODUCES: Produces = &[
    (
        "sessions_in_query",
        "sessions",
        "sessions that execute a query, on average over the samples (QUERY ID | WAIT EVENT)",
    ),
    (
        "session_in_query",
        "1",
        "where stacks are those of single tasks: the part of the samples in which a session executes a query (PID | QUERY ID)",
    ),
    ("query_samples", "samples", "samples taken in the window"),
];

const SQL: &str = "SELECT coalesce(query_id::text, 'no id'), coalesce(wait_event_type || ':' || wait_event, 'CPU'), pid \
                   FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                   AND application_name <> 'holdup collector' AND state = 'active'";

/// Pairs of a session and a query that a window has at most, those that were seen most.
const MOST_PAIRS: usize = 256;

/// What was seen, with the number of times.
type Counts = BTreeMap<String, u64>;

/// The sums of one window: by query and wait event, by session and query.
#[derive(Default)]
struct InQuery(Counts, Counts);

impl Sums for InQuery {
    type Sample = (Counts, Counts);

    fn add(&mut self, (waits, sessions): Self::Sample) {
        for (sums, sample) in [(&mut self.0, waits), (&mut self.1, sessions)] {
            sample.into_iter().for_each(|(label, count)| *sums.entry(label).or_default() += count);
        }
    }

    fn items(&self, samples: u64) -> Vec<EvidenceItem> {
        let mean = |name, unit, (label, count): (&String, &u64)| {
            EvidenceItem::labelled(name, label, unit, *count as f64 / samples as f64)
        };
        let mut items: Vec<EvidenceItem> =
            self.0.iter().map(|counted| mean("sessions_in_query", "sessions", counted)).collect();
        let mut sessions: Vec<(&String, &u64)> = self.1.iter().collect();
        sessions.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        sessions.truncate(MOST_PAIRS);
        items.extend(sessions.into_iter().map(|counted| mean("session_in_query", "1", counted)));
        items.push(EvidenceItem::new("query_samples", "samples", samples as f64));
        items
    }
}

fn ask(client: &mut Client, sql: &Statement, by_task: bool) -> Result<((Counts, Counts), u64), holdup_sql::Error> {
    let (mut waits, mut sessions, mut bytes) = (Counts::new(), Counts::new(), 0);
    for row in client.query(sql, &[])? {
        let (query, wait, pid): (String, String, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        bytes += (query.len() + wait.len() + 4) as u64;
        if by_task {
            *sessions.entry(format!("{pid} | {query}")).or_default() += 1;
        }
        *waits.entry(format!("{query} | {wait}")).or_default() += 1;
    }
    Ok(((waits, sessions), bytes))
}

impl Collector for Queries {
    fn about(&self) -> About {
        About { needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let by_task = context.options.by_task;
        sampler::begin::<InQuery>((&META, PRODUCES), context, ASKING, |client| {
            let sql = client.prepare(SQL)?;
            Ok(Box::new(move |client| ask(client, &sql, by_task)))
        })
    }
}
