//! What only system calls report: scheduling of tasks, the kernel's log, the CPUs that may be used.

use std::io;

/// How a task is scheduled, as far as holdup reads and sets it.
///
/// Sources: sched(7), sched_setscheduler(2), getpriority(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// The number of the policy: one of the constants of this type, or another of the kernel.
    pub policy: u32,
    /// True if children begin with the default instead of the task's own policy.
    pub reset_on_fork: bool,
    /// The nice value, -20 to 19; kept by the kernel also where the policy does not use it.
    pub nice: i32,
    /// The priority of the real-time policies, else 0.
    pub priority: i32,
}

impl Scheduling {
    /// SCHED_OTHER, also called SCHED_NORMAL.
    pub const OTHER: u32 = 0;
    /// SCHED_FIFO.
    pub const FIFO: u32 = 1;
    /// SCHED_RR.
    pub const RR: u32 = 2;
    /// SCHED_BATCH.
    pub const BATCH: u32 = 3;
    /// SCHED_IDLE.
    pub const IDLE: u32 = 5;
    /// SCHED_DEADLINE.
    pub const DEADLINE: u32 = 6;
    /// SCHED_EXT.
    pub const EXT: u32 = 7;

    /// SCHED_OTHER at a nice value.
    pub const fn other(nice: i32) -> Self {
        Scheduling { policy: Self::OTHER, reset_on_fork: false, nice, priority: 0 }
    }
}

const RESET_ON_FORK: u32 = 0x4000_0000;

/// A system call's result as `io::Result`.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A task id for the kernel; 0 would mean the caller, which is never asked for here.
fn task_id(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).ok().filter(|tid| *tid > 0).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The scheduling of a task. The wrappers of the C library are passed by: those of musl answer ENOSYS.
pub(crate) fn scheduling(tid: u32) -> io::Result<Scheduling> {
    let tid = task_id(tid)?;
    // SAFETY: the call takes a task id by value and touches no memory of ours.
    let policy = checked(unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) })?;
    let policy = u32::try_from(policy).map_err(io::Error::other)?;
    let mut priority: libc::c_int = 0;
    // SAFETY: the kernel's `struct sched_param` is one int (include/uapi/linux/sched/types.h), which
    // `priority` is; it lives until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_sched_getparam, tid, &raw mut priority) })?;
    // SAFETY: the call takes two numbers by value and touches no memory of ours.
    let weight = checked(unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) })?;
    // The bare system call gives 20 - nice, so that no answer is negative (kernel/sys.c:getpriority).
    let nice = i32::try_from(20 - weight).map_err(io::Error::other)?;
    let reset_on_fork = policy & RESET_ON_FORK != 0;
    Ok(Scheduling { policy: policy & !RESET_ON_FORK, reset_on_fork, nice, priority })
}

/// Sets the scheduling of a task: the policy first, then the nice value, and only what differs.
///
/// The kernel keeps a task's own slice (`sched_attr.sched_runtime`) over this pair of calls, where
/// `sched_setattr` with values that were read before would pin the default one
/// (kernel/sched/syscalls.c:_sched_setscheduler, v6.12).
pub(crate) fn set_scheduling(tid: u32, wanted: Scheduling) -> io::Result<()> {
    let now = scheduling(tid)?;
    let id = task_id(tid)?;
    let policy_moves =
        (now.policy, now.reset_on_fork, now.priority) != (wanted.policy, wanted.reset_on_fork, wanted.priority);
    if policy_moves {
        if now.policy == Scheduling::DEADLINE || wanted.policy == Scheduling::DEADLINE {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a deadline task cannot be put back by its policy"));
        }
        let flag = if wanted.reset_on_fork { RESET_ON_FORK } else { 0 };
        let priority: libc::c_int = wanted.priority;
        // SAFETY: the kernel reads one int as its `struct sched_param` from `priority`, which lives
        // until the call returns.
        checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, id, wanted.policy | flag, &raw const priority) })?;
    }
    if now.nice != wanted.nice {
        // SAFETY: the call takes three numbers by value and touches no memory of ours.
        checked(unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, id, wanted.nice) })?;
    }
    Ok(())
}

/// The first form of the kernel's `struct sched_attr` (include/uapi/linux/sched/types.h, SCHED_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const ATTR_SIZE: u32 = 48;
const FLAG_RESET_ON_FORK: u64 = 1;

fn sched_attr(tid: u32) -> io::Result<SchedAttr> {
    let (id, mut attr) = (task_id(tid)?, SchedAttr::default());
    let flags: libc::c_uint = 0;
    // SAFETY: the kernel writes at most ATTR_SIZE bytes to `attr`, which is as long and lives until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, id, &raw mut attr, ATTR_SIZE, flags) })?;
    Ok(attr)
}

/// The slice of a task in ns, its own or the default one.
///
/// Kernels before 6.12 give 0, and so do all for real-time tasks (`kernel/sched/syscalls.c:get_params`, v6.18).
pub(crate) fn slice(tid: u32) -> io::Result<Option<u64>> {
    let attr = sched_attr(tid)?;
    Ok(Some(attr.runtime).filter(|runtime| *runtime > 0 && attr.policy != Scheduling::DEADLINE))
}

/// Gives a task its own slice, or the default one, which a runtime of 0 means
/// (`kernel/sched/fair.c:__setparam_fair`, v6.18). Under SCHED_IDLE the kernel would ignore it.
pub(crate) fn set_slice(tid: u32, own_ns: Option<u64>) -> io::Result<()> {
    let SchedAttr { policy, flags, nice, .. } = sched_attr(tid)?;
    if !matches!(policy, Scheduling::OTHER | Scheduling::BATCH) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "only tasks under other and batch have a slice"));
    }
    let flags = flags & FLAG_RESET_ON_FORK;
    let runtime = own_ns.unwrap_or(0);
    let attr = SchedAttr { size: ATTR_SIZE, policy, flags, nice, runtime, ..SchedAttr::default() };
    let no_flags: libc::c_uint = 0;
    // SAFETY: the kernel reads as many bytes from `attr` as its `size` says, which is its length; it lives until the
    // call returns.
    checked(unsafe { libc::syscall(libc::SYS_sched_setattr, task_id(tid)?, &raw const attr, no_flags) }).map(|_| ())
}

/// One bit for each CPU that a kernel can be built for (`CONFIG_NR_CPUS` is 8192 at most), in words of the kernel.
const MASK_WORDS: usize = 8192 / libc::c_ulong::BITS as usize;

/// The CPUs that a task may run on, of those that are online.
pub(crate) fn affinity(tid: u32) -> io::Result<Vec<u32>> {
    let tid = task_id(tid)?;
    let mut mask = [0 as libc::c_ulong; MASK_WORDS];
    let size = size_of_val(&mask);
    // SAFETY: the kernel writes at most `size` bytes to `mask`, which is as long and lives until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, size, mask.as_mut_ptr()) })?;
    let is_set = |cpu: &u32| mask[(cpu / libc::c_ulong::BITS) as usize] >> (cpu % libc::c_ulong::BITS) & 1 == 1;
    Ok((0..8192).filter(is_set).collect())
}

/// Sets the CPUs that a task may run on. The kernel leaves out those that its cpuset does not have.
pub(crate) fn set_affinity(tid: u32, cpus: &[u32]) -> io::Result<()> {
    let tid = task_id(tid)?;
    let mut mask = [0 as libc::c_ulong; MASK_WORDS];
    for cpu in cpus {
        let word = mask.get_mut((cpu / libc::c_ulong::BITS) as usize).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu % libc::c_ulong::BITS);
    }
    // SAFETY: the kernel reads as many bytes from `mask` as it is long; it lives until the call returns.
    checked(unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(&mask), mask.as_ptr()) }).map(|_| ())
}

/// The kernel's log as far as the ring buffer holds it; needs CAP_SYSLOG where `kernel.dmesg_restrict` is 1.
pub(crate) fn kernel_log() -> io::Result<Vec<u8>> {
    const READ_ALL: libc::c_int = 3;
    const SIZE_BUFFER: libc::c_int = 10;
    // SAFETY: this action takes no buffer; syslog(2) allows a null pointer for it.
    let size = unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?.min(16 << 20);
    let mut log = vec![0_u8; size];
    let length = libc::c_int::try_from(size).map_err(io::Error::other)?;
    // SAFETY: the buffer is `length` bytes long and lives until the call returns.
    let got = unsafe { libc::klogctl(READ_ALL, log.as_mut_ptr().cast(), length) };
    log.truncate(usize::try_from(got).map_err(|_| io::Error::last_os_error())?);
    Ok(log)
}

/// The number of CPUs that this thread may run on.
pub(crate) fn allowed_cpus() -> io::Result<u32> {
    Ok(rustix::thread::sched_getaffinity(None)?.count())
}

/// The memory of the machine in bytes, as sysinfo(2) gives it.
pub(crate) fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit) * info.totalram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduling_of_a_child_is_set_and_put_back() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let before = scheduling(child.id()).expect("it runs");
        let batch = Scheduling { policy: Scheduling::BATCH, ..before };
        set_scheduling(child.id(), batch).expect("an ordinary user may do that");
        assert_eq!(scheduling(child.id()).expect("it runs"), batch);
        set_scheduling(child.id(), before).expect("an ordinary user may do that");
        assert_eq!(scheduling(child.id()).expect("it runs"), before);
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let gone = scheduling(child.id()).expect_err("it has ended");
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        assert!(scheduling(0).is_err() && scheduling(u32::MAX).is_err());
    }
    #[test]
    fn a_child_gets_a_slice_of_its_own_and_the_default_one_back() {
        assert_eq!(size_of::<SchedAttr>(), ATTR_SIZE as usize);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let before = slice(child.id()).expect("it runs");
        set_slice(child.id(), Some(7_000_000)).expect("it is ours");
        let own = slice(child.id()).expect("it runs");
        set_slice(child.id(), None).expect("it is ours");
        let after = slice(child.id()).expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        // A kernel before 6.12 reports none, before and after.
        assert_eq!((own, after), (before.map(|_| 7_000_000), before));
        assert_eq!(slice(child.id()).expect_err("it has ended").raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_cpus_of_a_child_are_set_and_put_back() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let before = affinity(child.id()).expect("it runs");
        let one = [*before.last().expect("it may run somewhere")];
        set_affinity(child.id(), &one).expect("it is ours");
        assert_eq!(affinity(child.id()).expect("it runs"), one);
        set_affinity(child.id(), &before).expect("it is ours");
        assert_eq!(affinity(child.id()).expect("it runs"), before);
        assert!(set_affinity(child.id(), &[]).is_err() && set_affinity(child.id(), &[8192]).is_err());
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert_eq!(affinity(child.id()).expect_err("it has ended").raw_os_error(), Some(libc::ESRCH));
    }
}
