//! Builds likely next candidates while trials run, one at a time and with the lowest priority.

use holdup_model::Problem;
use holdup_model::search::Candidate;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes a candidate until the flag is set; the seconds that it took, as [`crate::Steps::prepare`] returns them.
pub type Make = Box<dyn Fn(&Candidate, Arc<AtomicBool>) -> Made + Send>;

/// What became of a candidate.
pub type Made = Result<Option<f64>, Problem>;

/// Children of the thread inherit it (setpriority(2)); the trials have 0.
const NICENESS: i32 = 19;

/// How often a wait looks at the flag of its caller.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Default)]
struct State {
    wanted: VecDeque<Candidate>,
    under_way: Option<(String, Arc<AtomicBool>)>,
    made: BTreeMap<String, Made>,
    is_over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that builds, and what it has built. It ends with its owner; a build under way is given up then.
pub struct Ahead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Starts the thread.
    pub fn new(make: Make) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        Ahead { thread: Some(std::thread::spawn(move || build(&of_thread, &make))), shared }
    }

    /// Builds these next, in this order, instead of what was wanted before.
    pub fn want(&self, candidates: &[&Candidate]) {
        let mut state = self.shared.lock();
        let is_new = |c: &&&Candidate| {
            !state.made.contains_key(&c.name) && state.under_way.as_ref().is_none_or(|(name, _)| *name != c.name)
        };
        state.wanted = candidates.iter().filter(is_new).map(|c| (*c).clone()).collect();
        self.shared.changed.notify_all();
    }

    /// Gives up what is not among these, and returns when nothing writes to their trees any more.
    pub fn keep(&self, kept: &[&str]) {
        let mut state = self.shared.lock();
        state.wanted.retain(|candidate| kept.contains(&candidate.name.as_str()));
        state.made.retain(|name, _| kept.contains(&name.as_str()));
        while let Some((name, cancel)) = &state.under_way
            && !kept.contains(&name.as_str())
        {
            cancel.store(true, Ordering::Relaxed);
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// True if a candidate is being built.
    pub fn builds(&self, name: &str) -> bool {
        self.shared.lock().under_way.as_ref().is_some_and(|(of, _)| of == name)
    }

    /// What became of a candidate, if it was begun: a build under way is waited for, until `cancel` is set.
    pub fn take(&self, name: &str, cancel: &AtomicBool) -> Option<Made> {
        let mut state = self.shared.lock();
        state.wanted.retain(|candidate| candidate.name != name);
        while let Some((_, own)) = state.under_way.as_ref().filter(|(of, _)| of == name) {
            if cancel.load(Ordering::Relaxed) {
                own.store(true, Ordering::Relaxed);
            }
            state = self.shared.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.made.remove(name)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        if let Some((_, cancel)) = &state.under_way {
            cancel.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.shared.changed.notify_all();
        // A panic of the thread was printed by it.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn build(shared: &Shared, make: &Make) {
    // Where it is refused, builds compete with the trials, and are only slower to notice.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let mut state = shared.lock();
    while !state.is_over {
        let Some(candidate) = state.wanted.pop_front() else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let cancel = Arc::new(AtomicBool::new(false));
        state.under_way = Some((candidate.name.clone(), Arc::clone(&cancel)));
        drop(state);
        let made = make(&candidate, Arc::clone(&cancel));
        state = shared.lock();
        state.under_way = None;
        // A build that was given up is no failure of the candidate.
        if !cancel.load(Ordering::Relaxed) {
            state.made.insert(candidate.name, made);
        }
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn candidate(name: &str) -> Candidate {
        Candidate { name: name.to_owned(), about: String::new(), date: String::new() }
    }

    /// Builds one candidate after the other, each when it is allowed to; what was begun is sent.
    fn slow() -> (Ahead, mpsc::Receiver<String>, mpsc::Sender<()>) {
        let (begun, begins) = mpsc::channel();
        let (allow, allowed) = mpsc::channel::<()>();
        let make = move |candidate: &Candidate, cancel: Arc<AtomicBool>| {
            begun.send(candidate.name.clone()).unwrap();
            while !cancel.load(Ordering::Relaxed) {
                if allowed.recv_timeout(Duration::from_millis(1)).is_ok() {
                    return Ok(Some(1.0));
                }
            }
            Err(Problem::interrupted("the build"))
        };
        (Ahead::new(Box::new(make)), begins, allow)
    }

    #[test]
    fn what_is_under_way_is_waited_for_and_what_was_not_begun_is_left_to_the_caller() {
        let (ahead, begins, allow) = slow();
        let never = AtomicBool::new(false);
        let (a, b) = (candidate("a"), candidate("b"));
        ahead.want(&[&a, &b]);
        assert_eq!(begins.recv().unwrap(), "a");
        assert_eq!(ahead.take("b", &never), None);
        allow.send(()).unwrap();
        assert_eq!(ahead.take("a", &never), Some(Ok(Some(1.0))));
        assert_eq!(ahead.take("a", &never), None, "it is taken once");
        ahead.want(&[&b]);
        assert_eq!(begins.recv().unwrap(), "b");
    }

    #[test]
    fn what_is_no_longer_likely_is_given_up_and_no_failure() {
        let (ahead, begins, _allow) = slow();
        let never = AtomicBool::new(false);
        let (a, b) = (candidate("a"), candidate("b"));
        ahead.want(&[&a]);
        assert_eq!(begins.recv().unwrap(), "a");
        ahead.keep(&["b"]);
        assert_eq!(ahead.take("a", &never), None);
        ahead.want(&[&b]);
        assert_eq!(begins.recv().unwrap(), "b");
        assert_eq!(ahead.take("b", &AtomicBool::new(true)), None, "a cancelled wait ends the build");
    }
}
