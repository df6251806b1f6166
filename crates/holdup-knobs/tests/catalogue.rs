//! Every knob file is listed, says what it is, and asks without writing.

use crate::support;
use holdup_knobs::sample::Surface;
use holdup_knobs::{KnobContext, find, knobs};
use holdup_model::Availability;
use std::collections::BTreeSet;
use support::World;

fn every_catalogue_file_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/knobs");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "mod.rs")
        .map(|name| name.strip_suffix(".rs").unwrap().replace('_', "-"))
        .collect();
    let listed: BTreeSet<String> = knobs::ALL.iter().map(|k| k.meta().id.to_owned()).collect();
    assert_eq!((files, knobs::ALL.len()), (listed.clone(), listed.len()));
}

fn every_knob_says_what_it_is() {
    for knob in knobs::ALL {
        let meta = knob.meta();
        assert!(meta.summary.chars().count() <= 72 && !meta.summary.ends_with('.'), "{}", meta.summary);
        assert!(meta.docs.len() > 200 && !meta.references.is_empty(), "{}", meta.id);
        assert!(!knob.touches("x").is_empty());
        let factor = knob.prefix().map_or_else(|| meta.id.to_owned(), |prefix| format!("{prefix}x"));
        let (found, instance) = find(&factor).unwrap();
        assert_eq!((found.meta().id, instance), (meta.id, if knob.prefix().is_some() { "x" } else { "" }));
        let is_swept = knob.samples().iter().any(|sample| !matches!(sample.surface, Surface::RealOnly));
        assert!(is_swept, "{} is not in the fault sweep", meta.id);
        for sample in knob.samples() {
            assert_eq!(find(sample.factor).unwrap().0.meta().id, meta.id, "a sample of another knob");
            assert!(!sample.real_levels.is_empty() || !matches!(sample.surface, Surface::RealOnly));
        }
    }
    assert!(find("postgres.").is_none() && find("nonsense").is_none());
}

/// An instance of a family that the sweeps go over; nothing for a knob that is no family.
fn instance_of(knob: &dyn holdup_knobs::Knob) -> &'static str {
    find(knob.samples()[0].factor).unwrap().1
}

fn asking_never_writes() {
    let world = World::new();
    let empty = holdup_host::fake::MemoryFs::new();
    for knob in knobs::ALL {
        let instance = instance_of(*knob);
        world.fs.arm(None);
        // The processes of this world are in a control group, which autogroup does not reach.
        let found = knob.probe(&world.context(), instance);
        assert_eq!(found != Availability::Ready, knob.meta().id == "autogroup", "{}: {found:?}", knob.meta().id);
        assert!(found.is_usable(), "{}: {found:?}", knob.meta().id);
        let reads =
            ["read", "list", "exists", "may_write", "holds", "scheduling", "slice", "affinity", "setting", "query"];
        let log = world.fs.log();
        assert!(log.iter().all(|o| reads.contains(&o.name.as_str())), "{}: {log:?}", knob.meta().id);
        let nothing = KnobContext { host: &empty.host(), postgres: None, pids: vec![4] };
        assert!(!knob.probe(&nothing, instance).is_usable(), "{}", knob.meta().id);
        let here = KnobContext { host: &holdup_host::Host::real(), postgres: None, pids: vec![std::process::id()] };
        let _any = knob.probe(&here, instance);
    }
}

fn settings_that_cannot_be_set_are_refused_with_the_reason() {
    let mut world = World::new();
    world.server.can_restart = false;
    let check = |world: &World, instance: &str, expect: &str| {
        let (knob, _) = find("postgres.x").unwrap();
        let found = knob.probe(&world.context(), instance);
        assert!(!found.is_usable() && format!("{found:?}").contains(expect), "{instance}: {found:?}");
    };
    check(&world, "shared_buffers", "leave --pg out");
    check(&world, "block_size", "fixed when the server is built");
    check(&world, "no_such", "no such setting");
    check(&world, "work_mem'; DROP", "not the name of a setting");
    check(&world, "primary_conninfo", "password");
}

holdup_testkit::tests!(
    every_catalogue_file_is_listed,
    every_knob_says_what_it_is,
    asking_never_writes,
    settings_that_cannot_be_set_are_refused_with_the_reason
);
