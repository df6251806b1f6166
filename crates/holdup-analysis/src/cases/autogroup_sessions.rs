//! Autogroup and a server outside of control groups.

use super::{About, Case};
use crate::condition::Condition;
use holdup_model::Meta;
use holdup_model::survey::{Advice, Server, Survey, Weight};

static META: Meta = Meta {
    id: "autogroup-sessions",
    summary: "autogroup shares the CPU by session, for a server outside of cgroups",
    docs: "With autogroup each session (setsid) of the root task group is one group, and groups get equal shares. \
           PostgreSQL makes a session of every backend, so that each counts as much as a whole load generator with all \
           its threads, and the helper processes of the server compete one by one. It does not act on what runs in a \
           control group with the cpu controller, the usual state under systemd.",
    references: &[
        "kernel/sched/autogroup.c:task_wants_autogroup (v6.18)",
        "src/backend/utils/init/miscinit.c:InitPostmasterChild",
        "pgsql-performance, S. Thomas, January 2013",
    ],
};

pub static CASE: Case = Case {
    meta: &META,
    weight: Weight::High,
    report: Some("tweaks-2013"),
    about: About::Server { conditions, advice },
};

fn conditions(survey: &Survey, server: &Server) -> Vec<Condition> {
    let setting = survey.settings.iter().find(|s| s.name == "autogroup");
    let enabled = match setting.map(|s| (&s.value, s.value.get().map(String::as_str))) {
        Some((known, Some("0"))) => Condition::new(
            Some(false),
            format!("Autogroup is off ({}).", known.source),
            "sysctl kernel.sched_autogroup_enabled=1, the kernel's default",
        ),
        Some((known, Some(_))) => {
            Condition::new(Some(true), format!("Autogroup is on ({}).", known.source), "autogroup off")
        }
        Some((known, None)) => Condition::unknown("Whether autogroup is on", known),
        None => Condition::new(None, "Whether autogroup is on is not known.", ""),
    };
    let root = &server.is_in_root_task_group;
    let placed = match root.get() {
        None => Condition::unknown("Whether the server is in a control group", root),
        Some(true) => Condition::new(
            Some(true),
            format!("The server is scheduled in the root task group ({}), where autogroup acts.", root.source),
            "a control group with the cpu controller, as systemd makes with CPUWeight=",
        ),
        Some(false) => Condition::new(
            Some(false),
            format!(
                "The server is in a control group with the cpu controller ({}), where autogroup does not act.",
                root.source
            ),
            "a server that is started by hand, outside of systemd's groups",
        ),
    };
    vec![placed, enabled]
}

fn advice(_survey: &Survey, _server: &Server) -> Vec<Advice> {
    vec![Advice {
        action: "`sysctl kernel.sched_autogroup_enabled=0`, then restart the server: what runs already keeps its \
                 group; or run the server as a systemd service with CPUWeight=100"
            .to_owned(),
        evidence: "holdup's own demo on 2 CPUs (6.18, PostgreSQL 15, pgbench): off instead of on was ×1.23 (1.02 to \
                   1.49) for select-only and ×1.48 (1.16 to 1.88) for simple-update in one run and undecided in \
                   another; 17k to 85k tps in 2013, together with migration cost. Measure yours: holdup run \
                   pgbench --vary autogroup=on,off"
            .to_owned(),
        undo: "`sysctl kernel.sched_autogroup_enabled=1`".to_owned(),
    }]
}
