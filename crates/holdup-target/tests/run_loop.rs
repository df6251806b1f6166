//! The run loop over real programs: order, repeats, budget, cancelling, what is kept.

use holdup_host::Host;
use holdup_host::fake::MemoryFs;
use holdup_knobs::KnobContext;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::bundle::Ending;
use holdup_model::plan::{Extract, Layout, MetricChoice, StopRule};
use holdup_model::{
    Arm, Design, Direction, Event, Factor, Level, Machine, Observer, Plan, Schedule, Trial, TrialSpec, TrialStatus,
    WorkloadUse,
};
use holdup_target::{RunOutcome, RunRequest, SessionRequest};
use holdup_testkit::{ignore, ignore_part};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A plan with one arm for each script.
fn command(script: &str) -> Level {
    let words = serde_json::json!(["sh", "-c", script]).to_string();
    Level { value: words.as_str().into(), label: script.to_owned() }
}

fn plan(scripts: &[&str]) -> (Plan, Schedule) {
    let axis = Factor {
        name: "command".to_owned(),
        levels: scripts.iter().map(|script| command(script)).collect(),
        workloads: Vec::new(),
        optional: false,
    };
    let metric = MetricChoice {
        id: "x".to_owned(),
        workload: None,
        primary: true,
        better: Some(Direction::Higher),
        unit: Some("1".to_owned()),
        margin: 0.02,
        from: Some(Extract::Regex("x=([0-9.]+)".to_owned())),
    };
    let plan = Plan {
        name: "t".to_owned(),
        question: "does the loop keep its promises?".to_owned(),
        workloads: vec![WorkloadUse {
            name: "command".to_owned(),
            kind: "command".to_owned(),
            parameters: holdup_catalogue::command::Parameters::defaults(2),
            axes: vec![axis.clone()],
            negative_control: false,
            semantics: holdup_model::Semantics::default(),
        }],
        design: Design {
            layout: Layout::Factorial,
            blocks: 2,
            sessions: 1,
            seed: 1,
            aa_pair: false,
            unobserved_pair: false,
            settle_ns: 0,
            warmup_ns: 0,
            duration_ns: 10_000_000,
            stop: StopRule::Blocks,
            budget_ns: None,
            retries: 2,
            max_steal_share: 0.1,
            effect: Default::default(),
        },
        metrics: vec![metric],
        ..Plan::observational("", String::new(), "", "local")
    };
    let arms: Vec<Arm> = (0_u32..)
        .zip(&axis.levels)
        .map(|(id, level)| Arm {
            id,
            label: level.label.clone(),
            workload: "command".to_owned(),
            axes: BTreeMap::from([("command".to_owned(), level.clone())]),
            factors: BTreeMap::new(),
            replica: None,
        })
        .collect();
    let mut trials = Vec::new();
    for block in 0..plan.design.blocks {
        for arm in &arms {
            let seq = u32::try_from(trials.len()).expect("few");
            trials.push(TrialSpec { seq, session: 0, boot: 0, block, position: arm.id, arm: arm.id });
        }
    }
    (plan, Schedule { arms, trials })
}

struct Fixture {
    folder: tempfile::TempDir,
    cancel: Cancel,
    /// The stop rule of plans that have one: this number of trials is enough.
    decided_after: Option<usize>,
}

impl Fixture {
    fn new() -> Self {
        Fixture { folder: tempfile::tempdir().expect("a folder"), cancel: Cancel::default(), decided_after: None }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("t.holdup")
    }

    fn run(&self, plan: &Plan, schedule: &Schedule, observer: &mut dyn Observer) -> (RunOutcome, Vec<Trial>) {
        let out = self.out();
        let outcome = holdup_target::run(
            &RunRequest {
                host: &Host::real(),
                plan,
                plan_source: "",
                schedule,
                machine: Machine { cpus: 2, memory_bytes: 1 << 30 },
                out: &out,
                command: vec!["test".to_owned()],
                notes: vec!["kept from before the run".to_owned()],
                postgres: PostgresOptions::default(),
                workdir: self.folder.path().to_owned(),
                guests: holdup_target::GuestOptions::default(),
                ssh: holdup_target::SshOptions::default(),
                wait: Duration::from_secs(600),
                part: None,
                cancel: self.cancel.clone(),
                is_decided: &|so_far| self.decided_after.is_some_and(|n| so_far.trials.len() >= n),
            },
            observer,
        )
        .expect("it runs");
        (outcome, trials(&out))
    }
}

fn trials(out: &Path) -> Vec<Trial> {
    holdup_bundle::read(out).expect("a whole bundle").trials
}

fn trials_run_in_the_planned_order_and_are_kept_with_their_metrics() {
    let (plan, schedule) = plan(&["echo x=1", "echo x=2"]);
    let place = Fixture::new();
    let (outcome, trials) = place.run(&plan, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!(outcome.ending, Ending::Complete);
    assert_eq!((outcome.trials_done, outcome.trials_void), (4, 0));
    let order: Vec<(u32, u32, Option<f64>)> = trials.iter().map(|t| (t.block, t.arm, t.metric("x"))).collect();
    assert_eq!(order, [(0, 0, Some(1.0)), (0, 1, Some(2.0)), (1, 0, Some(1.0)), (1, 1, Some(2.0))]);
    assert!(trials.iter().all(|t| t.window.is_some() && !t.environment_before.is_empty()));
    let bundle = holdup_bundle::read(&place.out()).expect("whole");
    assert!(bundle.log.iter().any(|(_, text)| text == "kept from before the run"), "{:?}", bundle.log);
    assert_eq!(bundle.ending, Some(Ending::Complete));
}

fn a_run_that_is_decided_ends_at_the_end_of_a_block() {
    let mut place = Fixture::new();
    let (mut long, schedule) = plan(&["echo x=1", "echo x=2"]);
    // Decided after the first trial: its block is still finished.
    place.decided_after = Some(1);
    long.design.stop = StopRule::Decided;
    let (outcome, trials) = place.run(&long, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!((outcome.ending, outcome.trials_done), (Ending::Decided, 2));
    // On a busy machine a trial may be void, and is repeated in its block.
    assert_eq!(trials.iter().filter(|t| t.is_done()).map(|t| t.block).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(holdup_bundle::read(&place.out()).expect("whole").ending, Some(Ending::Decided));

    // A plan with a fixed number of blocks is not asked.
    let mut place = Fixture::new();
    place.decided_after = Some(1);
    let (fixed, schedule) = plan(&["echo x=1", "echo x=2"]);
    let (outcome, _) = place.run(&fixed, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!((outcome.ending, outcome.trials_done), (Ending::Complete, 4));

    // One that is never decided runs to its end.
    let place = Fixture::new();
    let (outcome, _) = place.run(&long, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!((outcome.ending, outcome.trials_done), (Ending::Complete, 4));
}

fn a_void_trial_is_kept_with_its_reason_and_repeated_as_often_as_planned() {
    let place = Fixture::new();
    let flag = place.folder.path().join("second-time");
    // Fails the first time, works from then on.
    let script = format!("if [ -e {0} ]; then echo x=1; else touch {0}; exit 7; fi", flag.display());
    let (mut once, schedule) = plan(&[&script]);
    once.design.blocks = 1;
    let (outcome, trials) = place.run(&once, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!((outcome.trials_done, outcome.trials_void), (2, 1));
    let first = &trials[0];
    let TrialStatus::Void { reason } = &first.status else { panic!("the first attempt is void: {first:?}") };
    assert!(reason.contains('7'), "{reason}");
    assert_eq!((trials[1].attempt, trials[1].is_done(), trials[1].block), (1, true, first.block));

    let place = Fixture::new();
    let (never, schedule) = plan(&["exit 3"]);
    let (outcome, trials) = place.run(&never, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!((outcome.trials_done, outcome.trials_void), (0, 6), "two planned, each with two repeats");
    assert_eq!(trials.iter().map(|t| t.attempt).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
}

fn the_budget_ends_a_run_at_a_blocks_end() {
    let (mut plan, mut schedule) = plan(&["sleep 0.2; echo x=1"]);
    plan.design.budget_ns = Some(1);
    for block in 2..50 {
        schedule.trials.push(TrialSpec { seq: block, session: 0, boot: 0, block, position: 0, arm: 0 });
    }
    let place = Fixture::new();
    let (outcome, trials) = place.run(&plan, &schedule, &mut holdup_model::progress::Silent);
    assert_eq!(outcome.ending, Ending::Budget);
    assert_eq!(trials.len(), 1, "the first block is always run");
}

/// Cancels when the second trial begins.
struct CancelAtSecond(Cancel);

impl Observer for CancelAtSecond {
    fn event(&mut self, event: Event<'_>) {
        if let Event::TrialBegin { number: 2, .. } = event {
            self.0.cancel();
        }
    }
}

fn a_cancelled_run_keeps_what_was_measured() {
    let (plan, schedule) = plan(&["echo x=1; sleep 0.3", "sleep 60"]);
    let place = Fixture::new();
    let (outcome, trials) = place.run(&plan, &schedule, &mut CancelAtSecond(place.cancel.clone()));
    assert_eq!(outcome.ending, Ending::Interrupted);
    assert!(trials[0].is_done());
    assert!(trials.len() <= 2 && trials.iter().skip(1).all(|t| !t.is_done()), "{trials:?}");
}

fn a_trial_whose_environment_moved_is_void() {
    let autogroup = "/proc/sys/kernel/sched_autogroup_enabled";
    let host = Host::real();
    let (Ok(before), Ok(())) = (host.read_value(autogroup), host.may_write(autogroup)) else {
        ignore("moving the environment needs root and autogroup");
    };
    let other = if before == "1" { "0" } else { "1" };
    let (mut plan, schedule) = plan(&[&format!("echo {other} > {autogroup}; echo x=1")]);
    plan.design.retries = 0;
    plan.design.blocks = 1;
    let place = Fixture::new();
    let (_, trials) = place.run(&plan, &schedule, &mut holdup_model::progress::Silent);
    host.write(autogroup, &before).expect("written a moment ago");
    let TrialStatus::Void { reason } = &trials[0].status else { panic!("void: {:?}", trials[0]) };
    assert!(reason.contains("autogroup") && reason.contains("environment moved"), "{reason}");
    assert_eq!(trials[0].metric("x"), Some(1.0), "what was measured is kept");
}

fn a_plan_that_needs_what_this_host_lacks_touches_nothing() {
    // The second is a family, and one of the host and not of a server.
    for (factor, level) in
        [("migration-cost", Level::plain(5_000_000_i64)), ("sched-feature.NEXT_BUDDY", Level::plain(true))]
    {
        let (mut plan, schedule) = plan(&["echo x=1"]);
        plan.settings.push((factor.to_owned(), level));
        let host = Host::real();
        let (knob, instance) = holdup_knobs::find(factor).expect("a knob");
        if knob.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, instance).is_usable() {
            ignore_part(format!("{factor} can be set here"));
            continue;
        }
        let place = Fixture::new();
        let out = place.out();
        let problem = holdup_target::run(
            &RunRequest {
                host: &host,
                plan: &plan,
                plan_source: "",
                schedule: &schedule,
                machine: Machine { cpus: 2, memory_bytes: 1 << 30 },
                out: &out,
                command: Vec::new(),
                notes: Vec::new(),
                postgres: PostgresOptions::default(),
                workdir: place.folder.path().to_owned(),
                guests: holdup_target::GuestOptions::default(),
                ssh: holdup_target::SshOptions::default(),
                wait: Duration::ZERO,
                part: None,
                cancel: Cancel::default(),
                is_decided: &|_| false,
            },
            &mut holdup_model::progress::Silent,
        )
        .expect_err("it cannot be had here");
        assert_eq!(problem.kind.exit_code(), 3);
        assert!(problem.what.contains(factor), "{problem}");
        assert!(!out.exists(), "no bundle");
    }
}

fn a_level_that_this_kernel_has_not_is_refused_before_the_first_trial_or_left_out() {
    let host = MemoryFs::of(&[("/sys/kernel/debug/sched/preempt", "full (lazy) \n")]).host();
    let target = &holdup_target::targets::ALL[0];
    let (mut plan, schedule) = plan(&["echo x=1"]);
    let levels = ["lazy", "none"].map(Level::plain).to_vec();
    let factor =
        |optional| Factor { name: "preempt".to_owned(), levels: levels.clone(), workloads: Vec::new(), optional };
    plan.factors = vec![factor(true)];
    let (without, notes) = target.drop_unavailable_factors(&host, plan.clone());
    assert!(without.factors.is_empty());
    assert_eq!(
        notes,
        ["factor preempt is left out: none cannot be set: this kernel offers only full and lazy"].map(str::to_owned)
    );
    plan.factors = vec![factor(false)];
    let (plan, notes) = target.drop_unavailable_factors(&host, plan);
    assert_eq!((plan.factors.len(), notes.len()), (1, 0));
    let postgres = PostgresOptions::default();
    let place = Fixture::new();
    let request = SessionRequest {
        clients: None,
        host: &host,
        plan: &plan,
        schedule: &schedule,
        postgres: &postgres,
        workdir: place.folder.path().to_owned(),
        guests: &holdup_target::GuestOptions::default(),
        ssh: &holdup_target::SshOptions::default(),
        boot_cache: holdup_target::BootCache::default(),
        threads: None,
        cancel: Cancel::default(),
    };
    let Err(refused) = target.ready(&request, &mut holdup_model::progress::Silent) else {
        panic!("this kernel has no none")
    };
    assert_eq!((refused.kind.exit_code(), refused.what.as_str()), (3, "factor preempt = none"));
}

holdup_testkit::tests!(
    alone:
    trials_run_in_the_planned_order_and_are_kept_with_their_metrics,
    a_run_that_is_decided_ends_at_the_end_of_a_block,
    a_void_trial_is_kept_with_its_reason_and_repeated_as_often_as_planned,
    the_budget_ends_a_run_at_a_blocks_end,
    a_cancelled_run_keeps_what_was_measured,
    a_trial_whose_environment_moved_is_void,
    a_plan_that_needs_what_this_host_lacks_touches_nothing,
    a_level_that_this_kernel_has_not_is_refused_before_the_first_trial_or_left_out
);
