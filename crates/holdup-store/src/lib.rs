//! Results that are kept: a folder of bundles for one person, a database of PostgreSQL for several.
//!
//! Start at [`open`]. Both kinds of store are a [`Store`] and give the same answers. A run is kept by its own id, so that a bundle can be
//! pushed again and again, from several hosts at the same time; it is there whole or not at all.
//!
//! Not here: what a bundle is (`holdup-bundle`), what is kept of it beside its bytes and what follows (`holdup-history`).

mod folder;
mod incoming;
mod place;
mod postgres;

pub use incoming::Incoming;
pub use place::{Place, VARIABLE};

use holdup_model::Problem;
use holdup_model::kept::{KeptFilter, KeptRun, KeptSeries};
use std::collections::BTreeMap;

/// What a push did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The run is new there.
    New,
    There,
    /// It was there with fewer trials, of a run that had not ended, and its new bundle took the place.
    Replaced,
}

/// Facts of runs, by their ids.
pub type Facts = BTreeMap<String, BTreeMap<String, String>>;

/// A place where results are kept.
pub trait Store {
    /// Makes the store, or brings an older one up to date. Returns what was done, and what is left to do, in sentences.
    ///
    /// # Errors
    /// When this user may not; so for the others.
    fn init(&mut self) -> Result<Vec<String>, Problem>;

    /// Keeps a run.
    fn push(&mut self, bundle: &Incoming) -> Result<Pushed, Problem>;

    /// The bytes of a run's bundle, as they were pushed.
    fn pull(&mut self, run_id: &str) -> Result<Vec<u8>, Problem>;

    /// The runs, oldest first.
    fn list(&mut self, filter: &KeptFilter) -> Result<Vec<KeptRun>, Problem>;

    /// The runs, oldest first, with the values of a metric; of the primary ones where none is named.
    fn series(&mut self, filter: &KeptFilter, metric: Option<&str>) -> Result<KeptSeries, Problem>;

    fn facts(&mut self, run_ids: &[String]) -> Result<Facts, Problem>;

    /// Removes the runs that were begun before this time; with `dry_run` it only says which. Oldest first.
    fn prune(&mut self, before_unix_ns: i64, dry_run: bool) -> Result<Vec<KeptRun>, Problem>;

    /// Says with this, from now on, when it waits for another process.
    fn say_with(&mut self, _says: fn(&str)) {}

    /// What of it could not be read so far, each with why; the answers are without it.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Opens a store. A folder is made when something is first pushed; a database must be there.
///
/// # Errors
/// When the server cannot be reached.
pub fn open(place: &Place) -> Result<Box<dyn Store>, Problem> {
    Ok(match place {
        Place::Folder(path) => Box::new(folder::FolderStore::new(path)),
        Place::Postgres(config) => Box::new(postgres::PostgresStore::connect(config)?),
    })
}

/// The only run of a store whose id begins so.
///
/// # Errors
/// When there is none, or there are several.
pub fn find(store: &mut dyn Store, begin: &str) -> Result<KeptRun, Problem> {
    let filter = KeptFilter { run: Some(begin.to_owned()), ..KeptFilter::default() };
    let mut found = store.list(&filter)?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Problem::usage(format!("run {begin}"), "the store has no such run")
            .hint("holdup store list shows the runs")),
        n => Err(Problem::usage(format!("run {begin}"), format!("{n} runs of the store begin so"))
            .hint("give more of the id")),
    }
}

/// Puts runs into their order and takes the newest.
fn in_order<T>(runs: &mut Vec<T>, of: impl Fn(&T) -> &KeptRun, last: Option<usize>) {
    runs.sort_by(|a, b| {
        let key = |r: &T| (of(r).created_unix_ns, of(r).run_id.clone());
        key(a).cmp(&key(b))
    });
    if let Some(last) = last {
        runs.drain(..runs.len().saturating_sub(last));
    }
}
