//! What collectors share that ask PostgreSQL or read its memory.

mod backend_types;
pub(crate) mod sampler;
mod version;
mod wait_events;

use crate::CollectContext;
pub(crate) use backend_types::backend_type;
use holdup_model::Availability;
use holdup_sql::{Client, Config};
use std::time::Duration;
pub(crate) use version::Versions;

/// How often PostgreSQL is asked: this costs far below 1 % of a CPU, and gives 20 samples in a window of two seconds.
pub(crate) const ASKING: Duration = Duration::from_millis(100);
/// A server that takes longer is not asked any more.
const LONGEST_QUERY: Duration = Duration::from_secs(5);
/// The name of the connection; `wait-events` leaves it out, and `holdup`, which the workload's own has.
const APPLICATION_NAME: &str = "holdup collector";

pub(crate) const NO_SERVER: &str = "no PostgreSQL server is under test";

/// Whether there is a server to ask.
pub(crate) fn probe(context: &CollectContext) -> Availability {
    if context.postgres.is_some() { Availability::Ready } else { Availability::unavailable(NO_SERVER) }
}

/// Connects to a server that is asked during the window.
pub(crate) fn connect(server: &str) -> Result<Client, holdup_sql::Error> {
    let mut config: Config = server.parse()?;
    config.application_name(APPLICATION_NAME);
    Ok(Client::connect(&config)?.with_limit(LONGEST_QUERY))
}
