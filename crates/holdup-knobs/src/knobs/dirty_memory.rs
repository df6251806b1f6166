//! From which amount of dirty memory on a program that writes has to wait.

use crate::dirty_limit::DirtyLimit;
use crate::sample::{KernelText, Sample, Surface};
use holdup_model::Meta;

/// `dirty-memory`.
pub(crate) static KNOB: DirtyLimit = DirtyLimit {
    meta: &Meta {
        id: "dirty-memory",
        summary: "dirty memory at which a writing program waits: 20% or 512MB",
        docs: "A program that writes to files while more memory than this is dirty has to write some of it to disk \
               itself. A share is one of the memory that is available, an amount is absolute. The kernel keeps one of \
               the two and shows the other as 0; holdup puts back the one that was in force.",
        references: &[
            "Documentation/admin-guide/sysctl/vm.rst: dirty_bytes, dirty_ratio (v6.18)",
            "mm/page-writeback.c:dirty_bytes_handler, dirty_ratio_handler (v6.18)",
        ],
    },
    ratio: "/proc/sys/vm/dirty_ratio",
    bytes: "/proc/sys/vm/dirty_bytes",
    samples: &[Sample {
        real_levels: &["30%", "512MB"],
        ..Sample::new(
            "dirty-memory",
            Surface::File(KernelText::new("/proc/sys/vm/dirty_ratio", "20\n")),
            ["10%", "40%"],
        )
    }],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Knob, KnobContext};
    use holdup_host::fake::MemoryFs;
    use holdup_model::Value;

    #[test]
    fn the_one_that_is_in_force_is_read_and_put_back() {
        let host = MemoryFs::of(&[(KNOB.ratio, "0\n"), (KNOB.bytes, "536870912\n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        let found = KNOB.read(&context, "").unwrap();
        assert_eq!(found, Value::Text("536870912".into()));
        assert!(KNOB.same(&found, &Value::Text("512MB".into())));
        KNOB.write(&context, "", &Value::Text("30%".into())).unwrap();
        assert_eq!(host.read_value(KNOB.ratio).unwrap(), "30");
        KNOB.write(&context, "", &found).unwrap();
        assert_eq!(host.read_value(KNOB.bytes).unwrap(), "536870912");
        // The kernel takes two pages.
        KNOB.write(&context, "", &Value::Text("8192".into())).unwrap();
        assert!(KNOB.same(&Value::Text("8192".into()), &Value::Text(host.read_value(KNOB.bytes).unwrap())));
        let host = MemoryFs::of(&[(KNOB.ratio, "20\n"), (KNOB.bytes, "0\n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert_eq!(KNOB.read(&context, "").unwrap(), Value::Text("20%".into()));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for wrong in ["", "101%", "-1%", "much", "0", "4kB"] {
            assert!(KNOB.check("", &Value::Text(wrong.into())).is_err(), "{wrong}");
        }
        assert!(KNOB.check("", &Value::Integer(20)).is_err());
    }
}
