//! Work that is done ahead, on all CPUs, and handed out in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How many results may wait for each thread: they are held in memory.
const AHEAD_OF_EACH: usize = 2;

/// The results of some jobs, in their order.
pub(super) struct Ahead<R> {
    shared: Arc<Shared<R>>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
    stop: AtomicBool,
}

struct State<R> {
    next: usize,
    /// Results before this one were handed out.
    handed_out: usize,
    results: Vec<Option<R>>,
}

impl<R: Send + 'static> Ahead<R> {
    /// Begins `jobs` jobs on this many threads; `None` for all CPUs. `work` is given a job's number and a flag that asks it to give up.
    pub(super) fn begin(
        threads: Option<usize>,
        jobs: usize,
        work: impl Fn(usize, &AtomicBool) -> R + Send + Sync + 'static,
    ) -> Self {
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let threads = threads.clamp(1, jobs.max(1));
        let shared = Arc::new(Shared {
            state: Mutex::new(State { next: 0, handed_out: 0, results: (0..jobs).map(|_| None).collect() }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let work = Arc::new(work);
        let most_ahead = threads * AHEAD_OF_EACH;
        let run = |_| {
            let (shared, work) = (shared.clone(), work.clone());
            std::thread::spawn(move || shared.run(&*work, most_ahead))
        };
        let threads = (0..threads).map(run).collect();
        Ahead { shared, threads }
    }

    /// The result of a job. Jobs are asked for in order, each once; `None` for one that was asked for before, or
    /// whose thread is gone. `gives_up` is asked now and then while the job is not done.
    pub(super) fn result(&self, job: usize, gives_up: &dyn Fn() -> bool) -> Option<R> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = state.results.get_mut(job).and_then(Option::take) {
                state.handed_out = state.handed_out.max(job + 1);
                self.shared.changed.notify_all();
                return Some(result);
            }
            if gives_up() || self.threads.iter().all(JoinHandle::is_finished) {
                return None;
            }
            let wait = std::time::Duration::from_millis(20);
            let waited = self.shared.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<R> Shared<R> {
    fn run(&self, work: &(impl Fn(usize, &AtomicBool) -> R + ?Sized), most_ahead: usize) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while state.next >= state.handed_out + most_ahead && !self.stop.load(Ordering::Relaxed) {
                let wait = std::time::Duration::from_millis(20);
                state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
            let job = state.next;
            if job >= state.results.len() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            state.next += 1;
            drop(state);
            let result = work(job, &self.stop);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.results[job] = Some(result);
            self.changed.notify_all();
        }
    }
}

impl<R> Drop for Ahead<R> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message; its job has no result.
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_however_long_each_takes() {
        let ahead = Ahead::begin(None, 50, |job, _stop| {
            std::thread::sleep(std::time::Duration::from_micros((job as u64 * 7919) % 900));
            job * job
        });
        let results: Vec<_> = (0..50).map(|job| ahead.result(job, &|| false)).collect();
        assert_eq!(results, (0..50).map(|job| Some(job * job)).collect::<Vec<_>>());
        assert_eq!(ahead.result(3, &|| true), None, "it was handed out");
    }

    #[test]
    fn dropping_ends_the_work_under_way() {
        let ahead = Ahead::begin(None, 1000, |_job, stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        drop(ahead);
    }
}
