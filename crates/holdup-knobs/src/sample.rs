//! What tests set of a knob: the sweeps over a host in memory, the tests on a real host, and `script/swarm`. Each walks
//! the catalogue, so a knob brings its samples in its own file. They are data only: the release never reads them.

/// A factor as the tests set it.
pub struct Sample {
    /// The factor: the knob's id, or its prefix with an instance.
    pub factor: &'static str,
    /// What it acts on, as the host in memory has it at first.
    pub surface: Surface,
    /// Two levels, as a plan writes them, that are set one after the other on the host in memory.
    pub levels: [&'static str; 2],
    /// Levels that are tried on a real host. Those that it refuses are left out with the reason.
    pub real_levels: &'static [&'static str],
    /// What another writer puts into a file meanwhile. `None` where holdup and the kernel have all values between them,
    /// so that another writer's cannot be distinguished, and where the surface is no file.
    pub foreign: Option<Foreign>,
    /// True if pairs with other such factors are swept: one factor for each way to change something.
    pub is_paired: bool,
    /// True if a report names more than the one thing that another writer changed.
    pub has_parts: bool,
}

/// What a factor acts on.
pub enum Surface {
    File(KernelText),
    /// Several, set together.
    Files(&'static [KernelText]),
    /// One word of a file that other factors share; it has `NO_` before it when it is off.
    Word(&'static str, KernelText),
    /// A device that is held open, and what is read of it at first.
    Held(&'static str, [u8; 4]),
    /// Policies, nice values and slices of the tasks under test.
    Policies,
    /// The CPUs of the tasks under test.
    Affinity,
    /// A setting of the server.
    Setting(&'static str),
    /// Nothing that the host in memory has: only its levels on real hosts count.
    RealOnly,
}

/// A file of the kernel.
#[derive(Clone, Copy)]
pub struct KernelText {
    pub path: &'static str,
    /// What it holds at first.
    pub content: &'static str,
    /// How it answers to a write.
    pub answer: Answer,
}

/// What is read of a file after a write.
#[derive(Clone, Copy)]
pub enum Answer {
    /// What was written.
    Same,
    /// What this makes of the text before and of the text that was written; `None` is EINVAL.
    Made(fn(&str, &str) -> Option<String>),
    /// Writes are refused with EPERM.
    Refused,
}

/// What another writer puts into a file.
pub struct Foreign {
    /// The file.
    pub path: &'static str,
    /// Its text afterwards.
    pub content: &'static str,
    /// The value as a report names it.
    pub named: &'static str,
}

impl KernelText {
    /// A file that holds what was written last.
    pub const fn new(path: &'static str, content: &'static str) -> Self {
        KernelText { path, content, answer: Answer::Same }
    }
}

impl Sample {
    pub const fn new(factor: &'static str, surface: Surface, levels: [&'static str; 2]) -> Self {
        let real_levels = &[];
        Sample { factor, surface, levels, real_levels, foreign: None, is_paired: false, has_parts: false }
    }

    /// A number in one file; 777 is another writer's.
    pub const fn number(
        factor: &'static str,
        path: &'static str,
        content: &'static str,
        levels: [&'static str; 2],
    ) -> Self {
        let foreign = Some(Foreign { path, content: "777\n", named: "777" });
        Sample { foreign, ..Sample::new(factor, Surface::File(KernelText::new(path, content)), levels) }
    }
}

/// What a file that lists all words shows when one was written: that one between `open` and `close`.
pub(crate) fn choose(words: &[&str], [open, close]: [char; 2], wanted: &str) -> Option<String> {
    let shown = |word: &&str| if *word == wanted { format!("{open}{word}{close} ") } else { format!("{word} ") };
    words.contains(&wanted).then(|| words.iter().map(shown).collect())
}
