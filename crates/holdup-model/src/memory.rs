//! Memory that readers of foreign input may use.

use crate::problem::Problem;
use crate::units::shown_size;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Memory that the readers of an input share. They count it themselves, before they grow; clones share one budget.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    most: u64,
    left: Arc<AtomicU64>,
    is_exceeded: Arc<AtomicBool>,
}

/// Memory that is given back when it is not needed any more.
#[derive(Debug)]
pub struct MemoryLease {
    budget: MemoryBudget,
    bytes: u64,
}

/// More memory was asked for than a [`MemoryBudget`] has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    most: u64,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::new(Self::DEFAULT_BYTES)
    }
}

impl MemoryBudget {
    /// The budget of a command without `--max-memory`, bytes: with what no reader counts it stays below 512 MB.
    pub const DEFAULT_BYTES: u64 = 384 << 20;

    /// A budget of this many bytes, none of them taken.
    pub fn new(bytes: u64) -> Self {
        MemoryBudget { most: bytes, left: Arc::new(AtomicU64::new(bytes)), is_exceeded: Arc::default() }
    }

    /// A budget for a program that no other user can write: enough for every one that a linker makes.
    pub fn for_trusted_program() -> Self {
        Self::new(8 << 30)
    }

    /// All of it, bytes, what was taken included.
    pub fn bytes(&self) -> u64 {
        self.most
    }

    /// A budget of what is left, which takes nothing from this one.
    pub fn rest(&self) -> Self {
        MemoryBudget { most: self.most, ..Self::new(self.left()) }
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes bytes that are about to be kept.
    ///
    /// # Errors
    /// When fewer are left; nothing is taken then.
    pub fn take(&self, bytes: u64) -> Result<(), TooLarge> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| {
            self.is_exceeded.store(true, Ordering::Relaxed);
            TooLarge { most: self.most }
        })
    }

    /// Takes bytes for a while.
    ///
    /// # Errors
    /// As for [`MemoryBudget::take`].
    pub fn lease(&self, bytes: u64) -> Result<MemoryLease, TooLarge> {
        self.take(bytes).map(|()| MemoryLease { budget: self.clone(), bytes })
    }

    /// The refusal, where more was asked for than there was.
    pub fn exceeded(&self) -> Option<TooLarge> {
        self.is_exceeded.load(Ordering::Relaxed).then_some(TooLarge { most: self.most })
    }

    /// Gives back bytes that were taken.
    pub fn give(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl MemoryLease {
    /// Takes more.
    ///
    /// # Errors
    /// As for [`MemoryBudget::take`].
    pub fn take(&mut self, bytes: u64) -> Result<(), TooLarge> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "takes more than {} of memory", shown_size(self.most as i64))
    }
}

impl TooLarge {
    /// The refusal of `what`, a file or a place in it.
    pub fn of(self, what: impl Into<String>) -> Problem {
        let more = shown_size(self.most.saturating_mul(2) as i64);
        Problem::usage(what, format!("reading it {self}"))
            .hint(format!("--max-memory {more} lets it take twice as much"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_what_is_left_and_a_refusal_takes_nothing() {
        let budget = MemoryBudget::new(64 << 20);
        let clone = budget.clone();
        assert_eq!(clone.take(48 << 20), Ok(()));
        let refused = budget.take(17 << 20).expect_err("only 16 MB are left");
        assert_eq!((budget.take(16 << 20), clone.exceeded()), (Ok(()), Some(refused)));
        clone.give(64 << 20);
        assert_eq!((budget.left(), budget.bytes()), (64 << 20, 64 << 20));
        assert_eq!(budget.take(60 << 20), Ok(()));
        assert_eq!((budget.rest().take(5 << 20), budget.rest().take(4 << 20)), (Err(refused), Ok(())));
        assert_eq!(budget.left(), 4 << 20);
        let problem = refused.of("results.txt");
        assert_eq!(
            problem.to_string(),
            "results.txt: reading it takes more than 64MB of memory\nhint: --max-memory 128MB lets it take twice as much"
        );
    }
}
