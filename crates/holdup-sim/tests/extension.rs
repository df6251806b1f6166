//! Slice extensions: when they are granted, and what ends them.

use holdup_sim::machine::kernel::SLICE_EXTENSION_NS;
use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::program::{Op, Preemption, Program};
use holdup_sim::random::Span;
use holdup_sim::stats::{SwitchOut, WindowStats};
use holdup_sim::world::{Load, TaskSpec, World};

/// Two tasks on one CPU that take a lock of their own each, and stay in its section for so long; `inside` is what they
/// do there beside computing.
fn run(model: &str, extension_ns: u64, section_ns: u64, inside: &[Op]) -> WindowStats {
    let mut kernel = Kernel::of("7.0", preempt::find(model).expect("a model"), 1000, 1).expect("a kernel");
    kernel.slice_extension_ns = extension_ns;
    let machine = Machine { topology: Topology { smt: 1, cores: 1, llcs: 1, nodes: 1 }, costs: Costs::DEFAULT, kernel };
    let program = |lock| {
        let mut ops = vec![Op::ExtendBegin, Op::Lock(lock), Op::Compute(Span::Fixed(section_ns))];
        ops.extend(inside);
        ops.extend([Op::Unlock(lock), Op::ExtendEnd, Op::Compute(Span::Fixed(section_ns / 4)), Op::Jump(0)]);
        Program::new("worker", ops)
    };
    let load = Load {
        programs: vec![program(0), program(1)],
        tasks: (0..2).map(|program| TaskSpec { program, ..TaskSpec::default() }).collect(),
        locks: vec!["tas", "tas"],
        ..Load::default()
    };
    let mut world = World::new(&machine, &load, 1);
    world.run_until(4_000_000_000);
    world.check_invariants().expect("in order");
    world.close().clone()
}

fn holding(seen: &WindowStats) -> u64 {
    seen.roles
        .iter()
        .map(|r| {
            r.switch_outs_holding[SwitchOut::AtBoundary as usize] + r.switch_outs_holding[SwitchOut::InKernel as usize]
        })
        .sum()
}

#[test]
fn a_short_section_is_not_interrupted() {
    for model in ["full", "lazy"] {
        let without = run(model, 0, 3_000, &[]);
        assert!(holding(&without) > 500 && without.grants == 0 && !without.asked, "{model}: {}", holding(&without));
        let with = run(model, SLICE_EXTENSION_NS, 3_000, &[]);
        println!(
            "{model}: {} switched out inside, with extensions {}; {} grants",
            holding(&without),
            holding(&with),
            with.grants
        );
        assert_eq!((holding(&with), with.grants_expired), (0, 0), "{model}");
        assert!(with.grants > 500 && with.asked, "{model}: {}", with.grants);
    }
}

#[test]
fn a_long_section_is_interrupted_when_the_grant_runs_out() {
    let seen = run("lazy", SLICE_EXTENSION_NS, 40_000, &[]);
    assert!(
        seen.grants_expired > 500 && seen.grants_expired <= seen.grants,
        "{} of {}",
        seen.grants_expired,
        seen.grants
    );
    assert!(holding(&seen) > 500, "{}", holding(&seen));
}

/// The call comes in the middle of the section, before the grant's 50 us are over.
#[test]
fn a_system_call_ends_a_grant() {
    let call = Op::System { work: Span::Fixed(200), preemption: Preemption::On };
    let seen = run("lazy", 50_000, 20_000, &[call, Op::Compute(Span::Fixed(20_000))]);
    assert!(seen.grants > 500 && seen.grants_expired == 0, "{} {}", seen.grants, seen.grants_expired);
    assert!(holding(&seen) > 100, "{}", holding(&seen));
}

/// PREEMPT_RT extends what asks lazily only, and there the fair class does not.
#[test]
fn rt_does_not_extend_what_asks_in_earnest() {
    assert_eq!(run("rt", SLICE_EXTENSION_NS, 3_000, &[]).grants, 0);
}

/// Who has one cannot have the next before it gave way, as often as it asks.
#[test]
fn grants_are_one_at_a_time() {
    let again: Vec<Op> = (0..40).flat_map(|_| [Op::ExtendBegin, Op::Compute(Span::Fixed(1_000))]).collect();
    let seen = run("lazy", SLICE_EXTENSION_NS, 1_000, &again);
    println!("{} grants, {} ran out, {} switched out inside", seen.grants, seen.grants_expired, holding(&seen));
    assert!(seen.grants_expired > 500 && holding(&seen) > 500, "{} {}", seen.grants_expired, holding(&seen));
}
