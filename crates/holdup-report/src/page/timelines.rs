//! What each CPU did, event by event: for each arm what the script draws, and the sums as a table.

use super::Table;
use crate::series::{Layout, Names};
use crate::text::{self, clean};
use crate::trace::lanes::{Does, Held, Lanes, Slice, lanes};
use holdup_model::{BundleData, Problem, Timeline, Trial};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most slices and holds of one timeline: some hundred for each of 192 CPUs, more than a reader goes through.
const MOST_SLICES: usize = 60_000;

/// The most of all timelines of a page together, which keeps a page of many arms to some megabytes. No timeline gets fewer
/// than a tenth of [`MOST_SLICES`].
const MOST_ON_PAGE: usize = 120_000;

/// Reads a trial with the events of its timeline, by its `seq`.
pub type ReadTrial<'a> = &'a dyn Fn(u32) -> Result<Trial, Problem>;

/// The timeline of one trial of an arm.
pub(crate) struct Lane {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What is seen, and what is not in it.
    pub(crate) note: String,
    pub(crate) table: Table,
    data: Value,
}

/// The timelines of one cell of a workload.
pub(crate) struct Timelines {
    pub(crate) cell: String,
    pub(crate) lanes: Vec<Lane>,
}

/// The timelines of each workload, the first of each arm, and what the script reads of them. Those without their events are read
/// one by one.
pub(crate) fn all(
    bundle: &BundleData,
    layouts: &[Layout<'_>],
    names: &Names,
    read: ReadTrial<'_>,
) -> Result<(Vec<Vec<Timelines>>, Value), Problem> {
    let mut found: Vec<(usize, String, String, &Trial, &Timeline)> = Vec::new();
    for (at, layout) in layouts.iter().enumerate() {
        for cell in layout.cells() {
            for placed in layout.at(cell) {
                let mut trials = bundle.trials.iter().filter(|t| t.is_done() && t.arm == placed.arm.id);
                let first = trials.find_map(|t| Some((t, t.evidence.iter().find_map(|c| c.timeline.as_ref())?)));
                if let Some((trial, timeline)) = first.filter(|(_, timeline)| timeline.count() > 0) {
                    let arm = names.0[placed.series].text.clone();
                    found.push((at, layout.cell_name(cell), arm, trial, timeline));
                }
            }
        }
    }
    let most = (MOST_ON_PAGE / found.len().max(1)).clamp(MOST_SLICES / 10, MOST_SLICES);
    let mut timelines: Vec<Vec<Timelines>> = layouts.iter().map(|_| Vec::new()).collect();
    let mut data = serde_json::Map::new();
    for (i, (at, cell, arm, trial, timeline)) in found.into_iter().enumerate() {
        let whole = if timeline.left_out > 0 { of_trial(read(trial.seq)?) } else { None };
        let lane = lane(format!("timeline-{i}"), &arm, trial, whole.as_ref().unwrap_or(timeline), most);
        data.insert(lane.id.clone(), lane.data.clone());
        match timelines[at].last_mut().filter(|group| group.cell == cell) {
            Some(group) => group.lanes.push(lane),
            None => timelines[at].push(Timelines { cell, lanes: vec![lane] }),
        }
    }
    Ok((timelines, Value::Object(data)))
}

fn of_trial(trial: Trial) -> Option<Timeline> {
    trial.evidence.into_iter().find_map(|collected| collected.timeline)
}

fn lane(id: String, arm: &str, trial: &Trial, timeline: &Timeline, most: usize) -> Lane {
    let mut lanes = lanes(timeline);
    let whole_ns = lanes.end_ns;
    let is_cut = cut(&mut lanes, most);
    let cpus = cpus(&lanes);
    let sums = Sums::of(&lanes);
    let mut note = note(&sums, &cpus, trial, lanes.end_ns);
    if timeline.lost > 0 {
        let lost = text::grouped(&timeline.lost.to_string());
        note.push_str(&format!(" There was no room for the {lost} events that came after {}.", length(whole_ns)));
    }
    if is_cut {
        let shown = length(lanes.end_ns);
        note.push_str(&format!(
            " A page holds no more of it: the bundle has {}, of which {shown} are drawn; holdup export --format perfetto \
             writes all.",
            length(whole_ns)
        ));
    }
    Lane {
        title: format!("What each CPU did: {arm}"),
        note,
        table: sums.table(),
        data: data(&lanes, &cpus, timeline),
        id,
    }
}

fn length(ns: u64) -> String {
    text::latency(ns as f64)
}

/// Leaves the begin of a timeline, as much as may be drawn. Whether something is left out.
fn cut(lanes: &mut Lanes<'_>, most: usize) -> bool {
    if lanes.slices.len() + lanes.held.len() <= most {
        return false;
    }
    let mut begins: Vec<u64> =
        lanes.slices.iter().map(|s| s.begin_ns).chain(lanes.held.iter().map(|h| h.begin_ns)).collect();
    begins.sort_unstable();
    let end_ns = begins[most].max(1);
    lanes.slices.retain_mut(|s| {
        s.end_ns = s.end_ns.min(end_ns);
        s.begin_ns < end_ns
    });
    for held in [&mut lanes.held, &mut lanes.off] {
        held.retain_mut(|h| {
            h.end_ns = h.end_ns.min(end_ns);
            h.begin_ns < end_ns
        });
    }
    lanes.end_ns = end_ns;
    true
}

/// The CPUs on which something ran.
fn cpus(lanes: &Lanes<'_>) -> Vec<u32> {
    let mut cpus: Vec<u32> = lanes.slices.iter().map(|s| s.cpu).collect();
    cpus.dedup();
    cpus
}

/// A sum of slices: how many, how long together, the longest.
#[derive(Default, Clone, Copy)]
struct Sum {
    count: u64,
    ns: u64,
    longest_ns: u64,
}

impl Sum {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// What all CPUs together did.
struct Sums<'a> {
    all_ns: u64,
    does: BTreeMap<(Does, Option<&'a str>), Sum>,
    held: BTreeMap<&'a str, Sum>,
    off: BTreeMap<&'a str, Sum>,
}

impl<'a> Sums<'a> {
    fn of(lanes: &Lanes<'a>) -> Self {
        let all_ns = lanes.end_ns.saturating_mul(cpus(lanes).len() as u64);
        let mut sums = Sums { all_ns, does: BTreeMap::new(), held: BTreeMap::new(), off: BTreeMap::new() };
        for Slice { does, lock, begin_ns, end_ns, .. } in &lanes.slices {
            let lock = lock.filter(|_| *does == Does::Spin);
            sums.does.entry((*does, lock)).or_default().add(end_ns - begin_ns);
        }
        for Held { lock, begin_ns, end_ns, .. } in &lanes.held {
            sums.held.entry(lock).or_default().add(end_ns - begin_ns);
        }
        for Held { lock, begin_ns, end_ns, .. } in &lanes.off {
            sums.off.entry(lock).or_default().add(end_ns - begin_ns);
        }
        sums
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.all_ns.max(1) as f64
    }

    fn ns(&self, does: Does) -> u64 {
        self.does.iter().filter(|((d, _), _)| *d == does).map(|(_, sum)| sum.ns).fold(0, u64::saturating_add)
    }

    fn idle_ns(&self) -> u64 {
        self.all_ns.saturating_sub(self.does.values().map(|sum| sum.ns).fold(0, u64::saturating_add))
    }

    fn table(&self) -> Table {
        let others = ["share of CPU time", "time", "stretches", "longest"];
        let mut table = Table::numbers("what CPUs did", others.map(str::to_owned));
        let mut row = |name: String, sum: Sum| {
            let longest = if sum.count == 0 { "–".to_owned() } else { length(sum.longest_ns) };
            let count = if sum.count == 0 { "–".to_owned() } else { text::grouped(&sum.count.to_string()) };
            table.row(vec![name, text::tenths(self.share(sum.ns)), length(sum.ns), count, longest]);
        };
        for ((does, lock), sum) in &self.does {
            let lock = lock.map(|lock| format!(" for {}", clean(lock))).unwrap_or_default();
            row(format!("{}{lock}", words(*does)), *sum);
        }
        row("nothing, or what was not watched".to_owned(), Sum { ns: self.idle_ns(), ..Sum::default() });
        for (lock, sum) in &self.held {
            row(format!("of all this, by a task that held {}", clean(lock)), *sum);
        }
        for (lock, sum) in &self.off {
            let cells = ["–".to_owned(), length(sum.ns), text::grouped(&sum.count.to_string()), length(sum.longest_ns)];
            let name = format!("no CPU: a task that held {} was off it", clean(lock));
            table.row([name].into_iter().chain(cells).collect());
        }
        table
    }
}

fn words(does: Does) -> &'static str {
    match does {
        Does::Runs => "ran a task",
        Does::User => "ran a task's own code",
        Does::Kernel => "in the kernel for a task",
        Does::Fault => "in a page fault",
        Does::Spin => "spun",
        Does::Switch => "changed over to a task",
        Does::Interrupt => "in an interrupt",
    }
}

/// What one sees, in a sentence.
fn note(sums: &Sums<'_>, cpus: &[u32], trial: &Trial, end_ns: u64) -> String {
    let percent = |ns: u64| text::tenths(sums.share(ns));
    let window = match trial.window.as_ref().map(|w| w.length_ns) {
        Some(window_ns) if window_ns > end_ns => {
            format!("the first {} of a window of {}", length(end_ns), length(window_ns))
        }
        _ => length(end_ns),
    };
    let parts = [
        (Does::Runs, "tasks that run"),
        (Does::User, "tasks' own code"),
        (Does::Kernel, "the kernel"),
        (Does::Fault, "page faults"),
        (Does::Spin, "spinning for a lock"),
    ];
    let mut shares: Vec<String> = parts
        .iter()
        .map(|(does, words)| (sums.ns(*does), words))
        .filter(|(ns, _)| *ns > 0)
        .map(|(ns, words)| format!("{} {words}", percent(ns)))
        .collect();
    let overhead_ns = sums.ns(Does::Switch).saturating_add(sums.ns(Does::Interrupt));
    if overhead_ns > 0 {
        shares.push(format!("{} switches and interrupts", percent(overhead_ns)));
    }
    if sums.idle_ns() > 0 {
        shares.push(format!("{} idle or not watched", percent(sums.idle_ns())));
    }
    let held_ns = sums.held.values().map(|sum| sum.ns).fold(0, u64::saturating_add);
    let held = match held_ns {
        0 => String::new(),
        ns => format!(" A lock was held in {} of the CPU time: the bars at the foot of a row.", percent(ns)),
    };
    let shares = shares.join(", ").replacen(" % ", " % is ", 1);
    let off = sums.off.values().fold((0, 0), |(count, longest), sum| (count + sum.count, sum.longest_ns.max(longest)));
    let off = match off {
        (0, _) => String::new(),
        (count, longest_ns) => format!(
            " Holders were off their CPUs {}, for up to {}: the band above the rows.",
            if count == 1 { "once".to_owned() } else { format!("{} times", text::grouped(&count.to_string())) },
            length(longest_ns)
        ),
    };
    format!(
        "Trial {}, {window}; a row for each of {}. Of their time, {shares}.{held}{off}",
        trial.seq,
        text::count(cpus.len(), "CPU")
    )
}

/// Words of a timeline, each once, by their places.
#[derive(Default)]
struct Words {
    places: BTreeMap<String, usize>,
    list: Vec<String>,
}

impl Words {
    /// One more than the place of a word; 0 for none.
    fn place(&mut self, word: Option<&str>) -> usize {
        let Some(word) = word.map(clean) else { return 0 };
        let next = self.list.len();
        let list = &mut self.list;
        1 + *self.places.entry(word).or_insert_with_key(|word| {
            list.push(word.clone());
            next
        })
    }
}

/// For each stretch the time since the end of the one before it, which is negative where they overlap.
fn after(stretches: impl Iterator<Item = (u64, u64)>) -> Vec<i64> {
    let mut before = 0_u64;
    stretches.map(|(begin, end)| begin.wrapping_sub(std::mem::replace(&mut before, end)) as i64).collect()
}

fn columns(held: &[Held<'_>], words: &mut Words) -> Value {
    json!({
        "after": after(held.iter().map(|h| (h.begin_ns, h.end_ns))),
        "length": held.iter().map(|h| h.end_ns - h.begin_ns).collect::<Vec<_>>(),
        "task": held.iter().map(|h| h.task).collect::<Vec<_>>(),
        "lock": held.iter().map(|h| words.place(Some(h.lock))).collect::<Vec<_>>(),
    })
}

/// What the script draws: for each CPU its slices in columns, `after` being the time since the one before it, `what` the
/// place of [`Does`], `lock` and `left` one more than the place of a word; holds the same way.
fn data(lanes: &Lanes<'_>, cpus: &[u32], timeline: &Timeline) -> Value {
    let mut words = Words::default();
    let mut rows = Vec::new();
    for cpu in cpus {
        let of = |all: &[u32]| (all.partition_point(|c| c < cpu), all.partition_point(|c| c <= cpu));
        let (from, to) = of(&lanes.slices.iter().map(|s| s.cpu).collect::<Vec<_>>());
        let slices = &lanes.slices[from..to];
        let (from, to) = of(&lanes.held.iter().map(|h| h.cpu).collect::<Vec<_>>());
        let held = &lanes.held[from..to];
        rows.push(json!({
            "cpu": cpu,
            "slices": {
                "after": after(slices.iter().map(|s| (s.begin_ns, s.end_ns))),
                "length": slices.iter().map(|s| s.end_ns - s.begin_ns).collect::<Vec<_>>(),
                "task": slices.iter().map(|s| s.task).collect::<Vec<_>>(),
                "what": slices.iter().map(|s| s.does as u8).collect::<Vec<_>>(),
                "lock": slices.iter().map(|s| words.place(s.lock)).collect::<Vec<_>>(),
                "left": slices.iter().map(|s| words.place(s.left)).collect::<Vec<_>>(),
            },
            "held": columns(held, &mut words),
        }));
    }
    let off = columns(&lanes.off, &mut words);
    let tasks: Vec<Value> = timeline.tasks.iter().map(|t| json!([clean(&t.name), t.tid])).collect();
    json!({ "end": lanes.end_ns, "tasks": tasks, "words": words.list, "rows": rows, "off": off })
}
