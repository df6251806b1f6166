//! Timing page faults in slices of the time: what staying on can cost a server that has a hundred thousand of them a second.
//!
//! A program at the end of each fault costs it a microsecond, of which the program takes a seventh: the rest is perf's
//! (kernel/events/core.c: `___perf_sw_event`, `__perf_event_overflow`, v6.18). So the events are off most of the time, and the
//! programs at the begin are attached for the slices only.

use crate::arch::fault_begins;
use crate::background::{Background, End};
use crate::kernel::call::at_tracepoint;
use crate::kernel::layout::{TIMING_BEGINS, TIMING_ENDS, TIMING_NOTHING, TIMINGS};
use crate::kernel::load::found;
use crate::kernel::{At, Program};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{BtfTracePoint, PerfEvent, ProgramFd};
use holdup_host::Host;
use holdup_host::perf::{Counter, FaultEvent};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Each of these has one slice.
const STRATUM: Duration = Duration::from_millis(500);
/// In which faults that begin are timed.
const SLICE: Duration = Duration::from_millis(25);
/// For how long those that have begun may end afterwards; longer ones that waited for no disk are left out.
const PATIENCE: Duration = Duration::from_millis(10);

/// For how long faults were timed so far.
#[derive(Default)]
struct Timed {
    ended: Duration,
    since: Option<Instant>,
}

impl Timed {
    fn so_far(&self) -> Duration {
        self.ended + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// The slices, until it is dropped.
pub(crate) struct FaultSlices {
    timed: Arc<Mutex<Timed>>,
    until_edge: Duration,
    _thread: Background<()>,
}

impl FaultSlices {
    /// Makes the events, with the programs of the loaded object that are not attached, and begins.
    pub(crate) fn begin(host: &Host, object: &mut Ebpf, cpus: &[u32]) -> Result<Self, String> {
        let map = object.take_map("fault_timing").ok_or("the object has no map fault_timing")?;
        let mut timing: Array<MapData, u32> = Array::try_from(map).map_err(|e| e.to_string())?;
        let mut events = at_each(host, cpus, FaultEvent::Minor, found(object, MINOR_FAULT_ENDS)?)?;
        let mut begins = Vec::new();
        for Program { name, at } in fault_begins() {
            if let At::Event(..) = at {
                events.extend(at_each(host, cpus, FaultEvent::All, found(object, name)?)?);
            } else {
                let program: &mut BtfTracePoint = found(object, name)?;
                begins.push(program.fd().and_then(|fd| Ok(fd.try_clone()?)).map_err(|e| e.to_string())?);
            }
        }
        let timed = Arc::new(Mutex::new(Timed::default()));
        let shared = timed.clone();
        let thread = Background::begin("faults", move |end| slices(end, &mut timing, (&begins, &events), &shared))?;
        Ok(FaultSlices { timed, until_edge: Duration::ZERO, _thread: thread })
    }

    /// The part of the time since the last edge in which faults were timed.
    pub(crate) fn edge(&mut self, whole: Duration) -> f64 {
        let so_far = self.timed.lock().unwrap_or_else(PoisonError::into_inner).so_far();
        let timed = so_far.saturating_sub(std::mem::replace(&mut self.until_edge, so_far));
        if whole.is_zero() { 0.0 } else { (timed.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
    }
}

const MINOR_FAULT_ENDS: &str = "minor_fault_ends";

/// True if a program is run in slices.
pub(crate) fn is_in_slices(program: &str) -> bool {
    program == MINOR_FAULT_ENDS || fault_begins().iter().any(|begins| begins.name == program)
}

/// Events of each CPU that run the program, switched off.
fn at_each(host: &Host, cpus: &[u32], event: FaultEvent, program: &mut PerfEvent) -> Result<Vec<Counter>, String> {
    let program = program.fd().map_err(|e| e.to_string())?;
    let events = cpus.iter().map(|cpu| host.at_faults(event, *cpu, program.as_fd()));
    events.collect::<Result<_, _>>().map_err(|e| e.to_string())
}

fn slices(
    end: &End,
    timing: &mut Array<MapData, u32>,
    (begins, events): (&[ProgramFd], &[Counter]),
    timed: &Mutex<Timed>,
) {
    // A CPU that went offline has no faults.
    let switch = |how: fn(&Counter) -> Result<(), holdup_host::HostError>| {
        for event in events {
            let _offline = how(event);
        }
    };
    let now = || timed.lock().unwrap_or_else(PoisonError::into_inner);
    end.in_slices(
        |_| (STRATUM, SLICE + PATIENCE),
        |number| {
            let slice = number % (u32::MAX / TIMINGS as u32) * TIMINGS as u32;
            let mut set = |what: usize| timing.set(0, slice + what as u32, 0).is_ok();
            // Ends first: no fault that is timed ends without.
            switch(Counter::enable);
            let attached: io::Result<Vec<OwnedFd>> =
                begins.iter().map(|program| at_tracepoint(program.as_fd())).collect();
            let is_set = attached.is_ok() && set(TIMING_BEGINS);
            now().since = is_set.then(Instant::now);
            let is_over = end.wait(SLICE);
            let _still_timed = set(TIMING_ENDS);
            {
                let mut timed = now();
                *timed = Timed { ended: timed.so_far(), since: None };
            }
            let is_over = end.wait(PATIENCE) || is_over;
            drop(attached);
            switch(Counter::disable);
            let _still_timed = set(TIMING_NOTHING);
            is_over
        },
    );
}
