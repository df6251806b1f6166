//! pgbench on other hosts, against the server of this one.

use super::metrics::combine;
use super::parameters::{Settings, TableSize};
use crate::Cluster;
use holdup_load::client_hosts::{self, Shares, divided};
use holdup_load::two_ends::parts;
use holdup_load::{ClientHosts, Shared, TrialContext, TrialResult};
use holdup_model::ends::{CLIENT_PREFIX, ClientSession};
use holdup_model::{Fact, Parameters, Problem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How several client hosts share the load.
pub static SHARED: Shared = Shared { divide, combine };

/// The part of each of several client hosts: its clients, and of the rate as much as it has of the clients.
fn divide(parameters: &Parameters, hosts: usize) -> Result<Vec<Parameters>, Problem> {
    let all = Settings::from(parameters)?;
    let part = |clients: u64| {
        let mut part = parameters.clone();
        part.set("clients", clients.cast_signed());
        if let Some(rate) = all.rate {
            part.set("rate", rate * clients as f64 / f64::from(all.clients));
        }
        part
    };
    Ok(divided("clients", u64::from(all.clients), hosts)?.into_iter().map(part).collect())
}

/// A session on each client host, of the same number.
#[derive(Default)]
struct Sessions {
    of: Vec<ClientSession>,
    /// The start of the server since when their connections stand.
    since: Option<u64>,
}

/// The sessions of the client hosts, for each size of tables.
pub(crate) struct TwoEnds {
    clients: Arc<dyn ClientHosts>,
    sessions: BTreeMap<TableSize, Sessions>,
    pub(crate) facts: Vec<Fact>,
}

impl TwoEnds {
    /// Lets the client hosts in, and has them make their sessions ready.
    pub(crate) fn prepare(
        clients: &Arc<dyn ClientHosts>,
        cluster: &Cluster,
        combinations: &[Parameters],
    ) -> Result<Self, Problem> {
        let network = cluster.network().ok_or_else(|| Problem::internal("two ends", "the server has no address"))?;
        client_hosts::connect(&**clients, network.at)?;
        let mut sessions: BTreeMap<TableSize, Sessions> = BTreeMap::new();
        for parameters in combinations {
            let size = Settings::from(parameters)?.tables;
            let all = sessions.entry(size).or_insert_with(|| {
                let session = clients.next_session();
                let of =
                    |service| ClientSession { session, kind: "pgbench".to_owned(), combinations: Vec::new(), service };
                Sessions { of: network.access().map(of).collect(), since: None }
            });
            let parts = parts("pgbench", Some(&SHARED), parameters, all.of.len())?;
            all.of.iter_mut().zip(parts).for_each(|(session, part)| session.combinations.push(part));
        }
        for size in sessions.keys() {
            network.grant(&cluster.config(&size.database()))?;
        }
        let mut ends = TwoEnds { clients: Arc::clone(clients), sessions, facts: Vec::new() };
        let sizes: Vec<TableSize> = ends.sessions.keys().copied().collect();
        for size in sizes {
            ends.connect(size, cluster.generation())?;
        }
        Ok(ends)
    }

    /// The number of the sessions of these tables; made anew when the server was restarted, which ended their connections.
    fn connect(&mut self, size: TableSize, generation: u64) -> Result<u32, Problem> {
        let missing = || Problem::internal("two ends", "the session was not prepared with these tables");
        let all = self.sessions.get_mut(&size).ok_or_else(missing)?;
        if all.since != Some(generation) {
            let facts = client_hosts::prepare(&*self.clients, &all.of)?;
            let is_of_pgbench = |key: &str| key.starts_with(CLIENT_PREFIX) && key.contains(".pgbench.");
            self.facts = facts.into_iter().filter(|fact| is_of_pgbench(&fact.key)).collect();
            all.since = Some(generation);
        }
        Ok(all.of.first().ok_or_else(missing)?.session)
    }

    pub(crate) fn run(&mut self, cluster: &Cluster, trial: &mut TrialContext<'_>) -> Result<TrialResult, Problem> {
        use holdup_host::postgres::PostgresControl as _;
        let size = Settings::from(trial.parameters)?.tables;
        let subjects: Vec<_> = cluster.postmaster_pid().map(|pid| ("server".to_owned(), pid)).into_iter().collect();
        let shares = Shares {
            session: self.connect(size, cluster.generation())?,
            parameters: parts("pgbench", Some(&SHARED), trial.parameters, self.clients.names().len())?,
            planned_ns: Some(trial.duration_ns),
            subjects: &subjects,
            combine,
        };
        let result = client_hosts::run(&*self.clients, &shares, trial);
        if result.is_err() {
            // Its connections may be those of a server that is gone.
            self.sessions.values_mut().for_each(|all| all.since = None);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_catalogue::pgbench;

    #[test]
    fn clients_and_the_rate_are_divided_and_nothing_else() {
        let mut parameters = pgbench::Parameters::defaults(2);
        parameters.set("clients", 5);
        parameters.set("rate", 1_000.0);
        let parts = divide(&parameters, 2).expect("five clients");
        let of = |name: &str| parts.iter().map(|part| part.get(name).expect(name).number()).collect::<Vec<_>>();
        assert_eq!((of("clients"), of("rate")), (vec![Some(3.0), Some(2.0)], vec![Some(600.0), Some(400.0)]));
        assert_eq!(of("scale"), vec![parameters.get("scale").expect("scale").number(); 2]);
        parameters.set("clients", 1);
        assert!(divide(&parameters, 2).is_err_and(|problem| problem.what == "clients = 1"));
    }
}
