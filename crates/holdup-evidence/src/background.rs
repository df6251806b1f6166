//! Threads that work while the window is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread; it is asked to end when this is dropped.
pub(crate) struct Background<T> {
    end: Arc<AtomicBool>,
    /// `None` once it was waited for.
    thread: Option<JoinHandle<T>>,
}

/// The end of the window, for the thread.
pub(crate) struct End(Arc<AtomicBool>);

impl End {
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits for a while, or until the end; whether that has come.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while !self.has_come() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::park_timeout(left);
        }
        true
    }

    /// Does something in a slice of each stratum of the time until the end. `lengths` are those of a stratum and its slice; `slice` takes as
    /// long as its own, and says whether the end has come.
    pub(crate) fn in_slices(&self, lengths: impl Fn(u32) -> (Duration, Duration), mut slice: impl FnMut(u32) -> bool) {
        for number in 0.. {
            let (stratum, length) = lengths(number);
            let room = stratum - length;
            let before = room.mul_f64(place(number));
            if self.wait(before) || slice(number) || self.wait(room - before) {
                break;
            }
        }
    }
}

/// Where the slice lies in each stratum, as a share of the room that there is: steps of the golden ratio, which come evenly
/// everywhere. Always at the begin, slices would measure the start of programs, with its forks and page faults.
fn place(stratum: u32) -> f64 {
    (f64::from(stratum) * 0.618_033_988_749_894_9 + 0.5).fract()
}

impl<T> Background<T> {
    fn ask_to_end(&self) {
        self.end.store(true, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

impl<T: Send + 'static> Background<T> {
    pub(crate) fn begin(name: &str, work: impl FnOnce(&End) -> T + Send + 'static) -> Result<Self, String> {
        let end = Arc::new(AtomicBool::new(false));
        let asked = End(end.clone());
        // By its name the account knows that tasks wait behind holdup's own thread.
        let thread = std::thread::Builder::new().name(format!("holdup-{name}")).spawn(move || work(&asked));
        Ok(Background { end, thread: Some(thread.map_err(|e| e.to_string())?) })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it panicked.
    pub(crate) fn end(mut self) -> Result<T, String> {
        self.ask_to_end();
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.ok_or_else(|| "a thread of the collector broke down".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn slices_lie_everywhere_in_their_strata() {
        let mut tenths = [0_u32; 10];
        for number in 0..1000 {
            tenths[(place(number) * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (95..=105).contains(count)), "{tenths:?}");
    }

    #[test]
    fn one_that_nothing_waits_for_ends() {
        let (ended, has_ended) = channel();
        drop(Background::begin("test", move |end| {
            while !end.wait(Duration::from_secs(3600)) {}
            ended.send(())
        }));
        assert_eq!(has_ended.recv(), Ok(()));
    }
}
