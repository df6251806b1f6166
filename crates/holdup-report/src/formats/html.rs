//! The page: one file, no network, verdicts and tables without a script, charts with one.

use crate::explain;
use crate::packets::kept::{self, OnPage};
use crate::page::account::{self, Time};
use crate::page::distributions::{self, Distributions};
use crate::page::evidence::{self, Evidence};
use crate::page::flames::{self, Flames};
use crate::page::holders::{self, Titled};
use crate::page::policy::policy;
use crate::page::timelines::{self, ReadTrial, Timelines};
use crate::page::{Chart, Table, charts, glance, latency, order, sections};
use crate::series::{self, Layout, Names};
use crate::tables;
use crate::text::{self, clean};
use askama::Template;
use holdup_model::foreign::{json_in_page, lines};
use holdup_model::{Analysis, BundleData, Finding, Problem, Trial};
use serde_json::{Value, json};

/// The bundled script, made from `web/` by `node build.mjs`.
const SCRIPT: &str = include_str!("../../assets/report.js");
const STYLE: &str = include_str!("../../templates/page.css");

struct Note<'a> {
    kind: &'static str,
    finding: &'a Finding,
}

/// Comparisons of one contrast in one workload.
struct Comparisons {
    title: String,
    foot: String,
    table: Table,
}

/// All charts of a workload.
struct Section {
    name: String,
    summary: String,
    series: Vec<usize>,
    charts: Charts,
    glance: Option<Table>,
    evidence: Vec<Evidence>,
    critical: Vec<Titled>,
    matrices: Vec<Titled>,
    distributions: Vec<Distributions>,
    flames: Vec<Flames>,
    timelines: Vec<Timelines>,
}

/// The charts of a workload.
struct Charts {
    curves: Vec<Chart>,
    percentiles: Vec<Chart>,
    shifts: Vec<Chart>,
    order: Option<Chart>,
    cpu: Option<Chart>,
}

impl Charts {
    fn new(bundle: &BundleData, analysis: &Analysis, layout: &Layout<'_>, names: &Names, at: usize) -> Self {
        let (percentiles, shifts) = latency::charts(bundle, analysis, layout, names, at);
        Charts {
            curves: charts::curves(&bundle.plan, layout, names, at),
            percentiles,
            shifts,
            order: order::chart(bundle, layout, names, at),
            cpu: charts::cpu(layout, names, at),
        }
    }

    /// All of them, in the order of the page.
    fn all(&self) -> impl Iterator<Item = &Chart> {
        self.curves.iter().chain(&self.percentiles).chain(&self.shifts).chain(&self.order).chain(&self.cpu)
    }
}

impl Section {
    /// True if there is anything of what collectors saw that is more than a number.
    fn is_rich(&self) -> bool {
        !(self.critical.is_empty()
            && self.matrices.is_empty()
            && self.distributions.is_empty()
            && self.flames.is_empty()
            && self.timelines.is_empty())
    }
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    bundle: &'a BundleData,
    when: String,
    memory: String,
    command: String,
    counts: String,
    caution: Option<String>,
    banners: Vec<String>,
    headlines: Vec<sections::Headline<'a>>,
    effects: Vec<Chart>,
    explained: Vec<explain::Section>,
    time: Time,
    differences: Vec<String>,
    sections: Vec<Section>,
    captures: OnPage,
    /// What stands in the place of the machine where nothing was run.
    imported: Option<String>,
    /// True if trials were run, and not captures imported or a live system recorded.
    is_run: bool,
    /// True if there is something that was or could have been compared.
    has_verdicts: bool,
    /// The windows of a record.
    windows: Option<Table>,
    has_evidence: bool,
    is_rich: bool,
    all_series: Vec<usize>,
    comparisons: Vec<Comparisons>,
    notes: Vec<Note<'a>>,
    design: Vec<(&'static str, String)>,
    voids: Vec<(String, Vec<u32>)>,
    missing: Vec<(String, String)>,
    legend: &'static str,
    data: String,
    policy: String,
    style: &'static str,
    script: &'static str,
}

/// The report as one HTML page that needs no network; without JavaScript it still holds every verdict and table.
pub fn html(bundle: &BundleData, analysis: &Analysis) -> String {
    html_with(bundle, analysis, &|_| Ok(Trial::default())).expect("nothing is read of a bundle in memory")
}

/// As [`html`], of a bundle that was read without the events of its timelines: those that are drawn are read one by one.
///
/// # Errors
/// Any of `read`.
pub fn html_with(bundle: &BundleData, analysis: &Analysis, read: ReadTrial<'_>) -> Result<String, Problem> {
    let is_record = sections::is_record(bundle);
    let names = Names::new(bundle);
    let layouts = series::layouts(bundle, analysis, &names);
    let (flames, flame_data) = flames::all(bundle, &layouts, &names);
    let (timelines, timeline_data) = timelines::all(bundle, &layouts, &names, read)?;
    let parts = layouts.iter().zip(flames.into_iter().zip(timelines)).enumerate();
    let sections: Vec<Section> =
        parts.map(|(i, (layout, events))| section(bundle, analysis, layout, &names, i, events)).collect();
    let effects: Vec<Chart> = charts::effects(analysis).into_iter().collect();
    let time = account::section(analysis.explanation.as_ref());
    let page = Page {
        when: text::moment(bundle.head.created_unix_ns),
        memory: super::terminal::memory(bundle.head.machine.memory_bytes),
        command: text::clean(&text::shell(&bundle.head.command)),
        counts: super::terminal::counts(bundle),
        explained: analysis.explanation.as_ref().map(explain::page).unwrap_or_default(),
        differences: analysis.explanation.iter().flat_map(|e| &e.differences).map(|d| clean(d)).collect(),
        caution: analysis.caution.as_deref().map(clean),
        banners: sections::banners(bundle),
        headlines: sections::headlines(analysis),
        comparisons: tables::groups(analysis).iter().map(comparisons).collect(),
        notes: if is_record { Vec::new() } else { notes(analysis) },
        design: sections::design(bundle),
        voids: sections::voids(bundle),
        missing: sections::missing(bundle, &layouts),
        captures: kept::on_page(bundle),
        is_run: !bundle.head.is_imported() && !is_record,
        has_verdicts: !is_record && (!bundle.head.is_imported() || analysis.findings.iter().any(|f| f.headline)),
        windows: is_record.then(|| order::windows(bundle)),
        imported: bundle.head.is_imported().then(|| clean(&super::terminal::imported(bundle))),
        has_evidence: sections.iter().any(|s| !s.evidence.is_empty()),
        is_rich: sections.iter().any(Section::is_rich),
        all_series: (0..names.0.len()).collect(),
        legend: tables::LEGEND,
        data: json_in_page(&data(&names, (&effects, &time), &sections, (&flame_data, &timeline_data)).to_string()),
        bundle,
        effects,
        time,
        sections,
        policy: policy(Some(SCRIPT)),
        style: STYLE,
        script: SCRIPT,
    };
    Ok(lines(&page.render().expect("writing to a string cannot fail, and the template calls nothing that can")))
}

/// The charts of the page in its order, and the names of its series, each with whether it is a replica of another one.
pub fn charts(bundle: &BundleData, analysis: &Analysis) -> (Vec<Chart>, Vec<(String, bool)>) {
    let names = Names::new(bundle);
    let mut all: Vec<Chart> = charts::effects(analysis).into_iter().collect();
    all.extend(account::section(analysis.explanation.as_ref()).arms.into_iter().filter_map(|arm| arm.chart));
    for (at, layout) in series::layouts(bundle, analysis, &names).iter().enumerate() {
        all.extend(Charts::new(bundle, analysis, layout, &names, at).all().cloned());
    }
    (all, names.0.into_iter().map(|n| (n.text, n.replica)).collect())
}

fn section(
    bundle: &BundleData,
    analysis: &Analysis,
    layout: &Layout<'_>,
    names: &Names,
    at: usize,
    (flames, timelines): (Vec<Flames>, Vec<Timelines>),
) -> Section {
    Section {
        name: clean(&layout.workload.name),
        summary: sections::workload(layout),
        series: layout.series(),
        charts: Charts::new(bundle, analysis, layout, names, at),
        glance: glance::table(layout, names),
        evidence: evidence::tables(layout, names),
        critical: holders::sections(layout, names),
        matrices: holders::matrices(layout, names),
        distributions: distributions::tables(bundle, layout, names),
        flames,
        timelines,
    }
}

/// What the script reads: the series, the data of each chart by its id, the flame graphs and the timelines.
fn data(
    names: &Names,
    (effects, time): (&[Chart], &Time),
    sections: &[Section],
    (flames, timelines): (&Value, &Value),
) -> Value {
    let charts = effects
        .iter()
        .chain(time.arms.iter().flat_map(|arm| &arm.chart))
        .chain(sections.iter().flat_map(|s| s.charts.all()))
        .map(|c| (c.id.clone(), c.data.clone()))
        .collect::<serde_json::Map<String, Value>>();
    let series: Vec<Value> = names.0.iter().map(|n| json!({"name": n.text, "replica": n.replica})).collect();
    json!({ "series": series, "charts": charts, "flames": flames, "timelines": timelines })
}

fn notes(analysis: &Analysis) -> Vec<Note<'_>> {
    let notes = analysis.findings.iter().filter(|f| !f.headline);
    notes.map(|finding| Note { kind: super::markdown::kind(finding.verdict), finding }).collect()
}

fn comparisons(group: &tables::Group<'_>) -> Comparisons {
    let (baseline, level) = tables::sides(group.contrast);
    let floor = group.noise_floor.map_or("not known".to_owned(), |f| format!("±{}", text::percent(f)));
    let head = [
        ("metric", false),
        ("cell", false),
        (baseline.as_str(), true),
        (level.as_str(), true),
        ("ratio (interval)", false),
        ("answer", false),
        ("why undecided", false),
    ];
    let mut table = Table { head: head.map(|(h, n)| (h.to_owned(), n)).into(), rows: Vec::new() };
    for (metric, rows) in &group.metrics {
        for c in rows {
            let why = match &c.verdict {
                holdup_model::Verdict::Undecided { reason, .. } => clean(reason),
                _ => String::new(),
            };
            table.row(vec![
                tables::metric(metric),
                tables::cell(c),
                tables::mean(c.baseline.as_ref()),
                tables::mean(c.level.as_ref()),
                tables::ratio(c),
                format!("{} {}", tables::sign(&c.verdict), tables::word(&c.verdict)),
                why,
            ]);
        }
    }
    Comparisons {
        title: format!("{}: {}", clean(group.workload), tables::contrast(group.contrast)),
        foot: format!("Noise floor {floor}, margin ±{}.", text::percent(group.margin)),
        table,
    }
}
