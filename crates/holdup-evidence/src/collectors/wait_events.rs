//! What PostgreSQL's backends wait for, sampled.

use crate::background::{Background, End};
use crate::postgres::{ASKING, NO_SERVER, connect, probe};
use crate::reading::{Produces, all_absent, thread_cpu_ns};
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Meta, Problem, SelfCost};
use holdup_sql::Client;
use std::collections::BTreeMap;
use std::time::Instant;

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

const MAY_SEE: &str = "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')";

#[derive(Default)]
struct Samples {
    by_event: BTreeMap<String, u64>,
    taken: u64,
    late: u64,
    failure: Option<String>,
    cost: SelfCost,
}

fn sample(
    client: &mut Client,
    statement: &holdup_sql::Statement,
    samples: &mut Samples,
) -> Result<(), holdup_sql::Error> {
    for row in client.query(statement, &[])? {
        let event: String = row.try_get(0)?;
        let count: i64 = row.try_get(1)?;
        samples.cost.bytes += event.len() as u64 + 8;
        *samples.by_event.entry(event).or_default() += u64::try_from(count).unwrap_or(0);
    }
    samples.taken += 1;
    Ok(())
}

/// Samples until asked to end; a server that goes away ends it with the reason.
fn watch(mut client: Client, statement: &holdup_sql::Statement, end: &End) -> Samples {
    let mut samples = Samples::default();
    let begun_cpu = thread_cpu_ns();
    let mut next = Instant::now();
    loop {
        samples.cost.wakeups += 1;
        if let Err(e) = sample(&mut client, statement, &mut samples) {
            samples.failure = Some(e.to_string());
            break;
        }
        next += ASKING;
        let now = Instant::now();
        if now > next {
            samples.late += 1;
            next = now;
        }
        if end.wait(next.saturating_duration_since(now)) {
            break;
        }
    }
    samples.cost.cpu_ns = thread_cpu_ns().saturating_sub(begun_cpu);
    samples
}

struct Running(Background<Samples>);

impl Collecting for Running {
    fn stop(self: Box<Self>) -> Collected {
        match self.0.end() {
            Ok(samples) => report(&samples),
            Err(why) => all_absent(META.id, PRODUCES, &why, SelfCost::default()),
        }
    }
}

fn report(samples: &Samples) -> Collected {
    if samples.taken == 0 {
        let why = samples.failure.clone().unwrap_or_else(|| "no sample fell into the window".to_owned());
        return all_absent(META.id, PRODUCES, &why, samples.cost);
    }
    let mut items: Vec<EvidenceItem> = samples
        .by_event
        .iter()
        .map(|(event, count)| {
            let mean = *count as f64 / samples.taken as f64;
            EvidenceItem::labelled("backends_waiting", event, "backends", mean)
        })
        .collect();
    items.push(EvidenceItem::new("wait_event_samples", "samples", samples.taken as f64));
    let mut notes = Vec::new();
    if let Some(why) = &samples.failure {
        notes.push(format!("sampling ended early: {why}"));
    }
    if samples.late > 0 {
        notes.push(format!("{} samples came late by more than an interval", samples.late));
    }
    Collected {
        collector: META.id.to_owned(),
        items,
        coverage: Coverage { seen: samples.taken, lost: samples.late, notes },
        cost: samples.cost,
        ..Collected::default()
    }
}

impl Collector for WaitEvents {
    fn about(&self) -> About {
        About { is_default: true, needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why: String| Problem::host("collector wait-events", why);
        let server = context.postgres.as_deref().ok_or_else(|| failed(NO_SERVER.to_owned()))?;
        let mut client = connect(server).map_err(|e| failed(e.to_string()))?;
        // Without this role other users' backends look like nothing at all, and absent is not zero.
        let may_see: bool =
            client.query_one(MAY_SEE, &[]).and_then(|row| Ok(row.try_get(0)?)).map_err(|e| failed(e.to_string()))?;
        if !may_see {
            return Err(failed("the server's role may not see other users' backends".to_owned())
                .hint("GRANT pg_read_all_stats TO the role of --pg"));
        }
        let statement = client.prepare(SQL).map_err(|e| failed(e.to_string()))?;
        let sampling = Background::begin("wait-events", move |end| watch(client, &statement, end)).map_err(failed)?;
        Ok(Box::new(Running(sampling)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Measured;

    #[test]
    fn a_server_that_never_answered_gives_absent_items() {
        let samples = Samples { failure: Some("connection closed".to_owned()), ..Samples::default() };
        let collected = report(&samples);
        assert!(collected.items.iter().all(|i| i.value == Measured::Absent("connection closed".to_owned())));
        assert_eq!(collected.coverage.seen, 0);
    }

    #[test]
    fn the_mean_is_over_all_samples() {
        let samples =
            Samples { by_event: BTreeMap::from([("CPU".to_owned(), 30)]), taken: 10, late: 2, ..Samples::default() };
        let collected = report(&samples);
        assert_eq!(collected.items[0].value, Measured::Value(3.0));
        assert_eq!((collected.coverage.seen, collected.coverage.lost), (10, 2));
    }
}
