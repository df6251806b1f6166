//! Several captures, analysed in parallel.

use holdup_model::Problem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The most threads unless more are asked for: what is read is read by one of them at a time, so more have little to do.
const USUAL_THREADS: usize = 4;

/// A smaller capture, bytes, is gone through before a second thread has helped.
const LARGE_BYTES: u64 = 64 << 20;

/// How captures share threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// How many captures are analysed at the same time.
    pub(super) parallel: usize,
    /// By how many threads each.
    pub(super) threads: usize,
    /// The index of the largest capture, whose progress is shown: two bars would overwrite each other.
    pub(super) largest: usize,
}

/// Divides the threads (by default one per CPU, at most four) among the captures: these share nothing, so a thread for each is
/// faster than several for one, unless one capture has most of the bytes.
pub(super) fn shares(paths: &[PathBuf], asked: Option<usize>, cpus: usize) -> Shares {
    let threads = asked.unwrap_or(cpus.min(USUAL_THREADS));
    let bytes: Vec<u64> = paths.iter().map(|path| bytes(path)).collect();
    let (most, largest) = bytes.iter().copied().zip(0..).max().unwrap_or((0, 0));
    let others = bytes.iter().sum::<u64>() - most;
    let parallel = if others >= most / 2 { threads.min(paths.len()) } else { 1 };
    let is_small = asked.is_none() && (1..LARGE_BYTES).contains(&most);
    Shares { parallel, threads: if is_small { 1 } else { threads / parallel.max(1) }, largest }
}

/// The size of a file, or of the files of a folder; 0 where it is not known.
fn bytes(path: &Path) -> u64 {
    match std::fs::metadata(path) {
        Ok(of) if of.is_file() => of.len(),
        Ok(of) if of.is_dir() => {
            let files = std::fs::read_dir(path).into_iter().flatten().flatten();
            files.filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum()
        }
        _ => 0,
    }
}

/// Calls a function for each thing, for `parallel` of them at a time; returns the results in the order of the things.
///
/// # Errors
/// The first, in the order of the things.
pub(super) fn together<I: Sync, T: Send>(
    things: &[I],
    parallel: usize,
    each: impl Fn(&I) -> Result<T, Problem> + Sync,
) -> Result<Vec<T>, Problem> {
    if parallel <= 1 {
        return things.iter().map(each).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(things.len()));
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(i) else { break };
            let outcome = each(thing);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 1..parallel {
            // Without another thread this one does it all.
            let _or_not = thread::Builder::new().name("holdup-capture".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_in_their_order_and_so_do_problems() {
        let things: Vec<u64> = (0..50).collect();
        let slow = |i: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(500 * (i % 3)));
            if *i == 7 || *i == 31 { Err(Problem::usage(i.to_string(), "no")) } else { Ok(*i) }
        };
        for parallel in [1, 2, 7, 100] {
            assert_eq!(together(&things[..7], parallel, slow), Ok(things[..7].to_vec()));
            assert_eq!(together(&things, parallel, slow).map_err(|p| p.what), Err("7".to_owned()));
            assert_eq!(together(&[], parallel, slow), Ok(Vec::new()));
        }
    }

    #[test]
    fn one_large_capture_gets_all_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = |name: &str, bytes: usize| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![0; bytes]).expect("it can be written");
            path
        };
        let (large, half, small) = (made("large", 1_000), made("half", 500), made("small", 10));
        let of = |paths: &[&PathBuf], asked, cpus| {
            let shares = shares(&paths.iter().map(|path| (*path).clone()).collect::<Vec<_>>(), asked, cpus);
            (shares.parallel, shares.threads)
        };
        assert_eq!(of(&[&large], Some(4), 2), (1, 4));
        assert_eq!(of(&[&large, &small], Some(4), 2), (1, 4));
        assert_eq!(of(&[&large, &half], Some(4), 2), (2, 2));
        assert_eq!(of(&[&large, &half], Some(1), 2), (1, 1));
        assert_eq!(of(&[&large, &half, &small], Some(2), 2), (2, 1));
        // Without an option, and they are small.
        assert_eq!(of(&[&large, &half], None, 2), (2, 1));
        assert_eq!(of(&[&large], None, 2), (1, 1));
        // How much comes is not known.
        assert_eq!(of(&[&PathBuf::from("-")], None, 96), (1, USUAL_THREADS));
        assert_eq!(of(&[&PathBuf::from("-"), &large], Some(2), 2), (1, 2));
        assert_eq!(shares(&[small, large, half], None, 2).largest, 1);
    }
}
