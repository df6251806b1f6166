//! What things are called where something is said about them.

use crate::world::Load;

/// The names of a load's tasks, locks and operations.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The tasks that are there from the begin.
    pub tasks: Vec<String>,
    pub locks: Vec<String>,
    /// The file that programs and tasks come from.
    pub file: String,
    /// The line of each operation, by program, where there is a file.
    pub lines: Vec<Vec<u32>>,
    pub task_lines: Vec<u32>,
    pub programs: Vec<String>,
}

impl Names {
    /// By program and number.
    pub fn of(load: &Load) -> Self {
        let program = |number: u32| load.programs.get(number as usize).map_or("?", |p| p.name.as_str());
        Names {
            tasks: load.tasks.iter().enumerate().map(|(at, t)| format!("{} {at}", program(t.program))).collect(),
            locks: load.locks.iter().enumerate().map(|(at, name)| format!("lock {at} ({name})")).collect(),
            programs: load.programs.iter().map(|p| p.name.clone()).collect(),
            ..Names::default()
        }
    }

    pub fn task(&self, task: u32) -> String {
        self.tasks.get(task as usize).cloned().unwrap_or_else(|| format!("made-{task}"))
    }

    pub fn lock(&self, lock: u32) -> String {
        self.locks.get(lock as usize).cloned().unwrap_or_else(|| format!("lock {lock}"))
    }

    /// An operation's place: its line, or its program and number.
    pub fn operation(&self, program: u32, op: u32) -> String {
        let lines = self.lines.get(program as usize);
        match lines.and_then(|lines| lines.get(op as usize).or(lines.last())) {
            Some(line) => format!("{}, line {line}", self.file),
            None => {
                let name = self.programs.get(program as usize).map_or("?", String::as_str);
                format!("program {name}, operation {}", op + 1)
            }
        }
    }

    /// A task's place: its line, or its name.
    pub fn task_place(&self, task: u32) -> String {
        match self.task_lines.get(task as usize) {
            Some(line) => format!("{}, line {line}", self.file),
            None => format!("task {}", self.task(task)),
        }
    }
}
