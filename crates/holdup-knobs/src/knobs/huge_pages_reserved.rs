//! How many huge pages the kernel holds ready.

use crate::refused::{garbled, write_refused, wrong};
use crate::sample::{Foreign, Sample};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::io::ErrorKind;

/// `huge-pages-reserved`.
pub(crate) struct HugePagesReserved;

const PATH: &str = "/proc/sys/vm/nr_hugepages";

static META: Meta = Meta {
    id: "huge-pages-reserved",
    summary: "huge pages of the default size that the kernel reserves",
    docs: "PostgreSQL with huge_pages = on (or try) takes its shared memory from these pages; it needs a few per cent \
           more than shared_buffers (SHOW shared_memory_size_in_huge_pages). The number is of pages of the \
           default size, mostly 2 MB.\n\n\
           The kernel gives what it can find in one piece, which on a host that ran for long may be fewer than \
           asked for. holdup reads the number back; fewer is an error that says how many, and the old number is put \
           back. A number that does not fit into the available memory is refused before it is tried.",
    references: &[
        "Documentation/admin-guide/mm/hugetlbpage.rst (v6.18)",
        "mm/hugetlb.c:set_max_huge_pages (v6.18)",
        "PostgreSQL documentation, 19.4.5 Linux Huge Pages",
    ],
};

impl Knob for HugePagesReserved {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Integer { min: 0, max: i64::from(u32::MAX) }
    }

    fn samples(&self) -> &'static [Sample] {
        // Fewer than the memory holds, because putting them back asks whether they fit.
        const {
            &[Sample {
                real_levels: &["0", "2", "5"],
                foreign: Some(Foreign { path: PATH, content: "99\n", named: "99" }),
                is_paired: true,
                ..Sample::number("huge-pages-reserved", PATH, "1\n", ["6", "3"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the sysctl vm.nr_hugepages: memory of the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        match context.host.read_value(PATH) {
            Err(e) if e.kind == ErrorKind::NotFound => Availability::unavailable_but(
                format!("{PATH} does not exist: the kernel has no huge pages"),
                "use a kernel with CONFIG_HUGETLBFS=y",
            ),
            Err(e) => Availability::unavailable(e.to_string()),
            Ok(_) => match context.host.may_write(PATH) {
                Ok(()) => Availability::Ready,
                Err(e) => write_refused(context.host, &e),
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        reserved(context.host).map(Value::Integer)
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        pages(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (wanted, before) = (pages(value)?, reserved(context.host)?);
        let what = || format!("factor huge-pages-reserved = {wanted}");
        if let Some((more, available)) = too_much(context.host, wanted - before) {
            return Err(Problem::host(what(), format!("{more} bytes more are needed and {available} are available"))
                .hint("ask for fewer pages, or free memory"));
        }
        context.host.write(PATH, &wanted.to_string())?;
        let given = reserved(context.host)?;
        if given < wanted && wanted > before {
            return Err(Problem::host(what(), format!("the kernel gave {given} of {wanted} pages")).hint(
                "free memory is in pieces: try `echo 1 > /proc/sys/vm/compact_memory`, or reserve at boot with hugepages=N",
            ));
        }
        Ok(())
    }

    /// The kernel may stop half way, so that any number between the old and the written one is of holdup's making.
    fn standing(&self, context: &KnobContext<'_>, instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let now = self.read(context, instance)?;
        if now == *past.saved {
            return Ok(Standing::Restored);
        }
        let numbers: Vec<i64> = past.written.iter().chain([past.saved]).filter_map(|v| pages(v).ok()).collect();
        let found = pages(&now)?;
        let is_ours = numbers.iter().min().is_some_and(|least| *least <= found)
            && numbers.iter().max().is_some_and(|most| found <= *most);
        Ok(if is_ours { Standing::Ours(now) } else { Standing::Foreign(now) })
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("sysctl vm.nr_hugepages={}", shell_quoted(&saved.to_string()))
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let sysctl = |pages: i64| Destination::Sysctl { key: "vm.nr_hugepages".to_owned(), value: pages.to_string() };
        pages(value).map(sysctl).into_iter().collect()
    }
}

fn pages(value: &Value) -> Result<i64, Problem> {
    match value {
        Value::Integer(pages) if (0..=i64::from(u32::MAX)).contains(pages) => Ok(*pages),
        _ => Err(wrong("huge-pages-reserved", value, "a number of pages from 0 up")),
    }
}

fn reserved(host: &Host) -> Result<i64, Problem> {
    let text = host.read_value(PATH)?;
    text.parse().map_err(|_| garbled(PATH, &text))
}

/// The bytes that `more` pages take and those available, when they do not fit. `None` also when
/// that is not known: the kernel then decides.
fn too_much(host: &Host, more: i64) -> Option<(u64, u64)> {
    let text = host.read_text("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let needed = bytes("Hugepagesize")?.saturating_mul(u64::try_from(more).ok()?);
    let available = bytes("MemAvailable")?;
    (needed > available).then_some((needed, available))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn more_than_the_memory_holds_is_refused_before_it_is_tried() {
        let fs = MemoryFs::of(&[(PATH, "0\n"), ("/proc/meminfo", "MemAvailable: 8192 kB\nHugepagesize: 2048 kB\n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        HugePagesReserved.write(&context, "", &Value::Integer(4)).expect("they fit");
        fs.put(PATH, "0\n");
        fs.arm(None);
        let refused = HugePagesReserved.write(&context, "", &Value::Integer(5)).expect_err("too many");
        assert!(refused.why.contains("10485760 bytes"), "{refused}");
        assert!(fs.log().iter().all(|o| o.name != "write"));
    }
}
