//! The residual time of preempted holders: how much longer they run until they release their locks.
//!
//! The program at the switch asks for a few holders each second; breakpoints at the instructions that release the lock
//! have to be set while the holder is off the CPU. One that comes too late is counted, and gives no residual.

use crate::kernel::layout::{RESIDUAL_ASKED, ResidualEvent, read};
use crate::reading::{now_ns, thread_cpu_ns};
use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use aya::programs::PerfEvent;
use holdup_host::Host;
use holdup_host::perf_breakpoints::{Breakpoint, MOST_OF_A_THREAD};
use holdup_model::SparseHistogram;
use holdup_model::sections::ReleasedAt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A holder that has not released its lock by then is given up.
const LONGEST_NS: u64 = 500_000_000;
/// Bytes that a CPU fetches instructions in. Zen 3 executes the line that has an instruction breakpoint 3.4 times slower.
const LINE: u64 = 64;
/// A section of which more than this share of the residuals are stretched by a breakpoint has none.
const MOST_STRETCHED: f64 = 0.1;

/// The residual times of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Residuals {
    /// By number of the section.
    pub(crate) of_section: BTreeMap<u16, SparseHistogram>,
    /// Holders that were asked for.
    asked: u64,
    /// Breakpoints that were set.
    set: u64,
    /// Holders that were back on a CPU before the breakpoints were set.
    late: u64,
    /// Holders that resumed at an instruction that is tried again after a fault, where no breakpoint stops.
    faulted: u64,
    /// Holders that did not reach a breakpoint.
    censored: u64,
    /// Holders whose releases are not known, or more than there are registers.
    unknown: u64,
    /// Breakpoints that could not be set, and the first reason.
    refused: (u64, Option<String>),
    /// The shortest residual, ns: what a breakpoint takes. The others are without it.
    way_back_ns: u64,
    /// Sections whose residuals are left out, because breakpoints take longer.
    short: u64,
    /// Sections whose residuals are left out, because breakpoints slow the code in their own lines.
    stretched: u64,
    /// CPU time of the thread.
    pub(crate) cpu_ns: u64,
}

impl Residuals {
    /// Notes for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.asked == 0 {
            return Vec::new();
        }
        let known: u64 = self.of_section.values().map(SparseHistogram::count).sum();
        let (ms, asked, set) = (self.cpu_ns as f64 / 1e6, self.asked, self.set);
        let mut notes = vec![format!(
            "residual times: {asked} preempted holders were followed with {set} breakpoints, which took {ms:.0} ms of CPU \
             time; {known} residuals, less the shortest, {:.1} us, which is what a breakpoint takes",
            self.way_back_ns as f64 / 1e3
        )];
        for (count, why) in [
            (self.late, "were back on a CPU before their breakpoints were set"),
            (self.faulted, "resumed at an instruction that had a page fault, where no breakpoint stops"),
            (self.censored, "did not release the lock within 500 ms after they had lost the CPU"),
            (self.unknown, "were where it is not known how the lock is released, or at more than three places"),
        ] {
            if count > 0 {
                notes.push(format!("of the followed holders {count} {why}"));
            }
        }
        if self.short > 0 {
            notes.push(format!(
                "{} sections are too short: a breakpoint takes longer here than their residuals",
                self.short
            ));
        }
        if self.stretched > 0 {
            notes.push(format!(
                "{} sections do their work right before the release, in the same {LINE} bytes of code, which a breakpoint \
                 there slows",
                self.stretched
            ));
        }
        if let (count, Some(why)) = &self.refused {
            notes.push(format!("{count} times breakpoints could not be set: {why}"));
        }
        notes
    }
}

/// A holder that is followed.
struct Followed {
    section: u16,
    asked_ns: u64,
    /// When its last breakpoint was set.
    armed_ns: u64,
    /// True if it resumes in a line of code that has a breakpoint.
    is_slowed: bool,
    _breakpoints: Vec<Breakpoint>,
}

/// Follows holders until it is dropped.
pub(crate) struct Following {
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
    found: Arc<Mutex<Found>>,
}

/// How much longer the holder of a section ran.
#[derive(Debug)]
struct Residual {
    section: u16,
    /// ns; `None` for not at all.
    value: Option<u64>,
    is_slowed: bool,
}

/// What was found since the last edge of a window.
#[derive(Debug, Default)]
struct Found {
    values: Vec<Residual>,
    sum: Residuals,
}

struct Follower {
    host: Host,
    ring: RingBuf<MapData>,
    program: OwnedFd,
    releases: BTreeMap<u32, Vec<ReleasedAt>>,
    followed: BTreeMap<u32, Followed>,
    found: Arc<Mutex<Found>>,
}

impl Following {
    /// Begins; `Err` says why it cannot.
    pub(crate) fn begin(
        host: &Host,
        object: &mut Ebpf,
        releases: BTreeMap<u32, Vec<ReleasedAt>>,
    ) -> Result<Self, String> {
        let program = object.program("residual_ends").ok_or("the object has no program residual_ends")?;
        let program: &PerfEvent = program.try_into().map_err(|e: aya::programs::ProgramError| e.to_string())?;
        let program =
            program.fd().map_err(|e| e.to_string())?.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
        let ring = object.take_map("residuals").ok_or("the object has no map residuals")?;
        let ring = RingBuf::try_from(ring).map_err(|e| e.to_string())?;
        let (until, end) = std::io::pipe().map_err(|e| e.to_string())?;
        let found = Arc::<Mutex<Found>>::default();
        let followed = BTreeMap::new();
        let mut follower = Follower { host: host.clone(), ring, program, releases, followed, found: found.clone() };
        let run = move || follower.run(&until);
        let thread =
            std::thread::Builder::new().name("holdup-residual".to_owned()).spawn(run).map_err(|e| e.to_string())?;
        Ok(Following { end: Some(end), thread: Some(thread), found })
    }

    /// The residuals since the last call. Holders that are still followed have no end yet, which says nothing of them.
    pub(crate) fn take(&self) -> Residuals {
        std::mem::take(&mut *lock(&self.found)).summed_up()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A thread that broke down has left what it found.
            let _broken = thread.join();
        }
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Found {
    fn summed_up(mut self) -> Residuals {
        // The interrupted are anywhere in their sections, so one of many was at its end: its residual is what a
        // breakpoint takes itself.
        let shortest = self.values.iter().filter_map(|r| r.value).min().unwrap_or(0);
        self.sum.way_back_ns = shortest;
        let mut stretched = BTreeMap::<u16, u64>::new();
        for Residual { section, value, is_slowed } in self.values {
            let ns = value.map_or(0, |ns| ns - shortest);
            self.sum.of_section.entry(section).or_default().record_ns(ns);
            *stretched.entry(section).or_default() += u64::from(is_slowed && ns > shortest);
        }
        let before = self.sum.of_section.len();
        // What a breakpoint takes differs by about as much from one to the next: residuals that are no longer say nothing.
        self.sum.of_section.retain(|_, h| h.quantile_ns(0.5).is_some_and(|median| median > shortest));
        let long = self.sum.of_section.len();
        self.sum.of_section.retain(|section, h| stretched[section] as f64 <= MOST_STRETCHED * h.count() as f64);
        self.sum.short = (before - long) as u64;
        self.sum.stretched = (long - self.sum.of_section.len()) as u64;
        self.sum
    }
}

impl Follower {
    fn run(&mut self, until: &PipeReader) {
        let mut charged_ns = thread_cpu_ns();
        while !self.wait(until) {
            self.drain();
            self.give_up_before(now_ns().saturating_sub(LONGEST_NS));
            let now = thread_cpu_ns();
            lock(&self.found).sum.cpu_ns += now.saturating_sub(charged_ns);
            charged_ns = now;
        }
    }

    /// Waits for the ring; whether it is the end.
    fn wait(&self, until: &PipeReader) -> bool {
        // SAFETY: the ring keeps its descriptor open for as long as it is borrowed here.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        let mut fds = [PollFd::from_borrowed_fd(ring, PollFlags::IN), PollFd::new(until, PollFlags::IN)];
        let longest = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        // Without anything to follow there is nothing to give up.
        let longest = (!self.followed.is_empty()).then_some(&longest);
        let result = poll(&mut fds, longest);
        !matches!(result, Ok(_) | Err(rustix::io::Errno::INTR)) || !fds[1].revents().is_empty()
    }

    fn drain(&mut self) {
        while let Some(event) = self.next() {
            if usize::from(event.kind) == RESIDUAL_ASKED { self.follow(&event) } else { self.ended(&event) }
        }
    }

    fn next(&mut self) -> Option<ResidualEvent> {
        self.ring.next().map(|record| read(&record))
    }

    fn follow(&mut self, event: &ResidualEvent) {
        let found = self.found.clone();
        let mut found = lock(&found);
        found.sum.asked += 1;
        let covers = |r: &&ReleasedAt| (r.begin..r.end).contains(&event.value);
        let all = self.releases.get(&event.image).into_iter().flatten().filter(covers);
        let at: BTreeSet<u64> = all.flat_map(|r| r.at.iter().copied()).collect();
        // One more register stops where it resumes.
        if at.is_empty() || at.len() >= MOST_OF_A_THREAD {
            found.sum.unknown += 1;
            return;
        }
        if at.contains(&event.ip) {
            // The next instruction releases the lock.
            found.values.push(Residual { section: event.section, value: None, is_slowed: false });
            return;
        }
        let set = |address: &u64| self.host.breakpoint(event.tid, *address, self.program.as_fd());
        match at.iter().chain([&event.ip]).map(set).collect::<Result<Vec<Breakpoint>, _>>() {
            Ok(breakpoints) => {
                found.sum.set += breakpoints.len() as u64;
                let (section, asked_ns, armed_ns) = (event.section, event.ns, now_ns());
                let is_slowed = at.iter().any(|at| at / LINE == event.ip / LINE);
                let followed = Followed { section, asked_ns, armed_ns, is_slowed, _breakpoints: breakpoints };
                self.followed.insert(event.number, followed);
            }
            Err(why) => {
                found.sum.refused.0 += 1;
                found.sum.refused.1.get_or_insert(why.to_string());
            }
        }
    }

    /// A holder came to a breakpoint: it was back since `ns`, and had run for `value`.
    fn ended(&mut self, event: &ResidualEvent) {
        let Some(followed) = self.followed.remove(&event.number) else { return };
        let mut found = lock(&self.found);
        if event.ns <= followed.armed_ns {
            found.sum.late += 1;
        } else if event.resumed == 0 {
            found.sum.faulted += 1;
        } else {
            let Followed { section, is_slowed, .. } = followed;
            found.values.push(Residual { section, value: Some(event.value), is_slowed });
        }
    }

    fn give_up_before(&mut self, ns: u64) {
        let before = self.followed.len();
        self.followed.retain(|_, f| f.asked_ns >= ns);
        lock(&self.found).sum.censored += (before - self.followed.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Residual, Residuals};

    /// Of 200 residuals of section 1 up to 100 us beside what a breakpoint takes, every nth from a line with a breakpoint.
    fn found(nth: u64) -> Residuals {
        let of = |i: u64| Residual { section: 1, value: Some(5_000 + i * 500), is_slowed: i % nth == nth - 1 };
        Found { values: (0..200).map(of).collect(), ..Found::default() }.summed_up()
    }

    #[test]
    fn sections_that_a_breakpoint_slows_have_no_residuals() {
        let few = found(20);
        assert_eq!((few.way_back_ns, few.stretched, few.of_section[&1].count()), (5_000, 0, 200));
        let many = found(5);
        assert_eq!((many.stretched, many.short, many.of_section.len()), (1, 0, 0));
    }
}
