//! The cost of loaded programs, by the kernel's own account.

use super::call::call;
use crate::background::{Background, End};
use aya::Ebpf;
use aya::programs::Program;
use aya_obj::generated::{bpf_attr, bpf_attr__bindgen_ty_9, bpf_cmd, bpf_prog_info};
use holdup_model::evidence::BpfCost;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The part of the time in which run times are measured. To measure adds two readings of the clock to each run of every
/// program of the host, which is a good part of a short program's time.
const SHARE: f64 = 0.025;

/// Each of these has one slice. The first are shorter, so that short windows have some too.
const FIRST_STRATUM: Duration = Duration::from_millis(100);
const LONGEST_STRATUM: Duration = Duration::from_secs(1);

/// How long each stratum is.
fn stratum(number: u32) -> Duration {
    FIRST_STRATUM.saturating_mul(1 << number.min(8)).min(LONGEST_STRATUM)
}

/// Measures the run time of BPF programs (BPF_ENABLE_STATS) in short slices until it is ended.
pub(crate) struct Measuring {
    slices: Background<Option<Duration>>,
    begun: Instant,
}

impl Measuring {
    pub(crate) fn begin() -> Option<Self> {
        Some(Measuring { slices: Background::begin("bpf-stats", slices).ok()?, begun: Instant::now() })
    }

    /// Ends; gives the factor from the measured slices to the whole time. `None` where the kernel refused (older than 5.8,
    /// or not root), and for less than 50 ms.
    pub(crate) fn end(self) -> Option<f64> {
        let measured = self.slices.end().ok()??;
        let whole = self.begun.elapsed();
        (!measured.is_zero()).then(|| (whole.as_secs_f64() / measured.as_secs_f64()).max(1.0))
    }
}

fn slices(end: &End) -> Option<Duration> {
    let (mut measured, mut is_refused) = (Duration::ZERO, false);
    let lengths = |number| (stratum(number), stratum(number).mul_f64(SHARE));
    end.in_slices(lengths, |number| {
        let begun = Instant::now();
        let Ok(enabled) = aya::sys::enable_stats(aya::sys::Stats::RunTime) else {
            is_refused = true;
            return true;
        };
        let is_over = end.wait(lengths(number).1);
        drop(enabled);
        measured += begun.elapsed();
        is_over
    });
    (!is_refused).then_some(measured)
}

/// Run time, runs and runs that were left out of one program.
fn of_program(fd: BorrowedFd<'_>) -> Option<(u64, u64, u64)> {
    // SAFETY: integers and bit fields of them, which 0 is a value of.
    let (mut info, mut attributes): (bpf_prog_info, bpf_attr) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    attributes.info = bpf_attr__bindgen_ty_9 {
        bpf_fd: u32::try_from(fd.as_raw_fd()).ok()?,
        info_len: size_of::<bpf_prog_info>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the buffer has the length that the attributes state.
    unsafe { call(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.ok()?;
    Some((info.run_time_ns, info.run_cnt, info.recursion_misses))
}

/// The sum over the object's loaded programs so far, and the runs that the kernel left out because the program was running
/// on that CPU already. Iterators are left out: they run in the thread that reads them, and are part of its CPU time; one that
/// falls into a slice would be taken for many.
pub(crate) fn of(object: &Ebpf) -> (BpfCost, u64) {
    let mut cost = BpfCost::default();
    let mut missed = 0;
    for (_, program) in object.programs().filter(|(_, program)| !matches!(program, Program::Iter(_))) {
        let Ok(fd) = program.fd() else { continue };
        let Some((run_ns, runs, left_out)) = of_program(fd.as_fd()) else { continue };
        cost.run_ns += run_ns;
        cost.runs += runs;
        missed += left_out;
    }
    (cost, missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strata_grow_up_to_a_second() {
        let lengths: Vec<u128> = (0..6).map(|number| stratum(number).as_millis()).collect();
        assert_eq!((lengths, stratum(u32::MAX)), (vec![100, 200, 400, 800, 1000, 1000], LONGEST_STRATUM));
    }
}
