//! Which queries PostgreSQL's sessions are in, and what they wait for there, sampled.

use crate::postgres::probe;
use crate::postgres::sampler::{self, Counted};
use crate::reading::Produces;
use crate::{About, CollectContext, Collecting, Collector};
use holdup_model::{Availability, Meta, Problem};

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
    ("query_samples", "samples", "samples taken in the window"),
];

const SQL: &str = "SELECT coalesce(query_id::text, 'no id') || ' | ' || coalesce(wait_event_type || ':' || wait_event, 'CPU'), \
                   count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
                   AND application_name <> 'holdup collector' AND state = 'active' GROUP BY 1";

#[derive(Default)]
struct InQuery;

impl Counted for InQuery {
    const ITEM: (&'static str, &'static str) = ("sessions_in_query", "sessions");
    const SAMPLES: &'static str = "query_samples";
}

impl Collector for Queries {
    fn about(&self) -> About {
        About { needs_postgres: true, ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(context)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        sampler::begin_counting::<InQuery>((&META, PRODUCES), context, SQL)
    }
}
