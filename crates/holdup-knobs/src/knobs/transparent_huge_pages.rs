//! Whether the kernel backs anonymous memory with huge pages by itself.

use crate::refused::{garbled, probe_file, wrong};
use crate::sample::{Answer, KernelText, Sample, Surface, choose};
use crate::{Knob, KnobContext};
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `transparent-huge-pages`.
pub(crate) struct TransparentHugePages;

const PATH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MODES: &[&str] = &["always", "madvise", "never"];

static META: Meta = Meta {
    id: "transparent-huge-pages",
    summary: "huge pages for anonymous memory: always, madvise, never",
    docs: "With `always` the kernel gives huge pages to any anonymous memory that is large enough, with `madvise` only \
           where a program asked for them with madvise(MADV_HUGEPAGE), with `never` nowhere.\n\n\
           It acts on memory that is touched for the first time after the change, and on what khugepaged collects \
           later; pages that are huge already stay so. So a server that shall be measured under it must be started \
           after it. It is about private memory: the shared memory of PostgreSQL counts as shmem, which has a \
           separate switch (shmem_enabled) and, with huge_pages, reserved pages (huge-pages-reserved).\n\n\
           A size of pages whose own switch says `inherit` (hugepages-*kB/enabled, 6.8 and later) follows this one.",
    references: &[
        "Documentation/admin-guide/mm/transhuge.rst (v6.18)",
        "mm/huge_memory.c:enabled_show, enabled_store (v6.18)",
    ],
};

impl Knob for TransparentHugePages {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Choice(MODES)
    }

    fn samples(&self) -> &'static [Sample] {
        const FILE: KernelText = KernelText {
            answer: Answer::Made(|_, mode| choose(MODES, ['[', ']'], mode)),
            ..KernelText::new(PATH, "always [madvise] never\n")
        };
        // There is no third mode beside the old one and the two levels, so another writer's cannot be distinguished.
        const {
            &[Sample {
                real_levels: MODES,
                ..Sample::new("transparent-huge-pages", Surface::File(FILE), ["always", "never"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        format!("{PATH}, for the whole host")
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        probe_file(context.host, PATH, || {
            Availability::unavailable_but(
                format!("{PATH} does not exist: the kernel has no transparent huge pages"),
                "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y on hardware that has huge pages",
            )
        })
    }

    /// The word in brackets: the file lists all modes, `always [madvise] never`.
    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let text = context.host.read_value(PATH)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
        match chosen {
            Some(word) if MODES.contains(&word) => Ok(Value::Text(word.to_owned())),
            _ => Err(garbled(PATH, &text)),
        }
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        mode(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        Ok(context.host.write(PATH, mode(value)?)?)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("echo {} > {PATH}", shell_quoted(&saved.to_string()))
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![Destination::File { path: PATH.to_owned(), value: value.to_string() }]
    }
}

fn mode(value: &Value) -> Result<&str, Problem> {
    match value {
        Value::Text(word) if MODES.contains(&word.as_str()) => Ok(word),
        _ => Err(wrong(META.id, value, "always, madvise or never")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn the_word_in_brackets_is_read_and_nothing_else() {
        let read = |content: &str| {
            let host = MemoryFs::of(&[(PATH, content)]).host();
            TransparentHugePages.read(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "").ok()
        };
        assert_eq!(read("always [madvise] never\n"), Some(Value::Text("madvise".to_owned())));
        assert_eq!(read("always madvise [never]"), Some(Value::Text("never".to_owned())));
        for broken in ["", "always madvise never", "[", "][", "always [defer] never", "[always", "\u{0}"] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
        for wrong in [Value::Bool(true), Value::Text("Always".to_owned()), Value::Text("[never]".to_owned())] {
            assert!(TransparentHugePages.check("", &wrong).is_err(), "{wrong:?}");
        }
    }
}
