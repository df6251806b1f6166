//! A feature of the scheduler, by its name in the kernel.

use super::hrtick;
use crate::features;
use crate::refused::wrong;
use crate::sample::{Sample, Surface};
use crate::{Knob, KnobContext};
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `sched-feature.NAME`.
pub(crate) struct SchedFeature;

static META: Meta = Meta {
    id: "sched-feature",
    summary: "a feature of the scheduler (sched-feature.NEXT_BUDDY = on)",
    docs: "The fair scheduler's switches, by the names that the debugfs file sched/features shows (sched_features up \
           to Linux 5.12), where NO_ stands before those that are off. Which there are and what is the default \
           depends on the kernel; a name that this kernel has not is refused, and the refusal lists those that it \
           has.\n\n\
           Some that matter when versions are compared: NEXT_BUDDY (off by default) picks the task that was woken \
           last, and from 6.19 on also brings in other rules for preemption at wake-up; RUN_TO_PARITY (on) protects \
           the running task until its slice is over; WAKEUP_PREEMPTION (on) lets a woken task preempt at all; \
           DELAY_DEQUEUE (on, from 6.12) leaves sleeping tasks that are ahead in the queue for a while.\n\n\
           HRTICK has its own knob (hrtick), so that there is one name for it. A change touches one word; the \
           other features stay as they are.",
    references: &[
        "kernel/sched/features.h (v6.18)",
        "kernel/sched/debug.c:sched_feat_show, sched_feat_set, sched_feat_write (v6.18; v5.12 for the older place)",
    ],
};

impl Knob for SchedFeature {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn prefix(&self) -> Option<&'static str> {
        Some("sched-feature.")
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Bool
    }

    fn samples(&self) -> &'static [Sample] {
        // It is on at first on the host in memory, and every kernel has it.
        const {
            &[Sample {
                real_levels: &["on", "off"],
                ..Sample::new(
                    "sched-feature.WAKEUP_PREEMPTION",
                    Surface::Word("WAKEUP_PREEMPTION", features::SAMPLE),
                    ["off", "on"],
                )
            }]
        }
    }

    fn touches(&self, instance: &str) -> String {
        format!("the scheduler's feature {instance} (debugfs), for the whole host")
    }

    fn probe(&self, context: &KnobContext<'_>, instance: &str) -> Availability {
        match refuse_name(instance) {
            Ok(()) => features::probe(context.host, instance),
            Err(problem) => Availability::Unavailable { reason: problem.why, remedy: problem.hint },
        }
    }

    fn read(&self, context: &KnobContext<'_>, instance: &str) -> Result<Value, Problem> {
        features::read(context.host, instance).map(Value::Bool)
    }

    fn check(&self, instance: &str, value: &Value) -> Result<(), Problem> {
        refuse_name(instance)?;
        is_on(instance, value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, instance: &str, value: &Value) -> Result<(), Problem> {
        features::write(context.host, instance, is_on(instance, value)?)
    }

    fn by_hand(&self, instance: &str, saved: &Value) -> String {
        features::by_hand(instance, is_on(instance, saved).unwrap_or(true))
    }

    fn destinations(&self, instance: &str, value: &Value) -> Vec<Destination> {
        is_on(instance, value).map(|is_on| features::destination(instance, is_on)).into_iter().collect()
    }
}

fn is_on(instance: &str, value: &Value) -> Result<bool, Problem> {
    match value {
        Value::Bool(on) => Ok(*on),
        _ => Err(wrong(&format!("sched-feature.{instance}"), value, "on or off")),
    }
}

fn refuse_name(instance: &str) -> Result<(), Problem> {
    let refuse =
        |why: String, hint: String| Err(Problem::usage(format!("factor sched-feature.{instance}"), why).hint(hint));
    if instance == hrtick::FEATURE {
        return refuse("HRTICK has its own knob".to_owned(), "use the factor hrtick".to_owned());
    }
    if let Some(plain) = instance.strip_prefix("NO_").filter(|plain| features::is_name(plain)) {
        return refuse(
            "the name of a feature is the one without NO_".to_owned(),
            format!("give sched-feature.{plain} = off"),
        );
    }
    if !features::is_name(instance) {
        return refuse(
            "it is not the name of a feature".to_owned(),
            "names are in capitals, such as NEXT_BUDDY; `cat /sys/kernel/debug/sched/features` lists them".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_meant_are_refused_with_what_to_give() {
        let check = |instance: &str, expect: &str| {
            let refused = SchedFeature.check(instance, &Value::Bool(true)).expect_err(instance);
            assert!(refused.hint.as_deref().is_some_and(|hint| hint.contains(expect)), "{instance}: {refused:?}");
            let host = holdup_host::fake::MemoryFs::new().host();
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            assert!(format!("{:?}", SchedFeature.probe(&context, instance)).contains(expect), "{instance}");
        };
        check("HRTICK", "use the factor hrtick");
        check("NO_NEXT_BUDDY", "give sched-feature.NEXT_BUDDY = off");
        check("next_buddy", "in capitals");
        check("NEXT_BUDDY NO_HRTICK", "in capitals");
        check("A\nB", "in capitals");
        SchedFeature.check("NEXT_BUDDY", &Value::Bool(true)).expect("a feature");
        SchedFeature.check("HRTICK_DL", &Value::Bool(true)).expect("another feature");
        assert!(SchedFeature.check("NEXT_BUDDY", &Value::Integer(1)).is_err());
    }
}
