//! What a collector brings to the BPF object.

use aya::programs::perf_event::SoftwareEvent;

/// A collector's part of the BPF object. Its C code is compiled into every program, below `if (want_…)`; the kernel drops
/// parts that are off before it verifies the programs.
#[derive(Debug, Default)]
pub struct Part {
    /// The constants in C that switch it on.
    pub(crate) switches: &'static [&'static str],
    pub(crate) programs: &'static [Program],
    /// The sizes of its rings, bytes; those of parts that are off have a page.
    pub(crate) rings: &'static [(&'static str, u32)],
}

impl Part {
    /// True if it asks for the section maps of the programs under test.
    pub fn has_sections(&self) -> bool {
        self.switches.contains(&"want_sections")
    }
}

/// A program of the object, and where it is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) at: At,
}

/// Where a program is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// A tracepoint, by BTF.
    Tracepoint(&'static str),
    /// One that older kernels lack; the constant in C is 1 where it is there.
    TracepointIfAny(&'static str, &'static str),
    /// The begin of a function of the kernel; the constant in C is 1 where a program can be there.
    Function(&'static str, &'static str),
    /// A software event with its period, on each CPU.
    Event(SoftwareEvent, u64),
}

/// The parts of one window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts(Vec<&'static Part>);

impl Parts {
    /// Adds a part, once.
    pub(crate) fn add(&mut self, part: &'static Part) {
        if !self.0.iter().any(|known| std::ptr::eq(*known, part)) {
            self.0.push(part);
        }
    }

    /// Those that do not switch a constant on.
    pub(crate) fn without(&self, switch: &str) -> Self {
        Parts(self.0.iter().copied().filter(|part| !part.switches.contains(&switch)).collect())
    }

    /// True if a constant is switched on.
    pub(crate) fn has(&self, switch: &str) -> bool {
        self.switches().any(|on| on == switch)
    }

    pub(crate) fn switches(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|part| part.switches).copied()
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = Program> {
        self.0.iter().flat_map(|part| part.programs).copied()
    }

    pub(crate) fn rings(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.0.iter().flat_map(|part| part.rings).copied()
    }
}
