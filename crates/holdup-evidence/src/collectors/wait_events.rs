//! What PostgreSQL's backends wait for, sampled.

use crate::postgres::probe;
use crate::postgres::sampler::{self, Counted};
use crate::reading::Produces;
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, Meta, Problem};

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

#[derive(Default)]
struct Waiting;

impl Counted for Waiting {
    const ITEM: (&'static str, &'static str) = ("backends_waiting", "backends");
    const SAMPLES: &'static str = "wait_event_samples";
}

impl Collector for WaitEvents {
    fn about(&self) -> About {
        About { is_default: true, needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        sampler::begin_counting::<Waiting>((&META, PRODUCES), context, SQL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::sampler::{Counts, Samples, Sums as _, report};
    use holdup_model::Measured;

    #[test]
    fn a_server_that_never_answered_gives_absent_items() {
        let samples: Samples<Counts<Waiting>> =
            Samples { failure: Some("connection closed".to_owned()), ..Samples::default() };
        let collected = report((&META, PRODUCES), &samples);
        assert!(collected.items.iter().all(|i| i.value == Measured::Absent("connection closed".to_owned())));
        assert_eq!(collected.coverage.seen, 0);
    }

    #[test]
    fn the_mean_is_over_all_samples() {
        let mut values = Counts::<Waiting>::default();
        values.add(vec![("CPU".to_owned(), 10), ("CPU".to_owned(), 20)]);
        let collected = report((&META, PRODUCES), &Samples { values, taken: 10, late: 2, ..Samples::default() });
        assert_eq!(collected.items[0].value, Measured::Value(3.0));
        assert_eq!((collected.coverage.seen, collected.coverage.lost), (10, 2));
    }
}
