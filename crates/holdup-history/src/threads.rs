//! Series side by side on several CPUs.

use std::thread;

/// What is made of each, in their order: threads take turns, and none sees what another makes.
pub(crate) fn map<T: Sync, R: Send>(all: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get).min(all.len()).max(1);
    let one = |first: usize| all.iter().skip(first).step_by(threads).map(&make).collect::<Vec<R>>();
    let made: Vec<Vec<R>> = thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = (1..threads).map(|first| scope.spawn(move || one(first))).collect();
        let own = one(0);
        // A panic of a thread is a fault of what it ran, and continues here.
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<R>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::iter::once(own).chain(running.into_iter().map(join)).collect()
    });
    let mut rows: Vec<_> = made.into_iter().map(Vec::into_iter).collect();
    (0..all.len()).filter_map(|n| rows[n % threads].next()).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn answers_stand_in_the_order_of_what_was_asked() {
        for n in 0..20 {
            let all: Vec<usize> = (0..n).collect();
            assert_eq!(map(&all, |x| x * x), all.iter().map(|x| x * x).collect::<Vec<_>>());
        }
    }
}
