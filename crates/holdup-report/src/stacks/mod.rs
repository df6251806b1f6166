//! Call stacks in the formats of other tools, one file each.

mod folded;
mod speedscope;

pub use folded::folded;
pub use speedscope::speedscope;

use holdup_model::StackProfile;
use holdup_model::stacks::{Frame, FrameKind};

#[derive(Debug, Clone, Copy)]
pub struct StackFormat {
    /// Its name on the command line.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What a file of it commonly ends in.
    pub extension: &'static str,
    pub render: fn(&StackProfile) -> String,
}

/// Every format.
pub const ALL: &[StackFormat] = &[
    StackFormat {
        id: "folded",
        summary: "a line for each stack, as flame graph tools read it",
        extension: "folded",
        render: folded,
    },
    StackFormat {
        id: "speedscope",
        summary: "a file for speedscope, a profile for each task name",
        extension: "speedscope.json",
        render: speedscope,
    },
];

/// What the first box of a stack says: the task's name, with its role where it has one.
fn task_name(stack: &holdup_model::stacks::Stack) -> String {
    match &stack.role {
        Some(role) if *role != stack.task => format!("{} ({role})", stack.task),
        _ => stack.task.clone(),
    }
}

/// A frame's function, marked as tools do that colour by it: `_[k]` in the kernel, `_[i]` put inline.
fn marked(frame: &Frame) -> String {
    let mark = match frame.kind {
        FrameKind::User => "",
        FrameKind::Inlined => "_[i]",
        FrameKind::Kernel => "_[k]",
    };
    format!("{}{mark}", frame.function)
}

#[cfg(test)]
pub(crate) mod tests {
    use holdup_model::StackProfile;
    use holdup_model::stacks::{Frame, FrameKind, Stack};

    /// A profile with every kind of frame and names that formats must not stumble over.
    pub(crate) fn profile() -> StackProfile {
        let frame = |function: &str, module: Option<&str>, kind| Frame {
            function: function.to_owned(),
            module: module.map(str::to_owned),
            kind,
        };
        let stack = |task: &str, role: Option<&str>, frames: &[u32], weight| Stack {
            task: task.to_owned(),
            role: role.map(str::to_owned),
            frames: frames.to_vec(),
            weight,
        };
        StackProfile {
            name: "on_cpu".to_owned(),
            unit: "samples".to_owned(),
            period_ns: 10_101_010,
            frames: vec![
                frame("main", Some("postgres"), FrameKind::User),
                frame("std::map<int; \"a\">::find 7", Some("x"), FrameKind::Inlined),
                frame("do_syscall_64", Some("[kernel]"), FrameKind::Kernel),
                frame("[unknown]", None, FrameKind::User),
            ],
            stacks: vec![
                stack("postgres", Some("server"), &[0, 1, 2], 70),
                stack("postgres", Some("server"), &[0], 20),
                stack("a;b\n", None, &[3], 5),
                stack("pgbench", Some("load"), &[], 4),
                stack("postgres", Some("server"), &[0, 99], 1),
            ],
            truncated: 5,
        }
    }
}
