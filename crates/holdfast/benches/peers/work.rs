//! What is done inside and outside of the lock, and how it is timed.

use std::time::Instant;

/// Steps of a chain of dependent multiplications, which takes the same time on every run.
#[inline(always)]
pub(crate) fn chain(steps: u32) {
    let mut x = 1u64;
    for _ in 0..steps {
        x = std::hint::black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
}

/// Steps of [`chain`] in a microsecond: the best of several tries, because others use the CPUs.
pub(crate) fn steps_per_us() -> f64 {
    let once = || {
        let begin = Instant::now();
        chain(200_000);
        200_000.0 / begin.elapsed().as_secs_f64() / 1e6
    };
    (0..20).map(|_| once()).fold(0.0, f64::max)
}

/// The time stamp counter, and how many of its ticks make a nanosecond.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return clock_ns(libc::CLOCK_MONOTONIC);
}

/// Ticks in a nanosecond.
pub(crate) fn ticks_per_ns() -> f64 {
    let (begin, ticked) = (Instant::now(), ticks());
    while begin.elapsed().as_millis() < 20 {}
    (ticks() - ticked) as f64 / begin.elapsed().as_nanos() as f64
}

/// CPU time of the process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a local.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Where workers may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Worker n on CPU n alone, counted around those that the process may use.
    OnePerCpu,
    /// Where the kernel places them. A window of some milliseconds measures where: two workers that it puts on one CPU never
    /// meet at the lock.
    Anywhere,
    OneCpu,
}

/// Places the calling worker of number `n`.
pub(crate) fn place(placement: Placement, n: usize) {
    let n = match placement {
        Placement::Anywhere => return,
        Placement::OnePerCpu => n,
        Placement::OneCpu => 0,
    };
    // SAFETY: the sets are locals of their size.
    unsafe {
        let (mut all, mut one): (libc::cpu_set_t, libc::cpu_set_t) = (std::mem::zeroed(), std::mem::zeroed());
        let bytes = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, bytes, &raw mut all);
        let cpus: Vec<usize> = (0..bytes * 8).filter(|cpu| libc::CPU_ISSET(*cpu, &all)).collect();
        libc::CPU_SET(cpus[n % cpus.len()], &mut one);
        libc::sched_setaffinity(0, bytes, &raw const one);
    }
}

/// Memory that a worker has page faults in.
pub(crate) struct Pages {
    begin: *mut u8,
    next: usize,
}

impl Pages {
    const BYTES: usize = 4096;
    const COUNT: usize = 256;

    pub(crate) fn new() -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory; huge pages would make one fault of all.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES * Self::COUNT, access, kind, -1, 0) };
        assert_ne!(begin, libc::MAP_FAILED, "there is memory");
        // SAFETY: as above.
        unsafe { libc::madvise(begin, Self::BYTES * Self::COUNT, libc::MADV_NOHUGEPAGE) };
        Pages { begin: begin.cast(), next: 0 }
    }

    /// One page fault.
    #[inline(always)]
    pub(crate) fn fault(&mut self) {
        // SAFETY: `next` is below the number of pages.
        unsafe { self.begin.add(self.next * Self::BYTES).write_volatile(1) };
        self.next += 1;
    }

    /// Makes room for the next fault, outside of the lock.
    #[inline(always)]
    pub(crate) fn prepare(&mut self) {
        if self.next == Self::COUNT {
            self.next = 0;
            // SAFETY: the memory is this worker's.
            unsafe { libc::madvise(self.begin.cast(), Self::BYTES * Self::COUNT, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nothing points there any more.
        unsafe { libc::munmap(self.begin.cast(), Self::BYTES * Self::COUNT) };
    }
}

/// Times by size: eight buckets for each doubling.
#[derive(Clone)]
pub(crate) struct Histogram([u64; 512]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; 512])
    }
}

impl Histogram {
    #[inline(always)]
    fn bucket(ticks: u64) -> usize {
        let top = 63 - (ticks | 8).leading_zeros() as usize;
        (top - 3) * 8 + ((ticks >> (top - 3)) & 7) as usize
    }
    /// Counts one time.
    #[inline(always)]
    pub(crate) fn add(&mut self, ticks: u64) {
        self.0[Self::bucket(ticks)] += 1;
    }
    /// Counts what another has counted.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, more)| *mine += more);
    }
    /// The lower end of the bucket beneath which a share of the times is.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().sum();
        let mut left = (all as f64 * share) as u64;
        for (n, count) in self.0.iter().enumerate() {
            if left <= *count && *count > 0 {
                return ((8 + n % 8) as f64) * f64::powi(2.0, (n / 8) as i32);
            }
            left = left.saturating_sub(*count);
        }
        0.0
    }
}
