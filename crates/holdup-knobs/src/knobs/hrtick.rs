//! Whether slices end by a timer of their own or at the next tick.

use crate::features;
use crate::refused::wrong;
use crate::sample::{Sample, Surface};
use crate::{Knob, KnobContext};
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `hrtick`.
pub(crate) struct Hrtick;

/// The feature's name in the kernel.
pub(crate) const FEATURE: &str = "HRTICK";

static META: Meta = Meta {
    id: "hrtick",
    summary: "end slices by a timer instead of the tick (on from 7.1 on x86)",
    docs: "Without it a task whose slice is over runs on until the next tick, which comes every 4ms with HZ=250. With \
           it a high-resolution timer ends the slice when it is over. From Linux 7.1 on it does so by a hard \
           reschedule: also under the lazy preemption model code in the kernel is then preempted there and then. Up \
           to 7.0 the request is a lazy one under that model, and waits for the return to user mode or the next \
           tick.\n\n\
           It is off by default up to Linux 7.0 and on all of arm64, and on from 7.1 on where the kernel can defer \
           the programming of timers (CONFIG_HRTIMER_REARM_DEFERRED: x86). So a comparison of 7.0 with 7.1 or later \
           on x86 compares this as well, unless it is set to the same on both.\n\n\
           It is the word HRTICK in the scheduler's features; the other features are left as they are. The timer of \
           the deadline class (HRTICK_DL) is a separate one, see sched-feature.",
    references: &[
        "kernel/sched/features.h: HRTICK (v6.18, v7.1)",
        "kernel/sched/core.c:hrtick; kernel/sched/sched.h:hrtick_enabled; kernel/sched/fair.c:entity_tick (v7.0, v7.2)",
        "kernel/sched/debug.c:sched_feat_write (v6.18)",
    ],
};

impl Knob for Hrtick {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Bool
    }

    fn samples(&self) -> &'static [Sample] {
        const {
            &[Sample {
                real_levels: &["on", "off"],
                ..Sample::new("hrtick", Surface::Word(FEATURE, features::SAMPLE), ["on", "off"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the scheduler's feature HRTICK (debugfs), for the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let found = features::probe(context.host, FEATURE);
        let line = context.host.read_value("/proc/cmdline").unwrap_or_default();
        if found == Availability::Ready && line.split_ascii_whitespace().any(|word| word == "highres=off") {
            let reason = "highres=off is on the kernel's command line: without high-resolution timers it has no effect";
            return Availability::Degraded { reason: reason.to_owned() };
        }
        found
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        features::read(context.host, FEATURE).map(Value::Bool)
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        is_on(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        features::write(context.host, FEATURE, is_on(value)?)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        features::by_hand(FEATURE, is_on(saved).unwrap_or(false))
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        is_on(value).map(|is_on| features::destination(FEATURE, is_on)).into_iter().collect()
    }
}

fn is_on(value: &Value) -> Result<bool, Problem> {
    match value {
        Value::Bool(on) => Ok(*on),
        _ => Err(wrong("hrtick", value, "on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn what_takes_its_effect_away_is_said() {
        let check = |command_line: &str, features: &str, expect: &str| {
            let host = MemoryFs::of(&[
                ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n"),
                ("/sys/kernel/debug/sched/features", features),
                ("/proc/cmdline", command_line),
            ])
            .host();
            let found = format!("{:?}", Hrtick.probe(&KnobContext { host: &host, postgres: None, pids: vec![] }, ""));
            assert!(found.contains(expect), "{command_line} {features}: {found}");
        };
        check("quiet\n", "NO_HRTICK NO_HRTICK_DL \n", "Ready");
        check("quiet highres=off\n", "NO_HRTICK NO_HRTICK_DL \n", "has no effect");
        check("quiet\n", "NO_HRTICK_DL \n", "no feature `HRTICK`");
    }

    #[test]
    fn only_on_and_off_are_values() {
        for wrong in [Value::Integer(1), Value::Text("on".to_owned())] {
            assert!(Hrtick.check("", &wrong).is_err(), "{wrong:?}");
        }
        Hrtick.check("", &Value::Bool(true)).expect("a value");
    }
}
