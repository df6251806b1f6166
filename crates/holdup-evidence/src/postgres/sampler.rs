//! Asking a server again and again, on a connection of its own that stays open from window to window.

use crate::background::{Background, End};
use crate::postgres::{ASKING, NO_SERVER, connect};
use crate::reading::{Produces, all_absent, thread_cpu_ns};
use crate::{CollectContext, Collecting, Continuous};
use holdup_model::{Collected, Coverage, EvidenceItem, Meta, Problem, SelfCost};
use holdup_sql::Client;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The sums of a window over its samples.
pub(crate) trait Sums: Default + Send + 'static {
    /// What the server answers.
    type Sample;

    fn add(&mut self, sample: Self::Sample);

    /// The evidence of a number of samples, one and more.
    fn items(&self, samples: u64) -> Vec<EvidenceItem>;
}

/// An item of evidence that is a mean over samples, by label.
pub(crate) trait Counted: Default + Send + 'static {
    /// Its name and its unit.
    const ITEM: (&'static str, &'static str);
    /// The name of the item with the number of samples.
    const SAMPLES: &'static str;
}

/// How many were seen, by label.
#[derive(Default)]
pub(crate) struct Counts<T>(BTreeMap<String, u64>, PhantomData<T>);

impl<T: Counted> Sums for Counts<T> {
    type Sample = Vec<(String, u64)>;

    fn add(&mut self, sample: Self::Sample) {
        sample.into_iter().for_each(|(label, count)| *self.0.entry(label).or_default() += count);
    }

    fn items(&self, samples: u64) -> Vec<EvidenceItem> {
        let (name, unit) = T::ITEM;
        let mean =
            |(label, count): (&String, &u64)| EvidenceItem::labelled(name, label, unit, *count as f64 / samples as f64);
        let taken = EvidenceItem::new(T::SAMPLES, "samples", samples as f64);
        self.0.iter().map(mean).chain([taken]).collect()
    }
}

/// Begins to count by a statement that gives labels and numbers.
///
/// # Errors
/// As [`begin`].
pub(crate) fn begin_counting<T: Counted>(
    of: (&'static Meta, Produces),
    context: &CollectContext,
    sql: &'static str,
) -> Result<Box<dyn Collecting>, Problem> {
    begin::<Counts<T>>(of, context, ASKING, |client| {
        let statement = client.prepare(sql)?;
        Ok(Box::new(move |client| {
            let mut sample = Vec::new();
            for row in client.query(&statement, &[])? {
                let count: i64 = row.try_get(1)?;
                sample.push((row.try_get::<_, String>(0)?, u64::try_from(count).unwrap_or(0)));
            }
            let bytes = sample.iter().map(|(label, _)| label.len() as u64 + 8).sum();
            Ok((sample, bytes))
        }))
    })
}

/// What was sampled in a window.
#[derive(Default)]
pub(crate) struct Samples<T> {
    pub(crate) values: T,
    pub(crate) taken: u64,
    /// Samples that came late by more than an interval.
    pub(crate) late: u64,
    /// Why sampling ended before the window did.
    pub(crate) failure: Option<String>,
    pub(crate) cost: SelfCost,
}

/// Asks once; gives the answer and the bytes of it.
pub(crate) type Ask<T> = Box<dyn FnMut(&mut Client) -> Result<(<T as Sums>::Sample, u64), holdup_sql::Error> + Send>;

/// A collector that samples.
struct Running<T> {
    meta: &'static Meta,
    produces: Produces,
    samples: Arc<Mutex<Samples<T>>>,
    thread: Background<()>,
}

const MAY_SEE: &str = "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')";

/// Begins to take a sample every so often. A server that goes away ends it with the reason.
///
/// # Errors
/// When there is no server, it does not answer, or the role may not see other users' sessions.
pub(crate) fn begin<T: Sums>(
    (meta, produces): (&'static Meta, Produces),
    context: &CollectContext,
    every: Duration,
    prepare: impl FnOnce(&mut Client) -> Result<Ask<T>, holdup_sql::Error>,
) -> Result<Box<dyn Collecting>, Problem> {
    let failed = |why: String| Problem::host(format!("collector {}", meta.id), why);
    let server = context.postgres.as_deref().ok_or_else(|| failed(NO_SERVER.to_owned()))?;
    let mut client = connect(server).map_err(|e| failed(e.to_string()))?;
    // Without this role other users' backends look like nothing at all, and absent is not zero.
    let may_see: bool =
        client.query_one(MAY_SEE, &[]).and_then(|row| Ok(row.try_get(0)?)).map_err(|e| failed(e.to_string()))?;
    if !may_see {
        return Err(failed("the server's role may not see other users' backends".to_owned())
            .hint("GRANT pg_read_all_stats TO the role of --pg"));
    }
    let ask = prepare(&mut client).map_err(|e| failed(e.to_string()))?;
    let samples = Arc::<Mutex<Samples<T>>>::default();
    let of_thread = samples.clone();
    let thread = Background::begin(meta.id, move |end| watch(client, every, ask, &of_thread, end)).map_err(failed)?;
    Ok(Box::new(Running { meta, produces, samples, thread }))
}

fn watch<T: Sums>(mut client: Client, every: Duration, mut ask: Ask<T>, samples: &Mutex<Samples<T>>, end: &End) {
    let mut begun_cpu = thread_cpu_ns();
    let mut next = Instant::now();
    loop {
        let answer = ask(&mut client);
        next += every;
        let now = Instant::now();
        let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.cost.wakeups += 1;
        samples.cost.cpu_ns += thread_cpu_ns().saturating_sub(begun_cpu);
        begun_cpu = thread_cpu_ns();
        match answer {
            Ok((sample, bytes)) => {
                samples.values.add(sample);
                samples.taken += 1;
                samples.cost.bytes += bytes;
            }
            Err(e) => {
                samples.failure = Some(e.to_string());
                return;
            }
        }
        if now > next {
            samples.late += 1;
            next = now;
        }
        drop(samples);
        if end.wait(next.saturating_duration_since(now)) {
            return;
        }
    }
}

/// The evidence of a window.
pub(crate) fn report<T: Sums>((meta, produces): (&'static Meta, Produces), samples: &Samples<T>) -> Collected {
    if samples.taken == 0 {
        let why = samples.failure.clone().unwrap_or_else(|| "no sample fell into the window".to_owned());
        return all_absent(meta.id, produces, &why, samples.cost);
    }
    let mut notes = Vec::new();
    if let Some(why) = &samples.failure {
        notes.push(format!("sampling ended early: {why}"));
    }
    if samples.late > 0 {
        notes.push(format!("{} samples came late by more than an interval", samples.late));
    }
    Collected {
        collector: meta.id.to_owned(),
        items: samples.values.items(samples.taken),
        coverage: Coverage { seen: samples.taken, lost: samples.late, notes },
        cost: samples.cost,
        ..Collected::default()
    }
}

impl<T: Sums> Continuous for Running<T> {
    fn cut(&mut self) -> Collected {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = samples.failure.clone();
        let window = std::mem::replace(&mut *samples, Samples { failure, ..Samples::default() });
        drop(samples);
        report((self.meta, self.produces), &window)
    }
}

impl<T: Sums> Collecting for Running<T> {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(mut self: Box<Self>) -> Collected {
        let collected = self.cut();
        match self.thread.end() {
            Ok(()) => collected,
            Err(why) => all_absent(self.meta.id, self.produces, &why, SelfCost::default()),
        }
    }
}
