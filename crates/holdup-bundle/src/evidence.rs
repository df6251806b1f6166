//! The evidence of a trial beyond numbers: distributions, call stacks, timelines, and what they cost. It came with
//! schema version 2 and is a separate part, so that a trial is read as before.

use crate::decode::{Cells, Decoded, histogram_of, rows, run_of};
use crate::deflated::{deflate, inflate};
use crate::gather::ReadOptions;
use crate::parts::Loaded;
use crate::write::{Dictionary, Fault, ItemKey, Written, integer, item_number};
use crate::{stacks, timelines};
use holdup_model::evidence::{BpfCost, EvidenceHistogram};
use holdup_model::{Collected, SparseHistogram, StackProfile, Timeline, Trial};
use rusqlite::{Connection, params};

/// The longest JSON of a profile or a timeline, bytes; the schema has the same number.
pub(crate) const MOST_JSON_BYTES: usize = 64 << 20;

/// Writes the part of a trial whose rows of `collector_runs` are there.
pub(crate) fn write(db: &Connection, items: &mut Dictionary<ItemKey>, trial: &Trial) -> Written {
    for (run, c) in trial.evidence.iter().enumerate() {
        let place = (trial.seq, run as i64);
        write_cost(db, place, c)?;
        for (position, h) in c.histograms.iter().enumerate() {
            write_histogram(db, items, place, position as i64, h)?;
        }
        for (position, profile) in c.stacks.iter().enumerate() {
            write_profile(db, place, position as i64, profile)?;
        }
        if let Some(timeline) = &c.timeline {
            write_timeline(db, place, timeline)?;
        }
    }
    Ok(())
}

fn write_cost(db: &Connection, (trial, run): (u32, i64), c: &Collected) -> Written {
    let bpf = |count: fn(BpfCost) -> u64, name| c.cost.bpf.map(|b| integer(name, count(b))).transpose();
    db.prepare_cached(
        "INSERT INTO collector_costs (trial, run, bpf_runs, bpf_run_ns, memory_bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        trial,
        run,
        bpf(|b| b.runs, "runs of BPF programs")?,
        bpf(|b| b.run_ns, "time of BPF programs")?,
        integer("memory of the collector", c.cost.memory_bytes)?
    ])?;
    Ok(())
}

fn write_histogram(
    db: &Connection,
    items: &mut Dictionary<ItemKey>,
    (trial, run): (u32, i64),
    position: i64,
    h: &EvidenceHistogram,
) -> Written {
    let item = item_number(db, items, (h.name.clone(), h.label.clone(), "ns".to_owned()))?;
    let count = integer("count of the histogram", h.histogram.count())?;
    let clipped = integer("clipped values of the histogram", h.histogram.clipped())?;
    db.prepare_cached(
        "INSERT INTO evidence_histograms (trial, run, position, item, count, clipped, hdr_v2) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![trial, run, position, item, count, clipped, h.histogram.to_bytes()])?;
    Ok(())
}

fn write_profile(db: &Connection, (trial, run): (u32, i64), position: i64, profile: &StackProfile) -> Written {
    let what = format!("the stack profile {}", profile.name);
    let json = bounded(&what, stacks::encode(profile))?;
    let weight = profile.stacks.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.weight)).unwrap_or(u64::MAX);
    db.prepare_cached(
        "INSERT INTO stack_profiles (trial, run, position, name, unit, period_ns, stacks, weight, truncated_weight, \
         json_bytes, json_zlib) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        trial,
        run,
        position,
        profile.name,
        profile.unit,
        integer("period of the samples", profile.period_ns)?,
        profile.stacks.len() as i64,
        integer("weight of the stacks", weight)?,
        integer("weight of truncated stacks", profile.truncated)?,
        json.len() as i64,
        deflate(&json)
    ])?;
    Ok(())
}

fn write_timeline(db: &Connection, (trial, run): (u32, i64), timeline: &Timeline) -> Written {
    if timeline.left_out > 0 {
        return Err(Fault::Value(format!("{} events of the timeline were not read", timeline.left_out)));
    }
    let json = bounded("the timeline", timelines::encode(timeline))?;
    db.prepare_cached(
        "INSERT INTO timelines (trial, run, begin_ns, events, lost_events, json_bytes, json_zlib) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        trial,
        run,
        integer("begin of the timeline", timeline.begin_ns)?,
        timeline.events.len() as i64,
        integer("lost events of the timeline", timeline.lost)?,
        json.len() as i64,
        deflate(&json)
    ])?;
    Ok(())
}

/// What could not be read again is not written.
pub(crate) fn bounded(what: &str, json: Result<Vec<u8>, String>) -> Result<Vec<u8>, Fault> {
    match json {
        Ok(json) if json.len() <= MOST_JSON_BYTES => Ok(json),
        Ok(json) => Err(Fault::Value(format!("{what} is {} bytes of JSON, more than {MOST_JSON_BYTES}", json.len()))),
        Err(why) => Err(Fault::Value(format!("{what} {why}"))),
    }
}

/// The part as read: what each collector, in the order of its runs, brought beyond numbers.
#[derive(Default)]
pub(crate) struct Rich {
    bpf: Option<BpfCost>,
    memory_bytes: u64,
    histograms: Vec<EvidenceHistogram>,
    stacks: Vec<StackProfile>,
    timeline: Option<Timeline>,
}

impl Rich {
    /// Adds it to what the collector brought.
    pub(crate) fn into_collected(self, c: &mut Collected) {
        (c.cost.bpf, c.cost.memory_bytes) = (self.bpf, self.memory_bytes);
        (c.histograms, c.stacks, c.timeline) = (self.histograms, self.stacks, self.timeline);
    }
}

/// Reads the part. There is an entry for each of the `runs` collectors of the trial.
pub(crate) fn read(part: &Loaded, runs: usize, reading: &ReadOptions) -> Decoded<Vec<Rich>> {
    let mut all = Vec::new();
    for row in rows(part, 0)? {
        let mut c = Cells::of(row);
        c.place(all.len())?;
        let bpf = match (c.integer_or_null()?, c.integer_or_null()?) {
            (None, None) => None,
            (Some(runs), Some(run_ns)) => Some(BpfCost { runs, run_ns }),
            _ => return Err("the cost of its BPF programs is set in part".to_owned()),
        };
        all.push(Rich { bpf, memory_bytes: c.integer()?, ..Rich::default() });
    }
    if all.len() != runs {
        return Err(format!("has the costs of {} collectors, {runs} ran", all.len()));
    }
    for row in rows(part, 1)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut all, c.integer()?)?;
        c.place(run.histograms.len())?;
        let (name, label, unit) = (c.text()?, c.text_or_null()?, c.text()?);
        if unit != "ns" {
            return Err(format!("the histogram {name} is of {unit} where ns belong"));
        }
        let histogram: SparseHistogram = (&histogram_of(&mut c, &name)?).into();
        reading.budget.take(histogram.memory_bytes() as u64).map_err(|e| format!("the histogram {name} {e}"))?;
        run.histograms.push(EvidenceHistogram { name, label, histogram });
    }
    for row in rows(part, 2)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut all, c.integer()?)?;
        c.place(run.stacks.len())?;
        run.stacks.push(profile(&mut c, reading)?);
    }
    for row in rows(part, 3)? {
        let mut c = Cells::of(row);
        let run = run_of(&mut all, c.integer()?)?;
        run.timeline = Some(timeline(&mut c, reading)?);
    }
    Ok(all)
}

/// The JSON of a column, which is `bytes` long, as it is read.
fn unpacked<T>(
    zlib: &[u8],
    bytes: u64,
    reading: &ReadOptions,
    decode: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let _json = reading.budget.lease(bytes.min(MOST_JSON_BYTES as u64)).map_err(|e| e.to_string())?;
    inflate(zlib, bytes, MOST_JSON_BYTES).and_then(|json| decode(&json))
}

fn profile(c: &mut Cells<'_>, reading: &ReadOptions) -> Decoded<StackProfile> {
    let (name, unit, period_ns) = (c.text()?, c.text()?, c.integer()?);
    let (count, weight): (u64, u64) = (c.integer()?, c.integer()?);
    let (truncated, json_bytes) = (c.integer()?, c.integer()?);
    let body = unpacked(c.bytes()?, json_bytes, reading, |json| stacks::decode(json, &reading.budget));
    let (frames, stacks) = body.map_err(|why| format!("the stack profile {name} {why}"))?;
    let sum = stacks.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.weight));
    if (stacks.len() as u64, sum) != (count, Some(weight)) {
        return Err(format!(
            "the stack profile {name} holds {} stacks of weight {}, {count} of weight {weight} were kept",
            stacks.len(),
            sum.map_or_else(|| "beyond 64 bits".to_owned(), |s| s.to_string())
        ));
    }
    Ok(StackProfile { name, unit, period_ns, frames, stacks, truncated })
}

fn timeline(c: &mut Cells<'_>, reading: &ReadOptions) -> Decoded<Timeline> {
    let (begin_ns, count, lost): (_, u64, _) = (c.integer()?, c.integer()?, c.integer()?);
    let json_bytes = c.integer()?;
    let decode = |json: &[u8]| timelines::decode(json, reading.with_events, &reading.budget);
    let body = unpacked(c.bytes()?, json_bytes, reading, decode);
    let body = body.map_err(|why| format!("the timeline {why}"))?;
    if body.count() != count {
        return Err(format!("the timeline holds {} events, {count} were kept", body.count()));
    }
    Ok(Timeline { begin_ns, lost, ..body })
}
