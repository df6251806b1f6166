//! The page: one file, no network, verdicts and tables without a script, charts with one.

use crate::evidence;
use crate::tables;
use crate::text;
use askama::Template;
use holdup_model::outcome::{ArmSummary, FindingVerdict};
use holdup_model::{Analysis, Availability, BundleData, Finding, TrialStatus};

/// The bundled script, made from `web/` by `node build.mjs`.
const SCRIPT: &str = include_str!("../assets/report.js");

struct Note<'a> {
    kind: &'static str,
    finding: &'a Finding,
}

/// A finding at the top, with its answer in a word.
struct Headline<'a> {
    answer: &'static str,
    class: &'static str,
    finding: &'a Finding,
}

fn headline(finding: &Finding) -> Headline<'_> {
    let (answer, class) = match finding.verdict {
        FindingVerdict::Supported => ("different", "different"),
        FindingVerdict::Refuted => ("no difference", "equivalent"),
        FindingVerdict::Undecided => ("undecided", "undecided"),
        FindingVerdict::Skipped => ("not measured", "undecided"),
    };
    Headline { answer, class, finding }
}

struct Table {
    title: String,
    baseline: String,
    level: String,
    foot: String,
    rows: Vec<[String; 7]>,
}

struct ArmRows {
    label: String,
    counts: String,
    metrics: Vec<[String; 3]>,
    quantiles: Vec<[String; 3]>,
    evidence: Vec<[String; 4]>,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    bundle: &'a BundleData,
    when: String,
    memory: String,
    command: String,
    headlines: Vec<Headline<'a>>,
    evidence: Vec<evidence::Table>,
    notes: Vec<Note<'a>>,
    tables: Vec<Table>,
    arms: Vec<ArmRows>,
    order: Vec<[String; 6]>,
    voids: Vec<(u32, &'a str)>,
    missing: Vec<(String, String)>,
    legend: &'static str,
    data: String,
    script: &'static str,
}

/// The report as one HTML page that needs no network; without JavaScript it still holds every verdict and table.
pub fn html(bundle: &BundleData, analysis: &Analysis) -> String {
    // `<` is escaped so that no text of a bundle can end the element that the data stand in.
    let data = crate::data::report(bundle, analysis).to_string().replace('<', "\\u003c");
    let page = Page {
        bundle,
        when: text::moment(bundle.head.created_unix_ns),
        memory: crate::terminal::memory(bundle.head.machine.memory_bytes),
        command: text::clean(&text::shell(&bundle.head.command)),
        headlines: analysis.findings.iter().filter(|f| f.headline).map(headline).collect(),
        evidence: evidence::tables(bundle, analysis),
        notes: notes(analysis),
        tables: tables::groups(analysis).iter().map(table).collect(),
        arms: analysis.arms.iter().map(|s| arm(bundle, s)).collect(),
        order: order(bundle),
        voids: bundle
            .trials
            .iter()
            .filter_map(|t| match &t.status {
                TrialStatus::Void { reason } => Some((t.seq, reason.as_str())),
                TrialStatus::Done => None,
            })
            .collect(),
        missing: missing(bundle),
        legend: tables::LEGEND,
        data,
        script: SCRIPT,
    };
    page.render().expect("writing to a string cannot fail, and the template calls nothing that can")
}

fn notes(analysis: &Analysis) -> Vec<Note<'_>> {
    let notes = analysis.findings.iter().filter(|f| !f.headline);
    notes.map(|finding| Note { kind: crate::markdown::kind(finding.verdict), finding }).collect()
}

fn table(group: &tables::Group<'_>) -> Table {
    let (baseline, level) = tables::sides(group.contrast);
    let floor = group.noise_floor.map_or("not known".to_owned(), |f| format!("±{}", text::percent(f)));
    let rows = group.metrics.iter().flat_map(|(metric, rows)| {
        rows.iter().map(move |c| {
            let why = match &c.verdict {
                holdup_model::Verdict::Undecided { reason, .. } => reason.clone(),
                _ => String::new(),
            };
            [
                tables::metric(metric),
                tables::cell(c),
                tables::mean(c.baseline.as_ref()),
                tables::mean(c.level.as_ref()),
                tables::ratio(c),
                format!("{} {}", tables::sign(&c.verdict), tables::word(&c.verdict)),
                why,
            ]
        })
    });
    Table {
        title: format!("{}: {}", group.workload, tables::contrast(group.contrast)),
        baseline,
        level,
        foot: format!("Noise floor {floor}, margin ±{}.", text::percent(group.margin)),
        rows: rows.collect(),
    }
}

fn arm(bundle: &BundleData, s: &ArmSummary) -> ArmRows {
    let arm = bundle.schedule.arms.iter().find(|a| a.id == s.arm);
    let metrics = s.metrics.iter().map(|m| {
        let workload = arm.map_or("", |a| a.workload.as_str());
        let known = bundle.metrics.iter().find(|(w, k)| w == workload && k.id == m.metric);
        let name = known.map_or_else(|| m.metric.clone(), |(_, k)| tables::metric(k));
        let value = m.value.map_or_else(|| "–".to_owned(), text::number);
        let interval = match (&m.mean, &m.absent) {
            (Some(e), _) => format!("{} to {}", text::number(e.low), text::number(e.high)),
            (None, Some(why)) => why.clone(),
            (None, None) => "no interval".to_owned(),
        };
        [name, value, interval]
    });
    let quantiles = s.quantiles.iter().flat_map(|(name, values)| {
        values.iter().map(move |q| {
            let thin = if q.thin { " (thin: fewer than 10 samples beyond)" } else { "" };
            [name.clone(), format!("p{}", q.quantile * 100.0), format!("{}{thin}", text::latency(q.value_ns))]
        })
    });
    let evidence = s.evidence.iter().map(|e| {
        let name = e.label.as_ref().map_or_else(|| e.name.clone(), |l| format!("{} {l}", e.name));
        let value = match (e.mean, &e.absent) {
            (Some(v), _) => text::number(v),
            (None, Some(why)) => format!("– ({why})"),
            (None, None) => "–".to_owned(),
        };
        [e.collector.clone(), name, value, e.unit.clone()]
    });
    ArmRows {
        label: arm.map_or_else(|| format!("arm {}", s.arm), |a| a.label.clone()),
        counts: format!("{} that count, {} void", text::count(s.trials_done as usize, "trial"), s.trials_void),
        metrics: metrics.collect(),
        quantiles: quantiles.collect(),
        evidence: evidence.collect(),
    }
}

fn order(bundle: &BundleData) -> Vec<[String; 6]> {
    let row = |t: &holdup_model::Trial| {
        let arm = bundle.schedule.arms.iter().find(|a| a.id == t.arm);
        let primary = arm.and_then(|a| {
            bundle.metrics.iter().find(|(w, m)| {
                *w == a.workload && bundle.plan.metric_choice(w, &m.id).is_some_and(|choice| choice.primary)
            })
        });
        let value = primary.and_then(|(_, m)| t.metric(&m.id).map(|v| format!("{} {}", text::number(v), m.unit)));
        [
            t.seq.to_string(),
            t.session.to_string(),
            t.block.to_string(),
            arm.map_or_else(|| format!("arm {}", t.arm), |a| a.label.clone()),
            if t.is_done() { "counts".to_owned() } else { "void".to_owned() },
            value.unwrap_or_else(|| "–".to_owned()),
        ]
    };
    bundle.trials.iter().map(row).collect()
}

/// Collectors and facts that could not be had, with the reason.
fn missing(bundle: &BundleData) -> Vec<(String, String)> {
    let collectors = bundle.collectors.iter().filter_map(|c| match &c.availability {
        Availability::Ready => None,
        Availability::Degraded { reason } => Some((format!("collector {} (in part)", c.id), reason.clone())),
        Availability::Unavailable { reason, .. } => Some((format!("collector {}", c.id), reason.clone())),
    });
    let facts = bundle.environment.iter().flat_map(|(_, facts)| facts).filter(|f| f.value.is_none());
    let facts = facts
        .map(|f| (format!("fact {}", f.key), f.absent.clone().unwrap_or_else(|| "no reason was recorded".to_owned())));
    let mut all: Vec<(String, String)> = collectors.chain(facts).collect();
    all.dedup();
    all
}
