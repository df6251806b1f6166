//! HRTICK when kernels are compared.

use super::{About, Case};
use crate::condition::Condition;
use holdup_model::survey::{Advice, Survey, Weight};
use holdup_model::{KernelVersion, Meta};

static META: Meta = Meta {
    id: "hrtick-confounder",
    summary: "HRTICK is on, which 7.0 and older kernels do not have by default",
    docs: "From 7.1 on slices end by a timer of their own on x86, with a reschedule that does not wait for the tick, \
           so that preemption under the lazy model depends less on HZ. A comparison of such a kernel with an older one \
           measures this change as well. It is no harm by itself and does not count for the exit code.",
    references: &["kernel/sched/features.h (v7.1), commits 9213aa4784cf, 5d88e424ec1b, d360053c95"],
};

pub static CASE: Case =
    Case { meta: &META, weight: Weight::None, report: None, about: About::Host { conditions, advice } };

fn conditions(survey: &Survey) -> Vec<Condition> {
    let Some(setting) = survey.settings.iter().find(|s| s.name == "hrtick") else {
        return vec![Condition::new(None, "Whether HRTICK is on is not known.", "run holdup as root")];
    };
    let Some(word) = setting.value.get() else {
        let unknown = Condition::unknown("Whether HRTICK is on", &setting.value);
        let by_default = setting.default.as_ref().map(|word| format!(" By default it is {word} in this kernel."));
        let found = format!("{}{}", unknown.found, by_default.unwrap_or_default());
        return vec![Condition { found, ..unknown }];
    };
    let source = &setting.value.source;
    let since = match survey.kernel.version.value() {
        Some(version) if version >= KernelVersion::new(7, 1) => ", as from 7.1 on where the timers allow it",
        _ => "",
    };
    vec![if word == "on" {
        Condition::new(Some(true), format!("HRTICK is on ({source}){since}."), "NO_HRTICK")
    } else {
        Condition::new(Some(false), format!("HRTICK is off ({source})."), "HRTICK switched on")
    }]
}

fn advice(_survey: &Survey) -> Vec<Advice> {
    vec![Advice {
        action: "when this kernel is compared with 7.0 or older, `echo NO_HRTICK > /sys/kernel/debug/sched/features` \
                 as root, or set hrtick = \"off\" in the plan"
            .to_owned(),
        evidence: "read in kernel/sched/features.h of 7.0 and 7.1; no measurement of its effect on PostgreSQL is known"
            .to_owned(),
        undo: "`echo HRTICK > /sys/kernel/debug/sched/features`".to_owned(),
    }]
}
