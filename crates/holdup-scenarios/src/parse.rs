//! Declarations and tasks.

use crate::Scenario;
use crate::operations::Writer;
use crate::source::{SourceLine, Word, lines};
use holdup_model::Problem;
use holdup_sim::locks;
use holdup_sim::program::Program;
use holdup_sim::sched::group::GroupSpec;
use holdup_sim::sched::weight;
use holdup_sim::world::{Load, LogSpec, Policy, RegionSpec, TaskSpec};
use std::collections::BTreeMap;

/// The longest scenario, bytes.
const MOST_BYTES: usize = 1 << 20;
/// The most of anything that has a name.
const MOST_NAMES: usize = 1000;
const MOST_TASKS: u32 = 10_000;
/// How many tasks of programs that fork can be alive by default.
const FORKS: u32 = 256;
/// How long a scenario runs by default, ns.
const LENGTH_NS: u64 = 10_000_000;

/// What has a name, by kind.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) locks: BTreeMap<String, u32>,
    pub(crate) regions: BTreeMap<String, u32>,
    pub(crate) channels: BTreeMap<String, u32>,
    pub(crate) devices: BTreeMap<String, u32>,
    pub(crate) logs: BTreeMap<String, u32>,
    pub(crate) groups: BTreeMap<String, u32>,
    pub(crate) programs: BTreeMap<String, u32>,
    pub(crate) marks: BTreeMap<String, u32>,
}

/// A scenario that is being read.
#[derive(Default)]
struct Reader {
    load: Load,
    /// What its parts are called in messages.
    shown: holdup_sim::names::Names,
    names: Names,
    forks: bool,
    length_ns: Option<u64>,
    seed: Option<u64>,
    /// How many processes of their own were asked for.
    processes: u32,
}

pub(crate) fn scenario(file: &str, text: &str, first: u32) -> Result<Scenario, Problem> {
    if text.len() > MOST_BYTES {
        return Err(Problem::usage(file, format!("a scenario is at most {MOST_BYTES} bytes")));
    }
    let mut reader = Reader::default();
    reader.shown.file = file.to_owned();
    let mut lines = lines(file, text, first).into_iter();
    reader.program_names(file, text, first)?;
    while let Some(line) = lines.next() {
        reader.line(line, &mut lines)?;
    }
    if reader.load.tasks.is_empty() {
        return Err(Problem::usage(file, "no task runs").hint("write `task PROGRAM` after the programs"));
    }
    Ok(reader.finish())
}

/// Adds a name to its kind.
pub(crate) fn add(
    names: &mut BTreeMap<String, u32>,
    line: &SourceLine<'_>,
    word: Word<'_>,
    most: usize,
) -> Result<u32, Problem> {
    let number = names.len() as u32;
    if names.len() >= most {
        return Err(line.wrong(word, format!("there are {most} of these, which is the most")));
    }
    match names.insert(word.text.to_owned(), number) {
        None => Ok(number),
        Some(_) => Err(line.wrong(word, "the name is taken")),
    }
}

impl Reader {
    /// The names of the programs come first: one can fork another that stands below it.
    fn program_names(&mut self, file: &str, text: &str, first: u32) -> Result<(), Problem> {
        let mut depth = 0u32;
        for mut line in lines(file, text, first) {
            let begins = depth == 0 && line.is("program");
            if begins {
                let name = line.name("program")?;
                add(&mut self.names.programs, &line, name, MOST_NAMES)?;
            }
            depth += u32::from(line.has_last("{"));
            depth = depth.saturating_sub(u32::from(line.has_last("}")));
        }
        Ok(())
    }

    fn line<'a>(
        &mut self,
        mut line: SourceLine<'a>,
        rest: &mut impl Iterator<Item = SourceLine<'a>>,
    ) -> Result<(), Problem> {
        let first = line.word("a declaration")?;
        match first.text {
            "lock" => self.lock(&mut line),
            "region" => self.region(&mut line),
            "channel" => self.channel(&mut line),
            "device" => self.device(&mut line),
            "log" => self.log(&mut line),
            "group" => self.group(&mut line),
            "program" => return self.program(line, rest),
            "task" => self.task(&mut line, 1),
            "run" => self.run(&mut line),
            "seed" => {
                self.seed = Some(line.whole("a seed", (0, i64::MAX))? as u64);
                Ok(())
            }
            "most" => {
                self.load.most_tasks = line.count("how many tasks", (1, MOST_TASKS))? as usize;
                line.expect("tasks")
            }
            text if text.bytes().all(|b| b.is_ascii_digit()) => match text.parse() {
                Ok(count @ 1..=MOST_TASKS) => {
                    line.expect("tasks")?;
                    self.task(&mut line, count)
                }
                _ => Err(line.wrong(first, format!("between 1 and {MOST_TASKS} tasks are possible"))),
            },
            _ => Err(line.wrong(first, "no line begins with this").hint(
                "a line begins with lock, region, channel, device, log, group, program, task, N tasks, most, seed or run",
            )),
        }?;
        line.end()
    }

    fn lock(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("lock")?;
        line.expect(":")?;
        let word = line.word("an algorithm")?;
        let algorithm = locks::id(word.text).ok_or_else(|| {
            line.wrong(word, "there is no such algorithm").hint(format!("there are {}", locks::ids().join(", ")))
        })?;
        add(&mut self.names.locks, line, name, MOST_NAMES)?;
        self.shown.locks.push(name.text.to_owned());
        self.load.locks.push(algorithm);
        Ok(())
    }

    fn region(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("region")?;
        line.expect(":")?;
        let huge = line.is("huge");
        line.expect("pages")?;
        let mut region = RegionSpec { huge, steps: if huge { 512 } else { 1 }, together: false, end: 0, mapped: false };
        while line.is(",") {
            let word = line.word("together, steps or ends")?;
            match word.text {
                "together" => region.together = true,
                "steps" => region.steps = line.count("how many steps a page has", (1, 1 << 20))?,
                "ends" => {
                    line.expect("after")?;
                    region.end = u64::from(line.count("a number of steps", (1, u32::MAX))?);
                }
                _ => return Err(line.wrong(word, "together, steps or ends was expected")),
            }
        }
        add(&mut self.names.regions, line, name, MOST_NAMES)?;
        self.load.regions.push(region);
        Ok(())
    }

    fn channel(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("channel")?;
        line.expect(":")?;
        let most = line.count("a number of messages", (1, 1 << 20))?;
        line.expect("messages")?;
        add(&mut self.names.channels, line, name, MOST_NAMES)?;
        self.load.channels.push(most.into());
        Ok(())
    }

    fn device(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("device")?;
        line.expect(":")?;
        let parallel = line.count("a number of requests", (1, 1 << 20))?;
        line.expect("in parallel")?;
        add(&mut self.names.devices, line, name, MOST_NAMES)?;
        self.load.devices.push(parallel);
        Ok(())
    }

    fn log(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("log")?;
        line.expect(":")?;
        line.expect("on")?;
        let device = line.one_of(&self.names.devices, "device")?;
        line.expect(",")?;
        line.expect("writes")?;
        let write = line.span()?;
        add(&mut self.names.logs, line, name, MOST_NAMES)?;
        self.load.logs.push(LogSpec { device, write, lock: None });
        Ok(())
    }

    fn group(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let name = line.name("group")?;
        let mut group = GroupSpec::new(name.text);
        if line.is(":") {
            loop {
                let word = line.word("weight, in or quota")?;
                match word.text {
                    "weight" => group.weight = u64::from(line.count("a weight", (2, 1 << 18))?),
                    "in" => group.parent = Some(line.one_of(&self.names.groups, "group")?),
                    "quota" => {
                        group.quota_ns = line.duration()?;
                        line.expect("of")?;
                        group.period_ns = line.duration()?;
                        // `cpu.max` takes 1 ms to 1 s (kernel/sched/core.c, tg_set_cfs_bandwidth()).
                        if group.quota_ns < 1_000_000 || !(1_000_000..=1_000_000_000).contains(&group.period_ns) {
                            let why = "a quota is at least 1ms, its period between 1ms and 1s";
                            return Err(line.wrong(line.last(), why));
                        }
                    }
                    _ => return Err(line.wrong(word, "weight, in or quota was expected")),
                }
                if !line.is(",") {
                    break;
                }
            }
        }
        add(&mut self.names.groups, line, name, MOST_NAMES)?;
        self.load.groups.push(group);
        Ok(())
    }

    fn program<'a>(
        &mut self,
        mut line: SourceLine<'a>,
        rest: &mut impl Iterator<Item = SourceLine<'a>>,
    ) -> Result<(), Problem> {
        let name = line.name("program")?;
        if self.names.programs.get(name.text) != Some(&(self.load.programs.len() as u32)) {
            return Err(line.wrong(name, "a program stands inside another one").hint("end that one with a line `}`"));
        }
        let role = match line.is("as") {
            true => line.name("role")?.text,
            false => "load",
        };
        line.expect("{")?;
        line.end()?;
        let mut writer = Writer::new(&mut self.names);
        let ops = writer.program(&line, rest)?;
        self.forks |= writer.forks;
        self.shown.lines.push(std::mem::take(&mut writer.lines));
        self.load.programs.push(Program { name: name.text.to_owned(), role: role.to_owned(), ops });
        Ok(())
    }

    fn task(&mut self, line: &mut SourceLine<'_>, count: u32) -> Result<(), Problem> {
        let mut spec = TaskSpec::new(line.one_of(&self.names.programs, "program")?, 0);
        let mut own_process = false;
        while line.is(",") {
            if line.is("own process") {
                own_process = true;
            } else {
                self.option(line, &mut spec)?;
            }
        }
        if self.load.tasks.len() + count as usize > MOST_TASKS as usize {
            return Err(line.wrong(line.last(), format!("there are more than {MOST_TASKS} tasks")));
        }
        for _ in 0..count {
            if own_process {
                self.processes += 1;
                spec.process = self.processes;
            }
            self.load.tasks.push(spec);
            self.shown.task_lines.push(line.number());
        }
        Ok(())
    }

    fn option(&mut self, line: &mut SourceLine<'_>, spec: &mut TaskSpec) -> Result<(), Problem> {
        let word = line.word("a property of the task")?;
        match word.text {
            "on" => {
                line.expect("cpu")?;
                spec.pinned = Some(line.count("a CPU", (0, u32::MAX - 1))?);
            }
            "nice" => spec.weight = weight::of_nice(line.whole("a nice value", (-20, 19))? as i32),
            "batch" => spec.policy = Policy::Batch,
            "idle" => spec.policy = Policy::Idle,
            "fifo" => spec.policy = Policy::Fifo(line.count("a priority", (1, 99))? as u8),
            "rr" => spec.policy = Policy::Rr(line.count("a priority", (1, 99))? as u8),
            "slice" => {
                let ns = line.duration()?;
                // `sched_attr.sched_runtime` of SCHED_OTHER (kernel/sched/syscalls.c, v6.12).
                if !(100_000..=100_000_000).contains(&ns) {
                    return Err(line.wrong(line.last(), "a slice is between 100us and 100ms"));
                }
                spec.slice_ns = Some(ns);
            }
            "in" => spec.group = Some(line.one_of(&self.names.groups, "group")?),
            "at" => spec.begins_ns = Some(line.duration()?),
            "inbox" => spec.inbox = Some(line.one_of(&self.names.channels, "channel")?),
            "peer" => spec.peer = Some(line.one_of(&self.names.channels, "channel")?),
            _ => {
                let known = "on cpu, nice, batch, idle, fifo, rr, slice, in, at, own process, inbox, peer";
                return Err(line.wrong(word, "tasks have no such property").hint(format!("they have {known}")));
            }
        }
        Ok(())
    }

    fn run(&mut self, line: &mut SourceLine<'_>) -> Result<(), Problem> {
        let ns = line.duration()?;
        match (ns, self.length_ns) {
            (0, _) => Err(line.wrong(line.last(), "the time is 0")),
            (_, Some(_)) => Err(line.wrong(line.last(), "there is a run line above")),
            _ => {
                self.length_ns = Some(ns);
                Ok(())
            }
        }
    }

    fn finish(mut self) -> Scenario {
        let Load { tasks, programs, .. } = &self.load;
        // A name alone where there is one task of a program, otherwise with a number.
        let name = |(at, task): (usize, &TaskSpec)| {
            let same = |tasks: &[TaskSpec]| tasks.iter().filter(|t| t.program == task.program).count();
            let name = &programs[task.program as usize].name;
            if same(tasks) == 1 { name.clone() } else { format!("{name}-{}", same(&tasks[..at]) + 1) }
        };
        self.shown.tasks = tasks.iter().enumerate().map(name).collect();
        self.shown.programs = programs.iter().map(|program| program.name.clone()).collect();
        if self.forks && self.load.most_tasks == 0 {
            self.load.most_tasks = self.load.tasks.len() + FORKS as usize;
        }
        self.load.marks = self.names.marks.len();
        let length_ns = self.length_ns.unwrap_or(LENGTH_NS);
        Scenario { load: self.load, names: self.shown, length_ns, seed: self.seed.unwrap_or(1) }
    }
}
