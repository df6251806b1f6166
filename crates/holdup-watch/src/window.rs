//! The window of a trial: when it opens, the collectors start; when it closes, they stop.

use holdup_evidence::{CollectContext, CollectOptions, Collecting, Collector, Continuous, Subject};
use holdup_host::Host;
use holdup_host::stalls::{StallWatch, Stalls};
use holdup_load::WindowHooks;
use holdup_model::{Collected, Problem, Window};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far CLOCK_REALTIME may move against CLOCK_MONOTONIC inside a window before the trial is
/// void: latencies that a program logs with wall-clock times would be wrong by as much.
const CLOCK_JUMP_NS: u64 = 5_000_000;

/// ns since 1970.
pub fn unix_ns() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

/// Starts and stops the collectors of one trial.
pub struct CollectorHooks<'a> {
    host: &'a Host,
    collectors: &'a [String],
    postgres: Option<String>,
    options: CollectOptions,
    maps: Option<PathBuf>,
    says: &'a dyn Fn(&str),
    running: Vec<(&'a str, Box<dyn Collecting>)>,
    /// What they watch, while they do.
    context: Option<CollectContext>,
    begin: Option<(Instant, i64)>,
    collected: Vec<Collected>,
    /// Collectors that could not start: absent from each window.
    absent: Vec<Collected>,
    stall_watch: Option<StallWatch>,
    stalls: Stalls,
    window: Option<Window>,
}

/// What a window brought beside its workload's metrics.
pub struct Watched {
    /// What each collector brought.
    pub evidence: Vec<Collected>,
    /// `None` when it was not opened and closed.
    pub window: Option<Window>,
    /// What stood still inside it.
    pub stalls: Stalls,
}

impl Watched {
    /// A window in which something stood still does not count.
    pub fn steady(&self, max_steal_share: f64) -> Result<(), Problem> {
        if let Some(jump_ns) = self.window.as_ref().map(clock_jump_ns).filter(|j| j.unsigned_abs() > CLOCK_JUMP_NS) {
            let why = format!("by {:+.1} ms inside the window", jump_ns as f64 / 1e6);
            return Err(Problem::trial("the wall clock jumped", why));
        }
        self.stalls.verdict(max_steal_share).map_or(Ok(()), |(what, why)| Err(Problem::trial(what, why)))
    }
}

impl<'a> CollectorHooks<'a> {
    /// Hooks that have not begun, with the connection to a PostgreSQL server that is watched.
    pub fn new(host: &'a Host, collectors: &'a [String], postgres: Option<String>) -> Self {
        CollectorHooks {
            host,
            collectors,
            postgres,
            options: CollectOptions::default(),
            maps: None,
            says: &|_| {},
            running: Vec::new(),
            context: None,
            begin: None,
            collected: Vec::new(),
            absent: Vec::new(),
            stall_watch: None,
            stalls: Stalls::default(),
            window: None,
        }
    }

    /// The same with what the user asked of collectors, and where section maps are kept.
    pub fn with_options(mut self, options: CollectOptions, maps: Option<PathBuf>) -> Self {
        self.options = options;
        self.maps = maps;
        self
    }

    /// The same, saying what it begins.
    pub fn saying(mut self, says: &'a dyn Fn(&str)) -> Self {
        self.says = says;
        self
    }

    fn begin_window(&mut self) -> Result<(), Problem> {
        self.watch_for_stalls()?;
        self.begin = Some((Instant::now(), unix_ns()));
        Ok(())
    }

    fn watch_for_stalls(&mut self) -> Result<(), Problem> {
        let watch = StallWatch::start(self.host);
        self.stall_watch = Some(watch.map_err(|e| Problem::trial("the watch for stalls", e.to_string()))?);
        Ok(())
    }

    /// Ends the window. The next one, if there is one, begins where this one ends.
    fn end_window(&mut self) -> Result<(Window, Stalls), Problem> {
        let end @ (at, end_unix_ns) = (Instant::now(), unix_ns());
        let Some((begin, begin_unix_ns)) = self.begin.replace(end) else {
            self.begin = None;
            return Err(Problem::internal("window", "it was closed before it was opened"));
        };
        self.running.iter_mut().filter_map(|(_, running)| running.continuous()).for_each(Continuous::edge);
        let stalls = self.stall_watch.take().map(StallWatch::stop).unwrap_or_default();
        let length_ns = u64::try_from(at.saturating_duration_since(begin).as_nanos()).unwrap_or(u64::MAX);
        Ok((Window { begin_unix_ns, end_unix_ns, length_ns }, stalls))
    }

    /// Sorts evidence as the collectors were asked for.
    fn sort(&self, evidence: &mut [Collected]) {
        evidence.sort_by_key(|c| self.collectors.iter().position(|id| *id == c.collector));
    }

    /// Has the first window begin now, when all collectors run: what the first of them saw while the last one started is in
    /// no window. To drop that may take long, so it is done before the window and, for what came meanwhile, once more.
    fn align(&mut self) -> Result<(), Problem> {
        self.drop_counts();
        self.begin_window()?;
        self.drop_counts();
        Ok(())
    }

    fn drop_counts(&mut self) {
        for (_, running) in &mut self.running {
            drop(running.continuous().map(Continuous::cut));
        }
    }

    /// True if all collectors run.
    pub(crate) fn is_complete(&self) -> bool {
        self.absent.is_empty()
    }

    /// When the window began, if it did.
    pub fn begun(&self) -> Option<Instant> {
        self.begin.map(|(at, _)| at)
    }

    /// True if the window can be cut. The parts of the BPF object are loaded together, so one that cannot be cut there has
    /// all of it loaded anew.
    pub fn can_be_cut(&mut self) -> bool {
        let has_part = |id: &str| holdup_evidence::find(id).is_some_and(|collector| collector.part().is_some());
        self.running.iter_mut().all(|(id, running)| running.continuous().is_some() || !has_part(id))
    }

    /// Ends the window and begins the next one, without a gap for the collectors that can. Those that cannot are started
    /// again; what they miss meanwhile is in no window.
    ///
    /// # Errors
    /// When the next window cannot begin.
    pub fn cut(&mut self) -> Result<Watched, Problem> {
        let (window, stalls) = self.end_window()?;
        self.watch_for_stalls()?;
        let mut evidence = self.absent.clone();
        let context = self.context.clone().unwrap_or_default();
        for (id, mut running) in std::mem::take(&mut self.running) {
            if let Some(continuous) = running.continuous() {
                evidence.push(continuous.cut());
                self.running.push((id, running));
                continue;
            }
            evidence.push(running.stop());
            if let Some(collector) = holdup_evidence::find(id) {
                self.start(id, collector, &context);
            }
        }
        self.sort(&mut evidence);
        Ok(Watched { evidence, window: Some(window), stalls })
    }

    /// Starts a collector; one that cannot start is absent from each window.
    fn start(&mut self, id: &'a str, collector: &dyn Collector, context: &CollectContext) {
        match collector.start(context) {
            Ok(running) => self.running.push((id, running)),
            Err(problem) => {
                let why = format!("{}: {}", problem.what, problem.why);
                self.absent.push(Collected::absent(id, collector.produces(), &why));
            }
        }
    }

    /// What was collected, and the window if it was opened and closed.
    pub fn finish(mut self) -> Watched {
        if self.window.is_none() && self.begin.is_some() {
            // The workload failed between the two moments: stop what runs, keep what it saw.
            let _closed = self.close();
            self.window = None;
        }
        Watched { evidence: self.collected, window: self.window, stalls: self.stalls }
    }
}

impl WindowHooks for CollectorHooks<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        let subjects = subjects.iter().map(|(role, pid)| Subject { role: role.clone(), pid: *pid }).collect();
        let collectors: Vec<_> = self.collectors.iter().filter_map(|id| holdup_evidence::find(id)).collect();
        let context = CollectContext {
            host: self.host.clone(),
            subjects,
            postgres: self.postgres.clone(),
            options: self.options.clone(),
            maps: self.maps.clone(),
            ..CollectContext::default()
        }
        .for_collectors(&collectors);
        for id in self.collectors {
            let Some(collector) = holdup_evidence::find(id) else {
                return Err(Problem::internal(
                    format!("collector {id}"),
                    "the checked plan names one that does not exist",
                ));
            };
            (self.says)(&format!("starting {id}"));
            self.start(id, collector, &context);
        }
        (self.says)("measuring");
        self.context = Some(context);
        self.align()
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let (window, stalls) = self.end_window()?;
        self.stalls = stalls;
        (self.says)("stopping the collectors");
        // Stopped in the reverse order, so that the collector that started last saw least of the others' work.
        for (_, running) in self.running.drain(..).rev() {
            self.collected.push(running.stop());
        }
        self.context = None;
        let mut collected = std::mem::take(&mut self.collected);
        collected.append(&mut self.absent);
        self.sort(&mut collected);
        self.collected = collected;
        self.window = Some(window);
        Ok(window)
    }
}

/// How far the wall clock jumped inside a window, ns, forwards positive.
fn clock_jump_ns(window: &Window) -> i64 {
    let by_wall = window.end_unix_ns.saturating_sub(window.begin_unix_ns);
    by_wall.saturating_sub(i64::try_from(window.length_ns).unwrap_or(i64::MAX))
}

/// Sleeps, looking every 20 ms whether it should end. Returns whether it slept to the end.
pub fn sleep(duration_ns: u64, cancelled: &dyn Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_nanos(duration_ns);
    loop {
        if cancelled() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_shows_in_the_window() {
        let window =
            |begin: i64, end: i64, length_ns: u64| Window { begin_unix_ns: begin, end_unix_ns: end, length_ns };
        assert_eq!(clock_jump_ns(&window(0, 1_000, 1_000)), 0);
        assert_eq!(clock_jump_ns(&window(0, 3_601_000_000_000, 1_000_000_000)), 3_600_000_000_000);
        assert_eq!(clock_jump_ns(&window(5_000_000_000, 1_000_000_000, 1_000_000_000)), -5_000_000_000);
    }

    #[test]
    fn a_sleep_ends_when_it_is_cancelled() {
        assert!(!sleep(u64::MAX / 4, &|| true));
        assert!(sleep(0, &|| false));
    }

    #[test]
    fn a_window_that_was_never_opened_cannot_close() {
        let host = Host::at("/dev/null/missing");
        let mut hooks = CollectorHooks::new(&host, &[], None);
        assert!(hooks.close().is_err());
    }
}
