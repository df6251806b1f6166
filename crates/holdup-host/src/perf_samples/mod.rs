//! Where tasks run, sampled by a clock on each CPU: perf_event_open(2) with its rings.
//!
//! The 480 lines of rings and records here are our own: perf-event2 0.7 (5,900 lines and four further crates) hands out
//! records one ring at a time, while one thread drains the rings of all CPUs after one poll(2), and a sample of 16 KB of
//! stack is unwound where it lies.
//!
//! Sources: include/uapi/linux/perf_event.h; `kernel/events/core.c` (v6.18): `perf_swevent_hrtimer`,
//! `perf_output_sample`, `perf_output_sample_ustack`; `kernel/events/ring_buffer.c:__perf_output_begin`;
//! arch/*/include/uapi/asm/perf_regs.h.

mod record;
mod ring;

pub use crate::arch::HAS_LINK;
pub use record::{Record, TaskRegisters, UserSide, parse};

use crate::arch;
use crate::perf::{ATTRIBUTES_SIZE, Attributes, DISABLED, IOC_DISABLE, IOC_ENABLE, open, request};
use crate::{Host, HostError};
use ring::Ring;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const EXCLUDE_IDLE: u64 = 1 << 7;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQ: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
/// Reading the event gives the number of records that found no room (Linux 6.0).
const PERF_FORMAT_LOST: u64 = 1 << 4;
/// The kernel refuses longer copies (`perf_copy_attr`: below USHRT_MAX, a multiple of 8).
pub const LONGEST_STACK: u32 = 65_528;

/// How to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Samples per second and CPU.
    pub frequency_hz: u32,
    /// How much of a task's stack is copied, from its stack pointer on, bytes.
    pub stack_bytes: u32,
    /// Size of each CPU's ring, bytes; made a power of two of pages.
    pub ring_bytes: usize,
}

/// A clock on each CPU that takes a sample of the running task, switched off at first; idle CPUs give none. Dropping it
/// removes it.
#[derive(Debug)]
pub struct Sampler {
    events: Vec<(OwnedFd, Ring)>,
    what: String,
    counts_lost: bool,
    order: Vec<(u64, usize, u64)>,
    chain: Vec<u64>,
}

impl Host {
    /// Makes a sampler of these CPUs.
    ///
    /// # Errors
    /// When this process may not sample others (CAP_PERFMON, `kernel.perf_event_paranoid`), the frequency is higher than
    /// `kernel.perf_event_max_sample_rate`, the rings cannot be had, or the host is a captured tree.
    pub fn sampler(&self, cpus: &[u32], sampling: Sampling) -> Result<Sampler, HostError> {
        let mut sampler = Sampler {
            events: Vec::with_capacity(cpus.len()),
            what: format!("a sampler of {} CPUs at {} Hz", cpus.len(), sampling.frequency_hz),
            counts_lost: false,
            order: Vec::new(),
            chain: Vec::new(),
        };
        let fault = |error: &io::Error| HostError::new("make", &sampler.what, error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only the running system can be sampled")));
        }
        let ring_bytes = Ring::size_for(sampling.ring_bytes);
        let mut attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: ATTRIBUTES_SIZE,
            config: PERF_COUNT_SW_CPU_CLOCK,
            sample_period: u64::from(sampling.frequency_hz),
            sample_type: record::SAMPLE_TYPE,
            read_format: PERF_FORMAT_LOST,
            flags: DISABLED
                | EXCLUDE_IDLE
                | MMAP
                | COMM
                | FREQ
                | TASK
                | WATERMARK
                | SAMPLE_ID_ALL
                | EXCLUDE_CALLCHAIN_USER
                | MMAP2
                | COMM_EXEC,
            wakeup_events: u32::try_from(ring_bytes / 2).unwrap_or(u32::MAX),
            sample_regs_user: arch::SAMPLED_REGISTERS,
            sample_stack_user: sampling.stack_bytes.min(LONGEST_STACK) & !7,
            ..Attributes::default()
        };
        for cpu in cpus {
            let opened = match open(&attributes, *cpu) {
                // An older kernel: only records in the rings count what is lost.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) && attributes.read_format != 0 => {
                    attributes.read_format = 0;
                    open(&attributes, *cpu)
                }
                opened => opened,
            };
            let fd = opened.map_err(|e| fault(&e))?;
            let ring = Ring::map(&fd, ring_bytes).map_err(|e| fault(&e))?;
            sampler.events.push((fd, ring));
        }
        sampler.counts_lost = attributes.read_format != 0;
        Ok(sampler)
    }
}

impl Host {
    /// The code that the kernel puts into every process of 64 bits (vdso(7)), as an ELF file.
    ///
    /// # Errors
    /// When this process has none, or the host is a captured tree.
    pub fn vdso(&self) -> Result<Vec<u8>, HostError> {
        let fault = |error: &io::Error| HostError::new("read", "the vDSO", error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only a running system has one")));
        }
        let maps = self.read_text("/proc/self/maps")?;
        let range = maps.lines().find_map(|line| line.strip_suffix("[vdso]")?.split_once(' ')?.0.split_once('-'));
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = range.and_then(|(start, end)| Some((hex(start)?, hex(end)?)));
        let (start, end) = range.ok_or_else(|| fault(&io::Error::other("this process has none")))?;
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        let memory = std::fs::File::open("/proc/self/mem").map_err(|e| fault(&e))?;
        memory.read_exact_at(&mut bytes, start).map_err(|e| fault(&e))?;
        Ok(bytes)
    }
}

impl Sampler {
    /// Begins to sample.
    pub fn enable(&self) -> Result<(), HostError> {
        self.switch(IOC_ENABLE)
    }

    /// Ends sampling; what is in the rings stays.
    pub fn disable(&self) -> Result<(), HostError> {
        self.switch(IOC_DISABLE)
    }

    fn switch(&self, how: rustix::ioctl::Opcode) -> Result<(), HostError> {
        let switched = self.events.iter().try_for_each(|(event, _)| request(event, how, 0));
        switched.map_err(|e| HostError::new("switch", &self.what, &e))
    }

    /// Waits until a ring is half full, `until` can be read or has been closed at its other end, or `longest` is over.
    pub fn wait(&self, longest: Duration, until: &impl AsFd) -> Result<(), HostError> {
        let mut fds: Vec<PollFd<'_>> = self.events.iter().map(|(fd, _)| PollFd::new(fd, PollFlags::IN)).collect();
        fds.push(PollFd::new(until, PollFlags::IN));
        let longest = Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(HostError::new("wait for", &self.what, &e.into())),
        }
    }

    /// Hands over what is in the rings, in the order of time, and makes room. Records of kinds that are not known are
    /// left out. What one CPU wrote while another one's ring was read comes with the next call.
    pub fn drain(&mut self, mut each: impl FnMut(u64, &Record<'_>)) -> Drained {
        let mut drained = Drained::default();
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for (index, (_, ring)) in self.events.iter_mut().enumerate() {
            drained.bytes += ring.look();
            let is_whole = ring.for_each_begin(|at, time_ns| order.push((time_ns, index, at)));
            drained.broken += u64::from(!is_whole);
        }
        order.sort_unstable();
        for (time_ns, index, at) in &order {
            let Some((_, ring)) = self.events.get_mut(*index) else { continue };
            let record = ring.record(*at);
            match parse(record, &mut self.chain) {
                Some(Some(record)) => each(*time_ns, &record),
                Some(None) => {}
                None => drained.broken += 1,
            }
        }
        for (_, ring) in &mut self.events {
            ring.release();
        }
        self.order = order;
        drained
    }

    /// How many records found no room so far, by the kernel's own count; `None` where it keeps none (before Linux 6.0):
    /// then [`Record::Lost`] has it, but only with the next record that has room.
    pub fn lost(&self) -> Option<u64> {
        let lost = |fd: &OwnedFd| {
            let mut bytes = [0_u8; 16];
            let got = rustix::io::read(fd, &mut bytes).ok()?;
            (got == 16).then(|| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i])))
        };
        self.counts_lost.then(|| self.events.iter().map(|(fd, _)| lost(fd)).sum::<Option<u64>>()).flatten()
    }

    /// Memory of the rings, bytes.
    pub fn bytes(&self) -> u64 {
        self.events.iter().map(|(_, ring)| ring.bytes()).sum()
    }
}

/// What one [`Sampler::drain`] read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Bytes in the rings.
    pub bytes: u64,
    /// Records that have another form than this kernel's header says.
    pub broken: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn a_captured_tree_cannot_be_sampled() {
        let sampling = Sampling { frequency_hz: 99, stack_bytes: 8192, ring_bytes: 1 << 20 };
        let error = MemoryFs::of(&[]).host().sampler(&[0, 1], sampling).expect_err("no system");
        assert_eq!(
            error.to_string(),
            "cannot make a sampler of 2 CPUs at 99 Hz: only the running system can be sampled"
        );
    }
}
