//! What `holdup tune` tries, and its answer.

use crate::search::change;
use crate::text::{self, clean, wrap};
use holdup_model::Direction;
use holdup_model::tuning::{Answer, Begin, Beliefs, Bound, Confirmed, Entry, Guard, LeftOut, MainEffect, Tested};

const WIDTH: usize = 80;
/// Settings that the first sentence names.
const NAMED: usize = 3;
/// What surely does less than this alone does nothing.
const NOTHING: f64 = 0.02;
/// Shares, and levels of a kind, so that the answer fits a screen. The page has all.
const SHOWN: usize = 5;
const OF_A_KIND: usize = 2;

/// What would be tried, and what not and why.
pub fn tuning_space(begin: &Begin) -> String {
    let points: f64 = begin.tried.iter().map(|t| t.levels.len() as f64).product();
    let levels: usize = begin.tried.iter().map(|t| t.levels.len() - 1).sum();
    let what = format!(
        "{} of {} would be tried at {} beside what is set now ({} combinations).",
        text::count(begin.tried.len(), "setting"),
        clean(&begin.workload),
        text::count(levels, "level"),
        if points < 1e6 { format!("{points:.0}") } else { format!("{points:.0e}") },
    );
    let mut out = wrap(&what, WIDTH, "", "  ");
    let rows: Vec<Vec<String>> = begin
        .tried
        .iter()
        .map(|tried| {
            let labels: Vec<&str> = tried.levels.iter().map(|l| l.label.as_str()).filter(|l| !l.is_empty()).collect();
            let restart = if tried.restarts { "restart" } else { "" };
            vec![clean(&tried.name), clean(&labels.join(", ")), restart.to_owned()]
        })
        .collect();
    out.push_str(&text::align(&rows, &[0, 1, 2], "  "));
    if !begin.left_out.is_empty() {
        out.push_str("\nnot tried\n");
        for LeftOut { name, why } in &begin.left_out {
            out.push_str(&wrap(&format!("{}: {}", clean(name), clean(why)), WIDTH, "  ", "    "));
        }
    }
    let guards: Vec<String> = begin.guards.iter().map(bound).collect();
    if !guards.is_empty() {
        out.push_str(&wrap(&format!("guards: {}", guards.join(", ")), WIDTH, "\n", "  "));
    }
    out
}

fn bound(guard: &Guard) -> String {
    let metric = clean(&guard.metric);
    match (guard.bound, guard.better) {
        (Bound::Share(share), _) => format!("{metric} at most {} worse", percent(share)),
        (Bound::Value(value), Direction::Lower) => format!("{metric} at most {}", text::number(value)),
        (Bound::Value(value), Direction::Higher) => format!("{metric} at least {}", text::number(value)),
    }
}

/// `NAME=LEVEL`.
pub(crate) fn setting(begin: &Begin, tried: usize, level: u8) -> String {
    let of = &begin.tried[tried];
    let label = of.levels.get(usize::from(level)).map_or("", |l| l.label.as_str());
    clean(&format!("{}={label}", of.name))
}

fn settings(begin: &Begin, levels: &[u8]) -> Vec<String> {
    let chosen = levels.iter().enumerate().filter(|(_, level)| **level > 0);
    chosen.map(|(at, level)| setting(begin, at, *level)).collect()
}

/// The answer of a search of settings: its first line can be pasted into a report.
pub fn tuning_answer(begin: &Begin, answer: &Answer) -> String {
    let mut out = wrap(&first(begin, answer), WIDTH, "", "  ");
    if let Some(place) = place(begin) {
        line(&mut out, &place);
    }
    if let Some(confirmed) = &answer.confirmed {
        for said in of_confirmed(begin, confirmed) {
            line(&mut out, &said);
        }
        if answer.levels.iter().filter(|level| **level > 0).count() > NAMED || answer.shares.len() > 1 {
            line(&mut out, "what each adds to the others:");
            out.push_str(&shares(begin, answer));
        }
        let beside: Vec<String> = answer.beside.iter().map(named_ratio).collect();
        if !beside.is_empty() {
            line(&mut out, &format!("beside it: {}", beside.join(", ")));
        }
    }
    for (words, effects) in alone(begin, answer) {
        let names: Vec<String> = effects.iter().take(OF_A_KIND).map(|e| words.of(begin, e)).collect();
        let more = effects.len().saturating_sub(OF_A_KIND);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        line(&mut out, &format!("{}: {}{more}", words.title(), names.join(", ")));
    }
    let mut took = format!(
        "the search took {} of {}",
        text::count(answer.beliefs.trials as usize, "trial"),
        text::count(answer.beliefs.points, "combination")
    );
    if let Some(bundle) = &answer.bundle {
        took.push_str(&format!("; fresh blocks: {}", clean(bundle)));
    }
    line(&mut out, &took);
    if let (Some(profile), true) = (&answer.profile, answer.is_confirmed(begin)) {
        // Settings of a server, and of its processes, need to know which one.
        let to = if begin.workload_has_server { " --pg URL" } else { "" };
        line(&mut out, &format!("holdup apply {}{to}   (undo: holdup restore)", clean(profile)));
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(&wrap(text, WIDTH, "  ", "    "));
}

/// What each setting of the winner adds, as far as it was kept or left out.
fn shares(begin: &Begin, answer: &Answer) -> String {
    let rows = answer.shares.iter().take(SHOWN).map(|(at, level, ratio)| {
        let kept = if answer.levels[*at] == *level { "" } else { "left out" };
        let ratio = ratio.as_ref().map_or_else(|| "not known".to_owned(), text::ratio);
        vec![setting(begin, *at, *level), ratio, kept.to_owned()]
    });
    let more = answer.shares.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("    and {more} more\n") } else { String::new() };
    text::align(&rows.collect::<Vec<_>>(), &[0, 1, 2], "    ") + &more
}

/// The profile with what speaks for it, as a file that `holdup apply` takes.
pub fn tuning_profile(begin: &Begin, answer: &Answer, conditions: &[String], profile: &str) -> String {
    let mut comments = vec![first(begin, answer)];
    comments.extend(place(begin));
    comments.extend(answer.confirmed.iter().flat_map(|confirmed| of_confirmed(begin, confirmed)));
    comments.push(String::new());
    comments.extend(conditions.iter().map(|condition| format!("holds for {}", clean(condition))));
    comments.extend(answer.bundle.iter().map(|bundle| format!("fresh blocks: {}", clean(bundle))));
    comments.push("undo: holdup restore".to_owned());
    let commented: String = comments
        .iter()
        .flat_map(|c| wrap(c, WIDTH - 2, "", "  ").lines().map(str::to_owned).collect::<Vec<_>>())
        .map(|l| format!("# {l}").trim_end().to_owned() + "\n")
        .collect();
    format!("{commented}\n{profile}")
}

/// What must be said of the place: a simulated machine is none.
fn place(begin: &Begin) -> Option<String> {
    let (searched, target) = (clean(&begin.searched_on), clean(&begin.target));
    match (target.starts_with("sim"), searched == target) {
        (true, _) => Some(format!("simulated ({target}): nothing was measured on hardware")),
        (false, false) => Some(format!("searched on {searched}, measured on {target}")),
        (false, true) => None,
    }
}

fn first(begin: &Begin, answer: &Answer) -> String {
    let (metric, workload) = (clean(&begin.metric), clean(&begin.workload));
    let Some(confirmed) = &answer.confirmed else {
        let tried = match begin.tried.len() {
            1 => "The setting that was tried does not improve".to_owned(),
            n => format!("None of {n} settings improves"),
        };
        let guards = if begin.guards.is_empty() { "" } else { " within the guards" };
        return format!("{tried} {metric} of {workload} by {} or more{guards}.", percent(begin.least));
    };
    let names = settings(begin, &answer.levels);
    let names = if names.len() > NAMED { text::count(names.len(), "setting") } else { names.join(", ") };
    let many = answer.levels.iter().filter(|level| **level > 0).count() > 1;
    match &confirmed.ratio {
        Some(ratio) if answer.is_confirmed(begin) => {
            let (up, down) = if many { ("raise", "lower") } else { ("raises", "lowers") };
            let way = if ratio.value > 1.0 { up } else { down };
            format!("{names} {way} {metric} of {workload} by {}.", change(ratio))
        }
        Some(ratio) => {
            let broken: Vec<String> = confirmed.broken(begin).iter().map(|guard| clean(&guard.metric)).collect();
            let why = match broken.is_empty() {
                true => "fresh blocks do not separate it from what is set now".to_owned(),
                false => format!("it breaks the guard of {}", broken.join(", ")),
            };
            format!("Not confirmed: the search ended at {names}, and {why} ({metric}: ratio {}).", text::ratio(ratio))
        }
        None => format!("Not confirmed: {names} could not be compared with what is set now."),
    }
}

/// A share that somebody wrote: `5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

fn of_confirmed(begin: &Begin, confirmed: &Confirmed) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(ratio) = &confirmed.ratio {
        lines.push(format!("in {} fresh, interleaved blocks: ratio {}", ratio.n, text::ratio(ratio)));
    }
    if let Some(caution) = &confirmed.caution {
        lines.push(format!("caution: {}", clean(caution)));
    }
    for (guard, (ratio, _)) in begin.guards.iter().zip(&confirmed.guards) {
        let ratio = ratio.as_ref().map_or_else(|| "not known".to_owned(), text::ratio);
        lines.push(format!("guard {}: ratio {ratio}", bound(guard)));
    }
    lines
}

fn named_ratio(confirmed: &Confirmed) -> String {
    let ratio = confirmed.ratio.as_ref().map_or_else(|| "not known".to_owned(), text::ratio);
    format!("{} {ratio}", clean(&confirmed.name))
}

/// What single levels do.
#[derive(Clone, Copy, PartialEq)]
enum Alone {
    Better,
    Worse,
    Fails,
    Nothing,
    Unknown,
}

impl Alone {
    fn title(self) -> &'static str {
        match self {
            Alone::Better => "better alone, not in the profile",
            Alone::Worse => "worse alone",
            Alone::Fails => "fails",
            Alone::Nothing => "does nothing alone, within ±2 %",
            Alone::Unknown => "not decided alone",
        }
    }

    fn of(self, begin: &Begin, effect: &MainEffect) -> String {
        let name = setting(begin, effect.tried, effect.level);
        match (self, effect.ratio) {
            (Alone::Better | Alone::Worse, Some((ratio, _))) => format!("{name} ×{ratio:.2}"),
            _ => name,
        }
    }
}

/// Levels that are not in the profile, by what they do alone.
fn alone<'a>(begin: &Begin, answer: &'a Answer) -> Vec<(Alone, Vec<&'a MainEffect>)> {
    let of = |effect: &MainEffect| {
        let Some((ratio, se)) = effect.ratio else {
            return if effect.trials > 0 { Alone::Unknown } else { Alone::Fails };
        };
        let gain = if begin.better == Direction::Higher { ratio.ln() } else { -ratio.ln() };
        match () {
            () if gain.abs() + 2.0 * se < NOTHING.ln_1p() => Alone::Nothing,
            () if gain - 2.0 * se > 0.0 => Alone::Better,
            () if gain + 2.0 * se < 0.0 => Alone::Worse,
            () => Alone::Unknown,
        }
    };
    let left: Vec<&MainEffect> = answer.beliefs.effects.iter().filter(|e| answer.levels[e.tried] != e.level).collect();
    [Alone::Fails, Alone::Worse, Alone::Better, Alone::Nothing]
        .into_iter()
        .map(|words| (words, left.iter().copied().filter(|e| of(e) == words).collect::<Vec<_>>()))
        .filter(|(_, effects)| !effects.is_empty())
        .collect()
}

/// The sentence for a search that has no answer yet.
pub(crate) fn under_way(begin: &Begin, beliefs: &Beliefs) -> String {
    let best = settings(begin, &beliefs.best);
    let best =
        if best.is_empty() { "nothing better so far".to_owned() } else { format!("best so far: {}", best.join(", ")) };
    format!(
        "Under way: {} of {} after {}; {best}.",
        clean(&begin.metric),
        clean(&begin.workload),
        text::count(beliefs.trials as usize, "trial")
    )
}

/// The answer that a log ends with.
pub(crate) fn answer_of(entries: &[Entry]) -> Option<&str> {
    entries.iter().rev().find_map(|entry| match entry {
        Entry::Answer { sentence, .. } => Some(sentence.as_str()),
        _ => None,
    })
}

/// What a search has measured, with the answer or what it believes so far.
pub fn tuning_log(begin: &Begin, entries: &[Entry], beliefs: &Beliefs) -> String {
    let mut out = match answer_of(entries) {
        Some(answer) => format!("{}\n", answer.lines().map(clean).collect::<Vec<_>>().join("\n")),
        None => wrap(&under_way(begin, beliefs), WIDTH, "", "  "),
    };
    let rows: Vec<Vec<String>> = beliefs.tested.iter().take(SHOWN).map(|tested| tested_row(begin, tested)).collect();
    if !rows.is_empty() {
        out.push_str("\nmeasured most often, the best first (the search's own ratios lean upwards)\n");
        let lines = text::align(&rows, &[2], "  ");
        out.extend(lines.lines().map(|line| line.chars().take(WIDTH).collect::<String>() + "\n"));
    }
    out
}

/// `12 blocks  ×1.08 ± 2.0 %  postgres.jit=off, …`
pub(crate) fn tested_row(begin: &Begin, tested: &Tested) -> Vec<String> {
    let (ratio, se) = tested.ratio;
    let why_not = if tested.is_eligible { "" } else { " (breaks a guard or fails)" };
    vec![
        text::count(tested.blocks as usize, "block"),
        format!("×{ratio:.3} ± {:.1} %", 200.0 * se),
        settings(begin, &tested.levels).join(", ") + why_not,
    ]
}
