//! Flame graphs: for each arm and profile what the script draws, and the heaviest functions as a table.

use super::Table;
use crate::merge;
use crate::series::{Layout, Names};
use crate::text::{self, clean};
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::{BundleData, StackProfile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The most stacks of one graph; more than a screen can show.
const MOST_STACKS: usize = 2_000;

/// The most stacks of all graphs of a page together, which keeps a page of many arms to some megabytes. No graph gets
/// fewer than a tenth of [`MOST_STACKS`].
const MOST_ON_PAGE: usize = 12_000;

/// How many functions the table of a graph names.
const TOP_FUNCTIONS: usize = 20;

/// The flame graph of one profile of one arm.
pub(crate) struct Flame {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the graph stands for and what is not in it.
    pub(crate) note: String,
    /// The heaviest functions.
    pub(crate) table: Table,
    data: Value,
}

/// The graphs of one cell of a workload.
pub(crate) struct Flames {
    pub(crate) cell: String,
    pub(crate) graphs: Vec<Flame>,
}

/// Functions of all graphs of the page, each once: name, module, kind.
#[derive(Default)]
struct Functions {
    places: BTreeMap<(String, String, &'static str), usize>,
    list: Vec<Value>,
}

impl Functions {
    fn place(&mut self, name: &str, module: &str, kind: &'static str) -> usize {
        let next = self.list.len();
        let list = &mut self.list;
        *self.places.entry((clean(name), clean(module), kind)).or_insert_with_key(|(name, module, kind)| {
            list.push(json!([name, module, kind]));
            next
        })
    }

    fn frame(&mut self, frame: &Frame) -> usize {
        self.place(&frame.function, frame.module.as_deref().unwrap_or_default(), kind(frame.kind))
    }
}

/// Where code runs, in the word that tables and the script use.
fn kind(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::User => "user",
        FrameKind::Inlined => "inlined",
        FrameKind::Kernel => "kernel",
    }
}

/// A profile of an arm with its place: workload, cell, the arm's name.
type Found = (usize, (usize, Option<usize>), String, StackProfile);

/// The graphs of each workload, and what the script reads of them.
pub(crate) fn all(bundle: &BundleData, layouts: &[Layout<'_>], names: &Names) -> (Vec<Vec<Flames>>, Value) {
    let mut found: Vec<Found> = Vec::new();
    for (at, layout) in layouts.iter().enumerate() {
        for cell in layout.cells() {
            for placed in layout.at(cell) {
                let trials = bundle.trials.iter().filter(|t| t.is_done() && t.arm == placed.arm.id);
                let profiles = merge::profiles(trials).into_iter().filter(|p| p.stacks.iter().any(|s| s.weight > 0));
                found.extend(profiles.map(|p| (at, cell, names.0[placed.series].text.clone(), p)));
            }
        }
    }
    let most = (MOST_ON_PAGE / found.len().max(1)).clamp(MOST_STACKS / 10, MOST_STACKS);
    let mut functions = Functions::default();
    let mut flames: Vec<Vec<Flames>> = layouts.iter().map(|_| Vec::new()).collect();
    // Profiles of one name stand together, arm beside arm.
    found.sort_by(|a, b| (a.0, a.1, rank(&a.3.name), &a.3.name).cmp(&(b.0, b.1, rank(&b.3.name), &b.3.name)));
    let mut graphs = serde_json::Map::new();
    for (i, (at, cell, arm, profile)) in found.into_iter().enumerate() {
        let flame = flame(format!("flame-{i}"), &arm, &profile, most, &mut functions);
        graphs.insert(flame.id.clone(), flame.data.clone());
        let cell = layouts[at].cell_name(cell);
        match flames[at].last_mut().filter(|f| f.cell == cell) {
            Some(group) => group.graphs.push(flame),
            None => flames[at].push(Flames { cell, graphs: vec![flame] }),
        }
    }
    (flames, json!({ "functions": functions.list, "graphs": graphs }))
}

fn flame(id: String, arm: &str, profile: &StackProfile, most: usize, functions: &mut Functions) -> Flame {
    let total: u64 = profile.stacks.iter().map(|s| s.weight).sum();
    let shown = profile.stacks.len().min(most);
    let rest: u64 = profile.stacks[shown..].iter().map(|s| s.weight).sum();
    let share = |weight: u64| text::percent(weight as f64 / total as f64);
    let mut note = format!("{} in {}", amount(total, &profile.unit), text::count(profile.stacks.len(), "stack"));
    if profile.period_ns > 0 {
        note.push_str(&format!(", each sample {}", text::latency(profile.period_ns as f64)));
    }
    if rest > 0 {
        note.push_str(&format!("; the {shown} heaviest stacks are drawn, the others ({}) are [other]", share(rest)));
    }
    if profile.truncated > 0 {
        let lost = share(profile.truncated);
        note.push_str(&format!("; {lost} could not be followed to the outermost function"));
    }
    let data = graph(profile, shown, rest, functions);
    Flame {
        title: format!("{}: {arm}", heading(&profile.name)),
        note: format!("{note}."),
        table: top(profile, total),
        id,
        data,
    }
}

/// The order in which profiles are read.
fn rank(name: &str) -> usize {
    ["on_cpu", "off_cpu", "waker"].iter().position(|n| *n == name).unwrap_or(usize::MAX)
}

/// What a profile shows, in words.
fn heading(name: &str) -> String {
    match name {
        "on_cpu" => "Where CPU time went".to_owned(),
        "off_cpu" => "Where tasks waited off the CPU".to_owned(),
        "waker" => "Who woke them, by the time waited".to_owned(),
        other => text::capital(&clean(&other.replace('_', " "))),
    }
}

fn amount(weight: u64, unit: &str) -> String {
    match unit {
        "ns" => text::latency(weight as f64),
        _ => format!("{} {}", text::grouped(&weight.to_string()), clean(unit)),
    }
}

/// The tree that the script draws, in columns: a call's `parent` is one more than its place, 0 for the outermost;
/// `own` is the weight of the stacks that end there. The outermost calls are tasks.
fn graph(profile: &StackProfile, shown: usize, rest: u64, functions: &mut Functions) -> Value {
    let places: Vec<usize> = profile.frames.iter().map(|f| functions.frame(f)).collect();
    let mut nodes: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let (mut parent, mut function, mut own) = (Vec::new(), Vec::new(), Vec::<u64>::new());
    let mut node = |at: usize, called: usize, own: &mut Vec<u64>| {
        *nodes.entry((at, called)).or_insert_with(|| {
            parent.push(at);
            function.push(called);
            own.push(0);
            own.len()
        })
    };
    for stack in &profile.stacks[..shown] {
        let mut at = node(0, functions.place(&stack.task, stack.role.as_deref().unwrap_or_default(), "task"), &mut own);
        for called in stack.frames.iter().filter_map(|f| places.get(*f as usize)) {
            at = node(at, *called, &mut own);
        }
        own[at - 1] = own[at - 1].saturating_add(stack.weight);
    }
    if rest > 0 {
        let at = node(0, functions.place("[other]", "", "other"), &mut own);
        own[at - 1] = rest;
    }
    json!({ "unit": clean(&profile.unit), "parent": parent, "function": function, "own": own })
}

/// The functions with most weight of their own.
fn top(profile: &StackProfile, total: u64) -> Table {
    let mut weights: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let add = |weights: &mut BTreeMap<usize, (u64, u64)>, s: &Stack| {
        if let Some(innermost) = s.frames.last() {
            weights.entry(*innermost as usize).or_default().0 += s.weight;
        }
        // A function that calls itself counts once.
        for f in s.frames.iter().collect::<BTreeSet<_>>() {
            weights.entry(*f as usize).or_default().1 += s.weight;
        }
    };
    profile.stacks.iter().for_each(|s| add(&mut weights, s));
    let mut ranked: Vec<(usize, (u64, u64))> = weights.into_iter().collect();
    ranked.sort_by_key(|(_, w)| std::cmp::Reverse(*w));
    let head = [
        ("function", false),
        ("of", false),
        ("runs as", false),
        ("own share", true),
        ("with callees", true),
        (profile.unit.as_str(), true),
    ];
    let mut table = Table { head: head.map(|(h, n)| (clean(h), n)).into(), rows: Vec::new() };
    for (frame, (own, with_callees)) in ranked.into_iter().take(TOP_FUNCTIONS) {
        let Some(frame) = profile.frames.get(frame) else { continue };
        let percent = |w: u64| format!("{:.1} %", w as f64 / total as f64 * 100.0);
        table.row(vec![
            clean(&frame.function),
            frame.module.as_deref().map_or_else(|| "–".to_owned(), clean),
            kind(frame.kind).to_owned(),
            percent(own),
            percent(with_callees),
            if profile.unit == "ns" { text::latency(own as f64) } else { text::grouped(&own.to_string()) },
        ]);
    }
    table
}
