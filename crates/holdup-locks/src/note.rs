//! Points of critical sections that this binary declares, see [`holdfast::point`].

pub(crate) use holdfast::point;

/// The points of one lock, as those methods of `RawLock` that mark them.
macro_rules! points {
    ($section:literal, $lock:literal) => {
        #[inline(always)]
        fn at_acquired() {
            $crate::note::point!(acquired, $section, $lock);
        }
        #[inline(always)]
        fn at_released() {
            $crate::note::point!(released, $section, $lock);
        }
        #[inline(always)]
        fn at_waiting() {
            $crate::note::point!(waiting, $section, $lock);
        }
        #[inline(always)]
        fn at_waiting_no_longer() {
            $crate::note::point!(waiting_no_longer, $section, $lock);
        }
    };
}
pub(crate) use points;
