//! What PostgreSQL's backends wait for, sampled.

use crate::postgres::sampler::{self, Sums};
use crate::postgres::{ASKING, probe};
use crate::reading::Produces;
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use holdup_sql::{Client, Statement};
use std::collections::BTreeMap;

pub(crate) struct WaitEvents;

static META: Meta = Meta {
    id: "wait-events",
    summary: "what client backends wait for: locks, I/O, the client; or CPU",
    docs: "Samples pg_stat_activity ten times a second on its own connection and counts client backends by wait event \
           (Type:Event). An active backend without a wait event runs or waits for a CPU: `CPU`. An idle one waits for its \
           client: `Client:ClientRead`. The numbers are backends on average over the samples. A spin lock shows only while \
           a backend sleeps in it (Timeout:SpinDelay, PostgreSQL 16 and later). Few samples say little: their number \
           is `wait_event_samples`, and those that came late by more than an interval are counted as lost.",
    references: &["PostgreSQL 15-18 manual, pg_stat_activity", "src/backend/utils/activity/wait_event.c (15.18)"],
};

const PRODUCES: Produces = &[
    ("backends_waiting", "backends", "client backends in a wait event, on average over the samples"),
    ("wait_event_samples", "samples", "samples taken in the window"),
];

const SQL: &str = "SELECT CASE WHEN wait_event IS NULL THEN 'CPU' ELSE wait_event_type || ':' || wait_event END, \
                   count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                   AND application_name NOT IN ('holdup', 'holdup collector') AND (state = 'active' OR wait_event IS NOT NULL \
                   OR state LIKE 'idle in transaction%') GROUP BY 1";

/// Samples by event.
#[derive(Default)]
struct Events(BTreeMap<String, u64>);

impl Sums for Events {
    type Sample = Vec<(String, u64)>;

    fn add(&mut self, sample: Self::Sample) {
        sample.into_iter().for_each(|(event, count)| *self.0.entry(event).or_default() += count);
    }

    fn items(&self, samples: u64) -> Vec<EvidenceItem> {
        let mean = |(event, count): (&String, &u64)| {
            EvidenceItem::labelled("backends_waiting", event, "backends", *count as f64 / samples as f64)
        };
        let taken = EvidenceItem::new("wait_event_samples", "samples", samples as f64);
        self.0.iter().map(mean).chain([taken]).collect()
    }
}

fn ask(client: &mut Client, statement: &Statement) -> Result<(Vec<(String, u64)>, u64), holdup_sql::Error> {
    let mut sample = Vec::new();
    for row in client.query(statement, &[])? {
        let count: i64 = row.try_get(1)?;
        sample.push((row.try_get::<_, String>(0)?, u64::try_from(count).unwrap_or(0)));
    }
    let bytes = sample.iter().map(|(event, _)| event.len() as u64 + 8).sum();
    Ok((sample, bytes))
}

impl Collector for WaitEvents {
    fn about(&self) -> About {
        About { is_default: true, needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        sampler::begin::<Events>((&META, PRODUCES), context, ASKING, |client| {
            let statement = client.prepare(SQL)?;
            Ok(Box::new(move |client| ask(client, &statement)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::sampler::{Samples, report};
    use holdup_model::Measured;

    #[test]
    fn a_server_that_never_answered_gives_absent_items() {
        let samples: Samples<Events> = Samples { failure: Some("connection closed".to_owned()), ..Samples::default() };
        let collected = report((&META, PRODUCES), &samples);
        assert!(collected.items.iter().all(|i| i.value == Measured::Absent("connection closed".to_owned())));
        assert_eq!(collected.coverage.seen, 0);
    }

    #[test]
    fn the_mean_is_over_all_samples() {
        let values = Events(BTreeMap::from([("CPU".to_owned(), 30)]));
        let collected = report((&META, PRODUCES), &Samples { values, taken: 10, late: 2, ..Samples::default() });
        assert_eq!(collected.items[0].value, Measured::Value(3.0));
        assert_eq!((collected.coverage.seen, collected.coverage.lost), (10, 2));
    }
}
