//! pgbench's log has wall-clock times: its own start by gettimeofday(2), and from there CLOCK_MONOTONIC
//! (`epoch_shift` in src/bin/pgbench/pgbench.c, 15.18). The window is mapped onto that clock.

use holdup_model::{Problem, Window};
use rustix::time::{ClockId, clock_gettime};

/// How far CLOCK_REALTIME may move against CLOCK_MONOTONIC between pgbench's start and the window's end.
const JUMP_NS: i64 = 5_000_000;

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockOffset(pub(crate) i64);

fn ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

impl ClockOffset {
    /// Reads both clocks. The reading with the least time around it counts: one that was preempted
    /// between the two clocks would look like a jump.
    pub(crate) fn now() -> Self {
        let mut best = (i64::MAX, 0);
        for _ in 0..5 {
            let (before, real, after) = (ns(ClockId::Monotonic), ns(ClockId::Realtime), ns(ClockId::Monotonic));
            let around = after - before;
            if around < best.0 {
                best = (around, real - (before + around / 2));
            }
        }
        ClockOffset(best.1)
    }
}

/// The window by the clock of the log, as first and last µs that lie inside.
///
/// `start` was taken when pgbench started, `open` and `close` when the window did. `relative` says whether
/// the log's clock is CLOCK_MONOTONIC from pgbench's start on (since version 14) or CLOCK_REALTIME.
///
/// # Errors
/// When the wall clock jumped: neither the log nor the window can be trusted then.
pub(crate) fn window_us(
    window: &Window,
    start: ClockOffset,
    open: ClockOffset,
    close: ClockOffset,
    relative: bool,
) -> Result<(i64, i64), Problem> {
    for (moment, ahead) in [("begin", open), ("end", close)] {
        let jump = ahead.0.saturating_sub(start.0);
        if jump.unsigned_abs() > JUMP_NS.unsigned_abs() {
            return Err(Problem::trial(
                "clock",
                format!(
                    "the wall clock moved by {:.1} ms against the monotonic clock between pgbench's start and the \
                     window's {moment}",
                    jump as f64 / 1e6
                ),
            ));
        }
    }
    let shift = |ahead: ClockOffset| if relative { ahead.0.saturating_sub(start.0) } else { 0 };
    let begin_ns = window.begin_unix_ns.saturating_sub(shift(open));
    let end_ns = window.end_unix_ns.saturating_sub(shift(close));
    Ok((begin_ns.saturating_add(999).div_euclid(1000), end_ns.div_euclid(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window =
        Window { begin_unix_ns: 10_000_000_500, end_unix_ns: 20_000_000_500, length_ns: 10_000_000_000 };

    #[test]
    fn the_window_follows_a_clock_that_is_slewed() {
        let check = |open: i64, close: i64, relative: bool, expect: (i64, i64)| {
            let start = ClockOffset(1_000_000_000);
            let got = window_us(&WINDOW, start, ClockOffset(start.0 + open), ClockOffset(start.0 + close), relative);
            assert_eq!(got, Ok(expect), "{open} {close}");
        };
        // The first whole µs inside, and the last.
        check(0, 0, true, (10_000_001, 20_000_000));
        check(1_000_000, 2_000_000, true, (9_999_001, 19_998_000));
        check(-1_000_000, 5_000_000, true, (10_001_001, 19_995_000));
        check(1_000_000, 2_000_000, false, (10_000_001, 20_000_000));
    }

    #[test]
    fn a_jump_voids_the_trial() {
        let check = |open: i64, close: i64, expect: &str| {
            let refused = window_us(&WINDOW, ClockOffset(0), ClockOffset(open), ClockOffset(close), true).unwrap_err();
            assert_eq!(refused.kind, holdup_model::ProblemKind::Trial);
            assert!(refused.why.contains(expect), "{refused}");
        };
        check(0, 5_000_001, "moved by 5.0 ms");
        check(
            -6_000_000,
            0,
            "moved by -6.0 ms against the monotonic clock between pgbench's start and the window's begin",
        );
        check(0, i64::MIN, "window's end");
    }

    #[test]
    fn the_clocks_of_this_host_do_not_jump_between_two_readings() {
        let (a, b) = (ClockOffset::now(), ClockOffset::now());
        assert!((a.0 - b.0).abs() < JUMP_NS, "{a:?} {b:?}");
    }
}
