//! Whether workers can ask for a longer time slice, which holdfast does.

use holdfast::{Hold, Missing, Status};
use holdup_model::Availability;
use std::io;

/// The kernel's ENOTSUPP, which is not among those of errno(3).
const ENOTSUPP: i32 = 524;

/// What a worker keeps of its requests.
#[derive(Default)]
pub(crate) struct Requests {
    hold: Option<Hold>,
    /// How many were granted so far and given back in time.
    pub(crate) grants: u64,
}

impl Requests {
    /// From here on the kernel may let the worker run on.
    #[inline(always)]
    pub(crate) fn ask(&mut self) {
        self.hold = Some(holdfast::hold());
    }

    /// Takes the request back, and gives the CPU away when the kernel has granted it meanwhile.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if self.hold.take().is_some_and(Hold::end) {
            self.grants += 1;
        }
    }
}

/// Lets the calling thread ask, in an area of its own where the C library's is too short. The thread may be that of a forked
/// child: nothing is allocated.
///
/// # Errors
/// What the kernel answers; errno 524 where the extension is missing.
pub(crate) fn enable() -> io::Result<()> {
    // SAFETY: holdup is linked statically and has no user of the C library's area but `sched_getcpu`.
    match unsafe { holdfast::replace_area() } {
        Status::Works => Ok(()),
        Status::Missing(Missing::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
        Status::Missing(_) => Err(io::Error::from_raw_os_error(ENOTSUPP)),
    }
}

/// Whether the calling process can, tried on a new thread.
pub(crate) fn probe() -> Availability {
    // SAFETY: as above.
    let tried =
        std::thread::Builder::new().spawn(|| unsafe { holdfast::replace_area() }).map(std::thread::JoinHandle::join);
    match tried {
        Ok(Ok(Status::Works)) => Availability::Ready,
        Ok(Ok(Status::Missing(missing))) => Availability::unavailable_but(
            format!("the time slice extension of rseq is missing here: {missing}"),
            "a kernel 7.0.10 or later with CONFIG_RSEQ_SLICE_EXTENSION=y, for example one of `holdup kernels build`",
        ),
        Ok(Err(_)) => Availability::unavailable("the thread that tried it panicked"),
        Err(e) => Availability::unavailable(format!("no thread to try it on: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_extension_is_there_or_the_reason_is_reported() {
        match probe() {
            Availability::Ready => {
                // Two threads on one CPU that ask all the time: whenever one should go, it is granted some more.
                let asks = || {
                    let mut one = rustix::thread::CpuSet::new();
                    let here = rustix::thread::sched_getaffinity(None).expect("its own");
                    one.set((0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| here.is_set(*cpu)).expect("one"));
                    rustix::thread::sched_setaffinity(None, &one).expect("its own CPU");
                    enable().expect("the probe said that it works");
                    let begin = Instant::now();
                    let is_granted = || {
                        let hold = holdfast::hold();
                        (0..500).for_each(|_| std::hint::spin_loop());
                        hold.end()
                    };
                    while begin.elapsed() < Duration::from_secs(30) {
                        if is_granted() {
                            return;
                        }
                    }
                    panic!("no slice was granted in 30 s of asking beside another thread");
                };
                let both = [std::thread::spawn(asks), std::thread::spawn(asks)];
                both.into_iter().for_each(|thread| thread.join().expect("see above"));
            }
            Availability::Unavailable { reason, remedy } => {
                assert!(reason.contains("missing here: ") && remedy.is_some(), "{reason}");
                assert!(enable().is_err());
            }
            Availability::Degraded { reason, .. } => panic!("it is there or not: {reason}"),
        }
    }
}
