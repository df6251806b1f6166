//! pgbench on another host, against the server of this one.

use super::parameters::{Settings, TableSize};
use crate::Cluster;
use holdup_load::{ClientHost, TrialContext, TrialResult, client_host};
use holdup_model::ends::ClientSession;
use holdup_model::{Fact, Parameters, Problem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sessions of the client host, one for each size of tables.
pub(crate) struct TwoEnds {
    client: Arc<dyn ClientHost>,
    /// The number of each, and the start of the server since when its connections stand.
    sessions: BTreeMap<TableSize, (ClientSession, Option<u64>)>,
    pub(crate) facts: Vec<Fact>,
}

impl TwoEnds {
    /// Lets the client host in, and has it make its sessions ready.
    pub(crate) fn prepare(
        client: &Arc<dyn ClientHost>,
        cluster: &Cluster,
        combinations: &[Parameters],
    ) -> Result<Self, Problem> {
        let network = cluster.network().ok_or_else(|| Problem::internal("two ends", "the server has no address"))?;
        client_host::connect(&**client, network.at)?;
        let mut sessions: BTreeMap<TableSize, (ClientSession, Option<u64>)> = BTreeMap::new();
        for parameters in combinations {
            let size = Settings::from(parameters)?.tables;
            let (session, _) = sessions.entry(size).or_insert_with(|| {
                let session = ClientSession {
                    session: client.next_session(),
                    kind: "pgbench".to_owned(),
                    combinations: Vec::new(),
                    postgres_url: Some(network.url(&size.database())),
                    service: None,
                };
                (session, None)
            });
            session.combinations.push(parameters.clone());
        }
        for size in sessions.keys() {
            network.grant(&cluster.config(&size.database()))?;
        }
        let mut ends = TwoEnds { client: Arc::clone(client), sessions, facts: Vec::new() };
        let sizes: Vec<TableSize> = ends.sessions.keys().copied().collect();
        for size in sizes {
            ends.connect(size, cluster.generation())?;
        }
        Ok(ends)
    }

    /// The session of these tables; made anew when the server was restarted, which ended its connections.
    fn connect(&mut self, size: TableSize, generation: u64) -> Result<u32, Problem> {
        let missing = || Problem::internal("two ends", "the session was not prepared with these tables");
        let (session, since) = self.sessions.get_mut(&size).ok_or_else(missing)?;
        if *since != Some(generation) {
            let facts = client_host::prepare(&*self.client, session.clone())?;
            self.facts = facts.into_iter().filter(|fact| fact.key.starts_with("client.pgbench.")).collect();
            *since = Some(generation);
        }
        Ok(session.session)
    }

    /// Runs a trial.
    pub(crate) fn run(&mut self, cluster: &Cluster, trial: &mut TrialContext<'_>) -> Result<TrialResult, Problem> {
        use holdup_host::postgres::PostgresControl as _;
        let size = Settings::from(trial.parameters)?.tables;
        let session = self.connect(size, cluster.generation())?;
        let subjects: Vec<_> = cluster.postmaster_pid().map(|pid| ("server".to_owned(), pid)).into_iter().collect();
        let result = client_host::run(&*self.client, session, trial, Some(trial.duration_ns), &subjects);
        if result.is_err() {
            // Its connections may be those of a server that is gone.
            self.sessions.values_mut().for_each(|(_, since)| *since = None);
        }
        result
    }
}
