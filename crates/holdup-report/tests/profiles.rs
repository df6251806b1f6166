//! Profiles for people, as JSON, and in the words of other tools.

use holdup_model::Profile;
use holdup_model::plan::Level;
use holdup_model::profile::{Destination, ProfileLine, ProfileState, Setting};
use holdup_report::profile::{FORMATS, export, json, terminal, touches};

fn setting(knob: &str, label: &str, optional: bool) -> Setting {
    Setting { knob: knob.to_owned(), level: Level::plain(label), optional }
}

fn file(path: &str, value: &str) -> Vec<Destination> {
    vec![Destination::File { path: path.to_owned(), value: value.to_owned() }]
}

fn sysctl(key: &str, value: &str) -> Vec<Destination> {
    vec![Destination::Sysctl { key: key.to_owned(), value: value.to_owned() }]
}

/// A profile with every kind of destination.
fn everything() -> (Profile, Vec<Vec<Destination>>) {
    let line = |directive: &str, value: &str| Destination::Service {
        directive: directive.to_owned(),
        value: value.to_owned(),
    };
    let all = vec![
        (setting("huge-pages-reserved", "600", false), sysctl("vm.nr_hugepages", "600")),
        (setting("autogroup", "off", true), sysctl("kernel.sched_autogroup_enabled", "0")),
        (setting("migration-cost", "5ms", false), file("/sys/kernel/debug/sched/migration_cost_ns", "5000000")),
        (setting("sched-feature.HRTICK", "off", true), file("/sys/kernel/debug/sched/features", "NO_HRTICK")),
        (setting("base-slice", "3ms", false), file("/sys/kernel/debug/sched/base_slice_ns", "3000000")),
        (
            setting("transparent-huge-pages", "madvise", false),
            file("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ),
        (
            setting("cpu-governor", "performance", false),
            file("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "performance"),
        ),
        (setting("cpu-dma-latency", "10us", false), vec![Destination::WakeLatency { us: 10 }]),
        (setting("sched-policy", "batch", false), vec![line("CPUSchedulingPolicy", "batch"), line("Nice", "0")]),
        (
            setting("postgres.search_path", "\"$user\", 'b\\'", false),
            vec![Destination::Postgres { name: "search_path".to_owned(), value: "\"$user\", 'b\\'".to_owned() }],
        ),
        (setting("placeless", "1", false), Vec::new()),
    ];
    let (settings, destinations) = all.into_iter().unzip();
    let summary = "What the scheduler should do: 100% for PostgreSQL".to_owned();
    (Profile { name: "postgres-2026".to_owned(), summary, settings }, destinations)
}

#[test]
fn each_format_says_all_of_a_profile() {
    let (profile, destinations) = everything();
    for format in FORMATS {
        let text = export(format, &profile, &destinations).expect("a format");
        for setting in &profile.settings {
            let is_set = match setting.knob.as_str() {
                "huge-pages-reserved" => text.contains("600"),
                "base-slice" => text.contains("3000000"),
                "cpu-governor" => text.contains("performance"),
                _ => true,
            };
            assert!(is_set, "{format}: {}\n{text}", setting.knob);
        }
        insta::assert_snapshot!(*format, text);
    }
    assert_eq!(export("nix", &profile, &destinations), None);
}

/// For every profile, each line of an export is a comment or one that holdup wrote.
#[test]
fn a_hostile_profile_stays_in_its_lines() {
    let evil = "x\nExecStart=/bin/evil\u{2028}[sysctl]\u{85}kernel.evil=1 ${f:exec:evil} $(evil) `evil` ' \" \\";
    let profile = Profile {
        name: "p".to_owned(),
        summary: evil.to_owned(),
        settings: (0..6).map(|i| setting(&format!("k{i}{evil}"), evil, false)).collect(),
    };
    let text = evil.to_owned();
    let destinations = vec![
        vec![Destination::Sysctl { key: text.clone(), value: text.clone() }],
        vec![Destination::File { path: format!("/{text}"), value: "1".to_owned() }],
        vec![Destination::File { path: "/sys/x".to_owned(), value: text.clone() }],
        vec![Destination::Service { directive: text.clone(), value: text.clone() }],
        vec![Destination::Postgres { name: text.clone(), value: text.clone() }],
        Vec::new(),
    ];
    for format in FORMATS {
        let out = export(format, &profile, &destinations).expect("a format");
        assert!(!out.contains('\u{2028}') && !out.contains('\u{85}'), "{out}");
        let lines: Vec<&str> = out.lines().filter(|l| l.contains("evil") && !l.starts_with('#')).collect();
        let is_summary = |l: &&str| l.starts_with("Description=") || l.starts_with("summary=");
        assert!(lines.iter().all(is_summary) && lines.len() <= 1, "{format}: {lines:#?}");
        assert!(*format != "tuned" || !lines[0].contains('$'), "it begins functions of TuneD: {lines:?}");
    }
}

#[test]
fn what_came_of_a_profile_reads_well() {
    let (profile, _) = everything();
    let line = |knob: &str, wanted: &str, found: Option<&str>, state, reason: Option<&str>| ProfileLine {
        knob: knob.to_owned(),
        wanted: wanted.to_owned(),
        found: found.map(str::to_owned),
        state,
        reason: reason.map(str::to_owned),
        remedy: reason.map(|_| "run holdup as root".to_owned()),
        touches: format!("the sysctl of {knob}"),
    };
    let lines = [
        line("huge-pages-reserved", "600", Some("600"), ProfileState::InForce, None),
        line("autogroup", "off", Some("on"), ProfileState::Applied, Some("it reaches no process")),
        line("migration-cost", "5ms", Some("500us"), ProfileState::WouldChange, None),
        line("sched-policy", "batch", Some("other"), ProfileState::Differs, None),
        line("base-slice", "3ms", None, ProfileState::LeftOut, Some("debugfs is not mounted")),
        line("cpu-governor", "performance", None, ProfileState::Unavailable, Some("permission denied")),
    ];
    insta::assert_snapshot!("result", format!("{}{}", terminal(&profile, &lines), touches(&lines)));
    insta::assert_snapshot!("result_as_json", json(&profile, &lines));
    assert!(json(&profile, &lines[..2]).contains("\"in_force\": true"));
    assert!(touches(&lines[..1]).contains("Nothing would be changed"));
}
