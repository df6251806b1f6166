//! The account of an arm: states that add up, small ones as one, and nothing where there is nothing.

use crate::common;
use common::story::{Story, bundle, cause, only};
use common::with_account;
use holdup_analysis::{analyse, compare_arms, explain};
use holdup_model::Account;
use holdup_model::account::{AccountState, StateClass};
use holdup_model::explanation::ArmExplanation;

fn account(story: &Story) -> Option<Account> {
    only(story).account
}

fn there(story: &Story) -> Account {
    account(story).expect("it has an account")
}

fn names(states: &[AccountState]) -> Vec<&str> {
    states.iter().map(|s| s.name.as_str()).collect()
}

/// Sessions that wait for a row for most of their time, and for other work for some of it.
fn locked() -> Story {
    let story = Story::quiet().with_account().session("asleep | Lock:transactionid", 3.0);
    let story = story.session("behind other tasks | ", 0.4);
    let behind = |name: &str| format!("client backend | behind other tasks | {name}");
    story.set("account", "behind_s", &behind("cc1"), 0.3).set("account", "behind_s", &behind("rustc"), 0.1)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn the_states_add_up() {
    let account = there(&locked());
    let sum = |of: fn(&AccountState) -> f64| account.states.iter().map(of).sum::<f64>();
    assert!(close(sum(|s| s.share), 1.0), "{account:#?}");
    assert!(close(sum(|s| s.time_s), account.at_work_s) && close(sum(|s| s.sessions), account.sessions));
    for state in account.states.iter().chain(&account.small) {
        assert_eq!(state.windows_s.len(), account.windows.len(), "{}", state.name);
        assert!(close(state.windows_s.iter().sum(), state.time_s), "{}", state.name);
        let (low, high) = (state.low.expect("ten windows"), state.high.expect("ten windows"));
        assert!(low <= state.share && state.share <= high && high <= 1.0, "{state:?}");
    }
    // Windows are of a second each.
    assert!(close(account.sessions * account.windows.len() as f64, account.at_work_s));
}

#[test]
fn the_states_stand_in_their_order_with_what_they_wait_behind() {
    let account = there(&locked());
    let classes: Vec<StateClass> = account.states.iter().map(|s| s.class).collect();
    assert!(classes.is_sorted(), "{classes:?}");
    assert_eq!((account.of.as_str(), account.kinds.as_slice()), ("sessions", ["client backend".to_owned()].as_slice()));
    let of = |name: &str| account.states.iter().find(|s| s.name == name).expect("it is there");
    let behind = &of("runnable behind other tasks").parts;
    assert_eq!(behind.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["cc1", "rustc"]);
    let on_cpu = of("on a CPU");
    assert!(close(on_cpu.parts.iter().map(|p| p.time_s).sum(), on_cpu.time_s), "{on_cpu:#?}");
    assert_eq!(on_cpu.parts[0].name, "own code");
    assert!(of("Lock:transactionid").share > of("on a CPU").share);
}

#[test]
fn small_states_stand_as_one() {
    let account = there(&locked());
    assert_eq!(names(&account.small), ["waking up", "IO:WALSync"], "less than 0.5 % each");
    let other = account.states.last().expect("it has states");
    assert_eq!((other.name.as_str(), other.class), ("other", StateClass::Other));
    assert!(close(other.share, account.small.iter().map(|s| s.share).sum()));
    assert!(account.states[..account.states.len() - 1].iter().all(|s| s.share >= 0.005));
    // A single small state needs no other name.
    let single = there(&locked().session("waking | ", 0.2));
    assert!(single.small.is_empty() && names(&single.states).contains(&"IO:WALSync"), "{:?}", names(&single.states));
}

#[test]
fn an_arm_without_an_account_has_none() {
    assert_eq!(account(&Story::quiet()), None);
    assert_eq!(account(&Story::quiet().with_account().absent("account", "BPF needs CAP_BPF")), None);
    let arms = explain(&bundle(&[("off", &Story::quiet()), ("on", &locked())])).arms;
    assert_eq!(arms.iter().map(|a| a.account.is_some()).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn sessions_that_only_wait_for_their_clients_are_not_at_work() {
    let mut story = Story::quiet().with_account();
    for account in story.windows.iter_mut().flatten().filter(|c| c.collector == "account") {
        account.items.retain(|i| i.label.as_deref().is_some_and(|label| label.ends_with("Client:ClientRead")));
    }
    let account = there(&story);
    assert!(account.states.is_empty() && account.at_work_s == 0.0 && account.windows.len() == 10, "{account:?}");
}

#[test]
fn one_window_has_shares_without_intervals() {
    let mut story = locked();
    story.windows.truncate(1);
    let account = there(&story);
    assert!(account.states.iter().all(|s| s.low.is_none() && s.high.is_none()));
    assert!(close(account.states.iter().map(|s| s.share).sum(), 1.0));
}

/// Of other programs those that sleep are not at work.
#[test]
fn tasks_of_other_programs_are_at_work_while_they_can_run() {
    let account = there(&Story::quiet().with_account().saturated_thread(0.1));
    assert_eq!(names(&account.states), ["on a CPU", "runnable behind other tasks"]);
    assert_eq!(
        (account.of.as_str(), account.kinds.as_slice()),
        ("the watched tasks", ["server".to_owned()].as_slice())
    );
}

#[test]
fn a_run_whose_only_collector_is_the_account_is_explained() {
    let mut run = locked().bundle();
    run.plan.workloads[0].kind = "pgbench".into();
    run.trials.iter_mut().for_each(|t| t.evidence.retain(|c| c.collector == "account"));
    let explanation = analyse(&run).explanation.expect("the account explains");
    assert!(explanation.arms[0].account.is_some());
}

/// The sentence of the only effect, from the words on where its time is.
fn time_of_effect(ratio: fn(i64) -> f64) -> Option<String> {
    let analysis = analyse(&with_account(ratio));
    let effects: Vec<&holdup_model::Finding> = analysis.findings.iter().filter(|f| f.headline).collect();
    let [effect] = effects.as_slice() else { panic!("{effects:#?}") };
    effect
        .sentence
        .split_once("noise floor is ")
        .and_then(|(_, rest)| rest.split_once(". "))
        .map(|(_, time)| time.to_owned())
}

#[test]
fn an_effect_says_which_states_it_is_of() {
    // 0.9 ms become 1.286 ms: 30 points, all of the lock.
    let slower = time_of_effect(|_| 0.7).expect("it is slower");
    assert!(
        slower.starts_with("Of the 30 points lost, 30 (") && slower.ends_with(") are Lock:transactionid."),
        "{slower}"
    );
    // 0.9 ms become 0.6 ms.
    let faster = time_of_effect(|_| 1.5).expect("it is faster");
    assert!(faster.starts_with("A transaction takes 33 % less time of sessions; of these points, 33 ("), "{faster}");
    assert_eq!(time_of_effect(|_| 1.0), None, "no difference");
}

#[test]
fn arms_that_are_named_say_so_too_and_only_of_the_primary_metric() {
    let bundle = with_account(|_| 0.7);
    let named = compare_arms(&bundle, "0", "1").expect("two arms");
    let with: Vec<&str> =
        named.comparisons.iter().filter(|c| c.time_points.is_some()).map(|c| c.metric.id.as_str()).collect();
    assert_eq!(with, ["tps"]);
}

#[test]
fn other_work_is_held_responsible_where_it_is_seen_and_holdup_is_named_as_itself() {
    let with = |behind_s: f64| {
        let queued = Story::quiet().with_account().oversubscription().session("behind own tasks | ", 8.0);
        let label = |name: &str| format!("client backend | behind other tasks | {name}");
        let story = queued.set("account", "behind_s", &label("holdup-residual"), 0.4);
        only(&story.set("account", "behind_s", &label("holdup"), 0.4).set(
            "account",
            "behind_s",
            &label("cc1"),
            behind_s,
        ))
    };
    let asks = |arm: &ArmExplanation| {
        let advice = &cause(arm, "oversubscription").advice;
        advice.iter().any(|a| a.change.starts_with("other work off these CPUs"))
    };
    let (much, little) = (with(1.2), with(0.01));
    let details = cause(&much, "oversubscription").details.join(" ");
    assert!(details.contains("Other work that they wait behind: cc1 60 %, holdup itself 40 %."), "{details}");
    assert!(asks(&much) && !asks(&little), "{much:#?} {little:#?}");
}
