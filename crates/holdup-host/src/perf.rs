//! Counting how often a tracepoint is passed, without a record of each time: perf_event_open(2).
//!
//! perf-event2 0.7 (5,900 lines and four further crates) would replace the 60 lines of [`Attributes`] and [`open`], and sets
//! no filter on a tracepoint.
//!
//! Sources: include/uapi/linux/perf_event.h, `kernel/events/core.c` (v6.18): `SYSCALL_DEFINE5(perf_event_open`,
//! `perf_event_set_filter`; `kernel/trace/trace_events_filter.c:ftrace_profile_set_filter`;
//! Documentation/trace/events.rst, Event filtering.

use crate::{Host, HostError};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::io;

/// Where tracefs is mounted: itself, or on older systems inside debugfs.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
/// PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING.
const READ_FORMAT: u64 = 3;
/// `disabled`, the first of the bits.
pub(crate) const DISABLED: u64 = 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
pub(crate) const IOC_ENABLE: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'$', 0);
pub(crate) const IOC_DISABLE: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'$', 1);
const IOC_SET_BPF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'$', 8);
const IOC_SET_FILTER: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<*const libc::c_char>(b'$', 6);
/// The kernel copies a filter into one page of at least this size (`strndup_user(arg, PAGE_SIZE)`).
pub const LONGEST_FILTER: usize = 4095;

/// A tracepoint of this kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    /// The number by which perf knows it.
    pub id: u64,
    /// The file `format`: its fields and how it is printed.
    pub format: String,
}

impl Tracepoint {
    /// Looks one up in tracefs: `find(host, "sched/sched_switch")`.
    ///
    /// # Errors
    /// Why it cannot be read, from the first place where tracefs is looked for and is not just missing.
    pub fn find(host: &Host, name: &str) -> Result<Self, HostError> {
        let at = |root: &str| -> Result<Self, HostError> {
            let folder = format!("{root}/events/{name}");
            let path = format!("{folder}/id");
            let text = host.read_value(&path)?;
            let id = text.parse().map_err(|_| {
                let why = io::Error::new(io::ErrorKind::InvalidData, format!("`{text:.40}` is no number"));
                HostError::new("read", &path, &why)
            })?;
            Ok(Tracepoint { id, format: host.read_text(&format!("{folder}/format"))? })
        };
        match at(ROOTS[0]) {
            Err(first) if first.is_gone() => at(ROOTS[1]).map_err(|e| if e.is_gone() { first } else { e }),
            found => found,
        }
    }
}

/// `struct perf_event_attr` up to what sampling needs (PERF_ATTR_SIZE_VER3, Linux 3.7).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    /// A period, or with the flag `freq` a frequency.
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    /// Events, or with the flag `watermark` bytes.
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
}

pub(crate) const ATTRIBUTES_SIZE: u32 = 96;

/// What a counter says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// How often the tracepoint was passed on the counter's CPU and the filter let it through.
    pub count: u64,
    /// For how long the counter was switched on, ns.
    pub enabled_ns: u64,
    /// For how long of that it counted, ns. Less than `enabled_ns` where the kernel had it take turns with others,
    /// which it does only with counters of hardware.
    pub running_ns: u64,
}

/// A counter of one tracepoint on one CPU, of all its tasks, switched off at first. Dropping it removes it.
#[derive(Debug)]
pub struct Counter {
    fd: OwnedFd,
    what: String,
}

impl Host {
    /// Makes a counter of what the filter lets through; an empty filter lets everything through.
    ///
    /// # Errors
    /// When this process may not count (CAP_PERFMON, `kernel.perf_event_paranoid`), there are too many open files,
    /// the kernel does not understand the filter, or the host is a captured tree.
    pub fn counter(&self, tracepoint: &Tracepoint, cpu: u32, filter: &str) -> Result<Counter, HostError> {
        let what = format!("a counter of tracepoint {} on CPU {cpu}", tracepoint.id);
        let fault = |error: &io::Error| HostError::new("make", &what, error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only the running system can be counted")));
        }
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            size: ATTRIBUTES_SIZE,
            config: tracepoint.id,
            read_format: READ_FORMAT,
            flags: DISABLED,
            ..Attributes::default()
        };
        let counter = Counter { fd: open(&attributes, cpu).map_err(|e| fault(&e))?, what: what.clone() };
        if !filter.is_empty() {
            let text = CString::new(filter).map_err(|e| fault(&io::Error::new(io::ErrorKind::InvalidInput, e)))?;
            // SAFETY: the kernel reads the text up to its end; it lives until the call returns.
            let set = unsafe { libc::ioctl(counter.fd.as_raw_fd(), IOC_SET_FILTER as _, text.as_ptr()) };
            if set != 0 {
                return Err(fault(&io::Error::last_os_error()));
            }
        }
        Ok(counter)
    }
}

/// Software events of page faults (include/uapi/linux/perf_event.h:perf_sw_ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum FaultEvent {
    /// All of them: counted before one is handled on arm64, behind it on x86-64.
    All = 2,
    /// Those that waited for no disk, when they have been handled.
    Minor = 5,
}

impl Host {
    /// Makes an event that runs a BPF program (of the type perf event) at each such page fault on a CPU while it is enabled.
    ///
    /// # Errors
    /// When this process may not do that, the CPU is offline, the program is of another type, or the host is a captured tree.
    pub fn at_faults(&self, which: FaultEvent, cpu: u32, program: BorrowedFd<'_>) -> Result<Counter, HostError> {
        let what = format!("an event at page faults on CPU {cpu}");
        let fault = |error: &io::Error| HostError::new("make", &what, error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only the running system can be watched")));
        }
        let attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: ATTRIBUTES_SIZE,
            config: which as u64,
            sample_period: 1,
            flags: DISABLED,
            ..Attributes::default()
        };
        let event = Counter { fd: open(&attributes, cpu).map_err(|e| fault(&e))?, what: what.clone() };
        run_program(&event.fd, program).map_err(|e| fault(&e))?;
        Ok(event)
    }
}

/// Opens an event of all tasks on one CPU.
pub(crate) fn open(attributes: &Attributes, cpu: u32) -> io::Result<OwnedFd> {
    let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
    open_for(attributes, -1, cpu)
}

/// Opens an event of one thread, or with -1 of all, on one CPU, or with -1 on all.
pub(crate) fn open_for(attributes: &Attributes, tid: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let no_group: libc::c_int = -1;
    // SAFETY: the kernel reads as many bytes from `attributes` as its `size` says, which is its length; it lives until
    // the call returns.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const *attributes, tid, cpu, no_group, PERF_FLAG_FD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks an event for something that takes a number.
pub(crate) fn request(event: &OwnedFd, what: rustix::ioctl::Opcode, number: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a number by value and touch no memory of ours.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), what as _, number) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has an event run a BPF program.
pub(crate) fn run_program(event: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    request(event, IOC_SET_BPF, libc::c_ulong::try_from(program.as_raw_fd()).map_err(io::Error::other)?)
}

impl Counter {
    /// Begins to count.
    pub fn enable(&self) -> Result<(), HostError> {
        self.switch(IOC_ENABLE)
    }

    /// Ends counting; the count stays.
    pub fn disable(&self) -> Result<(), HostError> {
        self.switch(IOC_DISABLE)
    }

    fn switch(&self, how: rustix::ioctl::Opcode) -> Result<(), HostError> {
        request(&self.fd, how, 0).map_err(|e| HostError::new("switch", &self.what, &e))
    }

    /// What it has counted so far.
    ///
    /// # Errors
    /// When the CPU has gone offline since.
    pub fn read(&self) -> Result<Count, HostError> {
        let mut bytes = [0_u8; 24];
        let got = rustix::io::read(&self.fd, &mut bytes).map_err(io::Error::from);
        let got = got.and_then(|got| match got {
            24 => Ok(()),
            other => Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{other} bytes instead of 24"))),
        });
        got.map_err(|e| HostError::new("read", &self.what, &e))?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Ok(Count { count: word(0), enabled_ns: word(8), running_ns: word(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn tracefs_is_looked_for_in_both_places_and_garbage_is_said() {
        let at = |files: &[(&str, &str)]| Tracepoint::find(&MemoryFs::of(files).host(), "sched/sched_switch");
        let (new, old) = ("/sys/kernel/tracing/events/sched", "/sys/kernel/debug/tracing/events/sched");
        let files = |root: &str, id: &str| [(format!("{root}/sched_switch/id"), id.to_owned())];
        for root in [new, old] {
            let [(id_path, id)] = files(root, "372\n");
            let format = format!("{root}/sched_switch/format");
            let found = at(&[(&id_path, &id), (&format, "name: x\n")]).expect("it is there");
            assert_eq!(found, Tracepoint { id: 372, format: "name: x\n".to_owned() });
            assert!(at(&[(&id_path, &id)]).expect_err("no format").is_gone());
            let [(id_path, garbage)] = files(root, "three");
            let error = at(&[(&id_path, &garbage)]).expect_err("no number");
            assert_eq!(error.to_string(), format!("cannot read {root}/sched_switch/id: `three` is no number"));
        }
        let nowhere = at(&[]).expect_err("no tracefs");
        assert!(nowhere.path.starts_with(new), "the place where it belongs today is named: {nowhere}");
    }

    #[test]
    fn a_captured_tree_cannot_be_counted() {
        let host = MemoryFs::of(&[]).host();
        let tracepoint = Tracepoint { id: 1, format: String::new() };
        let error = host.counter(&tracepoint, 0, "").expect_err("no system");
        assert_eq!(
            error.to_string(),
            "cannot make a counter of tracepoint 1 on CPU 0: only the running system can be counted"
        );
        assert_eq!(size_of::<Attributes>(), ATTRIBUTES_SIZE as usize);
    }
}
