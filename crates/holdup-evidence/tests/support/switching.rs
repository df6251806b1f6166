//! Pairs of processes that do nothing but hand a CPU to each other: the most switches that a machine can do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How they hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handing {
    /// Each writes a byte to the other and waits for the answer: every switch is voluntary.
    Pipe,
    /// Both call `sched_yield`: no switch is voluntary.
    Yield,
}

/// What all of them see.
#[repr(C)]
struct Shared {
    /// Those that wait for the beginning.
    waiting: AtomicU32,
    stop: AtomicU32,
    /// Those that have done their last round.
    ended: AtomicU32,
    rounds: AtomicU64,
}

/// The kernel's own account of a process: /proc/PID/status and /proc/PID/schedstat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    /// Times that it came to a CPU.
    pub(crate) arrived: u64,
    /// Time runnable without a CPU, ns.
    pub(crate) wait_ns: u64,
}

impl Account {
    fn of(pid: u32) -> Self {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let status = text("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let schedstat: Vec<u64> = text("schedstat").split_whitespace().filter_map(|f| f.parse().ok()).collect();
        let nth = |n: usize| schedstat.get(n).copied().unwrap_or(0);
        Account {
            voluntary: field("voluntary_ctxt_switches:"),
            involuntary: field("nonvoluntary_ctxt_switches:"),
            arrived: nth(2),
            wait_ns: nth(1),
        }
    }

    fn plus(self, other: Self) -> Self {
        Account {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
            arrived: self.arrived + other.arrived,
            wait_ns: self.wait_ns + other.wait_ns,
        }
    }

    /// What came since.
    pub(crate) fn since(self, before: Self) -> Self {
        Account {
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
            arrived: self.arrived - before.arrived,
            wait_ns: self.wait_ns - before.wait_ns,
        }
    }

    pub(crate) fn switches(self) -> u64 {
        self.voluntary + self.involuntary
    }
}

/// Processes that are asleep before and after [`Switching::run`], so that counts of who watches have no edges.
pub(crate) struct Switching {
    shared: *mut Shared,
    pids: Vec<i32>,
    begin: [i32; 2],
    pipes: Vec<[i32; 2]>,
}

fn pipe() -> [i32; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has the two places that are written.
    let result = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(result, 0, "pipe: {}", std::io::Error::last_os_error());
    ends
}

/// CPUs that this process may run on.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: zero bytes are an empty set, and the kernel writes one of this size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: the index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Only system calls from here on: this runs between fork and the end, in a copy of a program with threads.
mod child {
    use super::{Handing, Ordering, Shared};

    pub(super) struct Member {
        pub(super) cpu: usize,
        pub(super) begin: i32,
        pub(super) from: i32,
        pub(super) to: i32,
        pub(super) is_first: bool,
    }

    fn read(fd: i32) -> u8 {
        let mut byte = 0_u8;
        // SAFETY: one byte is there to be written.
        unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
        byte
    }

    fn write(fd: i32, byte: u8) {
        // SAFETY: one byte is there to be read.
        unsafe { libc::write(fd, (&raw const byte).cast(), 1) };
    }

    pub(super) fn run(shared: &Shared, handing: Handing, place: &Member) -> ! {
        // SAFETY: plain system calls; zero bytes are an empty set, and the CPU is below its size.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(place.cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        read(place.begin);
        let mut rounds = 0;
        match handing {
            Handing::Yield => {
                while shared.stop.load(Ordering::Relaxed) == 0 {
                    // SAFETY: a plain system call.
                    unsafe { libc::sched_yield() };
                    rounds += 1;
                }
            }
            Handing::Pipe if place.is_first => loop {
                let more = u8::from(shared.stop.load(Ordering::Relaxed) == 0);
                write(place.to, more);
                if more == 0 {
                    break;
                }
                read(place.from);
                rounds += 1;
            },
            Handing::Pipe => {
                while read(place.from) == 1 {
                    write(place.to, 1);
                    rounds += 1;
                }
            }
        }
        shared.rounds.fetch_add(rounds, Ordering::SeqCst);
        shared.ended.fetch_add(1, Ordering::SeqCst);
        loop {
            // SAFETY: a plain system call; the parent kills this process.
            unsafe { libc::pause() };
        }
    }
}

impl Switching {
    /// A pair for each of the CPUs; they wait for [`Switching::run`].
    pub(crate) fn new(handing: Handing, cpus: &[usize]) -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of which zero bytes are a valid value.
        let shared = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Shared>(), access, kind, -1, 0) };
        assert_ne!(shared, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let mut it = Switching { shared: shared.cast(), pids: Vec::new(), begin: pipe(), pipes: Vec::new() };
        for &cpu in cpus {
            let (there, back) = (pipe(), pipe());
            it.pipes.extend([there, back]);
            for (from, to, is_first) in [(back[0], there[1], true), (there[0], back[1], false)] {
                let place = child::Member { cpu, begin: it.begin[0], from, to, is_first };
                // SAFETY: the child makes system calls only, and never returns.
                match unsafe { libc::fork() } {
                    0 => child::run(it.shared(), handing, &place),
                    pid => it.pids.push(pid),
                }
            }
        }
        it.wait_until(|shared, all| shared.waiting.load(Ordering::SeqCst) == all);
        it
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped until the drop; all fields are atomic.
        unsafe { &*self.shared }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pids.iter().map(|pid| *pid as u32).collect()
    }

    /// The kernel's account of all of them together.
    pub(crate) fn account(&self) -> Account {
        self.pids().into_iter().map(Account::of).fold(Account::default(), Account::plus)
    }

    /// Until all have come to a place, and are asleep there.
    fn wait_until(&self, is_there: impl Fn(&Shared, u32) -> bool) {
        let mut last = (Account::default(), Instant::now());
        while last.1.elapsed() < Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(10));
            let now = self.account();
            if now != last.0 || !is_there(self.shared(), self.pids.len() as u32) {
                last = (now, Instant::now());
            }
        }
    }

    /// Lets them hand over for this long, once. Gives their rounds and how long it was; all are asleep afterwards.
    pub(crate) fn run(&self, length: Duration) -> (u64, Duration) {
        let all = vec![0_u8; self.pids.len()];
        // SAFETY: the buffer has that many bytes.
        unsafe { libc::write(self.begin[1], all.as_ptr().cast(), all.len()) };
        let begun = Instant::now();
        std::thread::sleep(length);
        self.shared().stop.store(1, Ordering::SeqCst);
        let length = begun.elapsed();
        self.wait_until(|shared, all| shared.ended.load(Ordering::SeqCst) == all);
        (self.shared().rounds.load(Ordering::SeqCst), length)
    }
}

impl Drop for Switching {
    fn drop(&mut self) {
        // SAFETY: children that have not been waited for, files that are open, and memory that is not used any more.
        unsafe {
            for pid in &self.pids {
                libc::kill(*pid, libc::SIGKILL);
                libc::waitpid(*pid, std::ptr::null_mut(), 0);
            }
            for end in self.pipes.iter().chain([&self.begin]).flatten() {
                libc::close(*end);
            }
            libc::munmap(self.shared.cast(), size_of::<Shared>());
        }
    }
}
