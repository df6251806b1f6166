//! Threads that work while the window is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub(crate) struct Background<T> {
    end: Arc<AtomicBool>,
    thread: JoinHandle<T>,
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
}

impl<T: Send + 'static> Background<T> {
    pub(crate) fn begin(name: &str, work: impl FnOnce(&End) -> T + Send + 'static) -> Result<Self, String> {
        let end = Arc::new(AtomicBool::new(false));
        let asked = End(end.clone());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&asked));
        Ok(Background { end, thread: thread.map_err(|e| e.to_string())? })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it panicked.
    pub(crate) fn end(self) -> Result<T, String> {
        self.end.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().map_err(|_| "a thread of the collector broke down".to_owned())
    }
}
