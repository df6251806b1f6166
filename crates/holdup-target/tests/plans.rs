//! The plans that come with holdup, against the real catalogues.

use holdup_model::Machine;
use holdup_plan::{Inputs, Overrides, check, schedule};
use std::path::Path;

fn the_plans_of_the_repository_are_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let vocabulary = holdup_target::vocabulary();
    let inputs = Inputs {
        machine: Machine { cpus: 2, memory_bytes: 8 << 30 },
        vocabulary: &vocabulary,
        environment: &|_| None,
        read_include: &|path| std::fs::read_to_string(path).map_err(|e| e.to_string()),
        machine_of: &|_| Ok(None),
        overrides: &Overrides::default(),
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder of plans") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("a plan");
        let plan = check(&file, &text, &inputs).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!plan.workloads.is_empty() && plan.design.aa_pair, "{file}");
        assert!(plan.metrics.iter().any(|m| m.primary), "{file}");
        let schedule = schedule(&plan).unwrap_or_else(|problem| panic!("{file}: {problem}"));
        let boots = schedule.trials.iter().map(|t| t.boot).collect::<std::collections::BTreeSet<_>>().len();
        let several = plan.varies_at_boot() || plan.design.sessions > 1;
        assert_eq!(boots > 1, plan.guest.is_some() && several, "{file}: {boots} boots");
        seen += 1;
    }
    assert!(seen >= 6, "{seen} plans");
}

holdup_testkit::tests!(the_plans_of_the_repository_are_good);
