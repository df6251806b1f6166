//! Where the kernel lets a task be preempted.

use crate::kernel_file::KernelFile;
use crate::refused::{garbled, wrong};
use crate::sample::{Answer, Foreign, KernelText, Sample, Surface, choose};
use crate::{Knob, KnobContext};
use holdup_host::Host;
use holdup_model::preempt::{DynamicModels, LAZY_SINCE, RESTRICTED_SINCE};
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, PreemptModel, Problem, Value};

/// `preempt`.
pub(crate) struct Preempt;

const NEWEST: &str = "/sys/kernel/debug/sched/preempt";
const FILE: KernelFile = KernelFile {
    newest: NEWEST,
    older: &[("Linux 5.12", "/sys/kernel/debug/sched_preempt")],
    needs: "a kernel from 5.12 on with CONFIG_PREEMPT_DYNAMIC=y (the default on x86 only), or compare kernels that are \
            built for one model each",
};

static META: Meta = Meta {
    id: "preempt",
    summary: "the preemption model: none, voluntary, full or lazy",
    docs: "full lets a task be preempted nearly everywhere in the kernel. lazy does so as well, but lets a task of the \
           normal policy run on until it leaves the kernel or the next tick comes. none and voluntary preempt a task \
           in the kernel only where it offers that itself (cond_resched; voluntary at more places). On the way back \
           to user mode all four preempt.\n\n\
           The model is changed while the kernel runs, for all CPUs in one step, by rewriting the kernel's code; each \
           change leaves a line `Dynamic Preempt:` in the kernel's log. Which models there are depends on the kernel: \
           none, voluntary and full from 5.12 on, lazy from 6.13 on (x86, arm64, riscv, s390, powerpc, loongarch), \
           and there only full and lazy from 7.0 on, as on every PREEMPT_RT kernel. 6.18 and 6.19 have all four, so \
           they are the ones to compare all four with one binary. A model that this kernel has not is refused before \
           anything is touched.\n\n\
           Without CONFIG_PREEMPT_DYNAMIC, which is off by default except on x86, the model is fixed when the kernel \
           is built and the boot option preempt= is ignored. A locked-down kernel closes the file to everybody; the \
           boot option works there.",
    references: &[
        "kernel/sched/core.c:sched_dynamic_mode, __sched_dynamic_update (v6.18, v7.2)",
        "kernel/sched/debug.c:sched_dynamic_show, sched_dynamic_write (v6.18)",
        "kernel/Kconfig.preempt: PREEMPT_DYNAMIC (v7.2)",
        "Documentation/admin-guide/kernel-parameters.txt: preempt=",
        "commit 7dadeaa6e851 (v7.0): sched: Further restrict the preemption modes",
    ],
};

impl Knob for Preempt {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Choice(PreemptModel::WORDS)
    }

    fn samples(&self) -> &'static [Sample] {
        const MODELS: KernelText = KernelText {
            answer: Answer::Made(|_, model| choose(&["none", "voluntary", "full", "lazy"], ['(', ')'], model)),
            ..KernelText::new(NEWEST, "none voluntary full (lazy) \n")
        };
        const {
            &[Sample {
                real_levels: &["lazy", "full", "none"],
                foreign: Some(Foreign { path: NEWEST, content: "none (voluntary) full lazy \n", named: "voluntary" }),
                ..Sample::new("preempt", Surface::File(MODELS), ["full", "none"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the kernel's preemption model (debugfs sched/preempt), for the whole host".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        match FILE.ask(context.host) {
            Ok(text) if DynamicModels::parse(&text).is_none() => {
                Availability::unavailable(garbled(FILE.path(context.host), &text).to_string())
            }
            Ok(_) => Availability::Ready,
            // The boot option does what lockdown forbids.
            Err(Availability::Unavailable { reason, remedy: Some(remedy) }) if reason.contains("locked down") => {
                Availability::unavailable_but(
                    reason,
                    format!("{remedy}, or compare boots: the boot option preempt= sets the model"),
                )
            }
            Err(hindrance) => hindrance,
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let (path, text) = FILE.read(context.host)?;
        parsed(path, &text).map(|models| Value::Text(models.active.to_owned()))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            Value::Text(model) if PreemptModel::WORDS.contains(&model.as_str()) => Ok(()),
            _ => Err(wrong(META.id, value, "none, voluntary, full or lazy")),
        }
    }

    fn check_here(&self, context: &KnobContext<'_>, instance: &str, value: &Value) -> Result<(), Problem> {
        self.check(instance, value)?;
        let wanted = value.to_string();
        let (path, text) = FILE.read(context.host)?;
        let offered = parsed(path, &text)?.offered;
        if offered.contains(&wanted.as_str()) {
            return Ok(());
        }
        Err(Problem::host(
            format!("factor preempt = {wanted}"),
            format!("this kernel offers only {}", offered.join(" and ")),
        )
        .hint(who_offers(&wanted, &offered, context.host)))
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        match value {
            // What was in force may be a model that a plan cannot name, and is put back all the same.
            Value::Text(model) if DynamicModels::is_word(model) => FILE.write(context.host, model),
            _ => Err(wrong(META.id, value, "none, voluntary, full or lazy")),
        }
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        FILE.by_hand(&saved.to_string())
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![FILE.destination(&value.to_string())]
    }
}

/// What would make a model that is not offered one that is.
fn who_offers(wanted: &str, offered: &[&str], host: &Host) -> String {
    let is_realtime = host.read_value("/sys/kernel/realtime").is_ok_and(|text| text == "1");
    match wanted {
        "none" | "voluntary" if is_realtime => format!("boot a kernel without PREEMPT_RT, before {RESTRICTED_SINCE}"),
        "none" | "voluntary" if offered.contains(&"lazy") => {
            format!(
                "from {RESTRICTED_SINCE} on the kernel has none and voluntary only where it has no lazy; boot an older one"
            )
        }
        "lazy" => format!(
            "lazy came with Linux {LAZY_SINCE}, on x86, arm64, riscv, s390, powerpc and loongarch; boot such a kernel, \
             older than {RESTRICTED_SINCE} to compare it with none and voluntary"
        ),
        _ => format!("boot a kernel that offers {wanted}"),
    }
}

/// What the file holds, as the kernel writes it.
fn parsed<'a>(path: &str, text: &'a str) -> Result<DynamicModels<'a>, Problem> {
    DynamicModels::parse(text).ok_or_else(|| garbled(path, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    const PATH: &str = "/sys/kernel/debug/sched/preempt";
    const MOUNTS: (&str, &str) = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");

    fn text(model: &str) -> Value {
        Value::Text(model.to_owned())
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let check = |files: &[(&str, &str)], refuse: Option<(&str, i32)>, expect: &str| {
            let fs = MemoryFs::of(files);
            if let Some((operation, errno)) = refuse {
                fs.refuse(operation, PATH, errno);
            }
            let host = fs.host();
            let found = Preempt.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
            assert!(format!("{found:?}").contains(expect), "{files:?}: {found:?}");
        };
        let there = (PATH, "none voluntary full (lazy) \n");
        let locked = ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        check(&[], None, "mount -t debugfs");
        check(&[MOUNTS], None, "neither /sys/kernel/debug/sched/preempt nor /sys/kernel/debug/sched_preempt");
        check(&[MOUNTS], None, "CONFIG_PREEMPT_DYNAMIC=y");
        check(&[MOUNTS, locked], None, "the boot option preempt= sets the model");
        check(&[MOUNTS, locked, there], Some(("read", libc::EPERM)), "locked down, also for root");
        check(&[MOUNTS, there], Some(("read", libc::EPERM)), "the boot option preempt= sets the model");
        check(&[MOUNTS, there], Some(("read", libc::EACCES)), "run holdup as root");
        check(&[MOUNTS, there], Some(("write", libc::EROFS)), "mount it writable");
        check(&[MOUNTS, there], None, "Ready");
        check(&[MOUNTS, ("/sys/kernel/debug/sched_preempt", "none (voluntary) full \n")], None, "Ready");
        check(&[MOUNTS, (PATH, "\n")], None, "is not what the kernel writes there");
    }

    #[test]
    fn a_model_that_is_not_offered_is_refused_with_the_reason() {
        let check = |content: &str, realtime: &str, wanted: &str, why: &str, hint: &str| {
            let host = MemoryFs::of(&[(PATH, content), ("/sys/kernel/realtime", realtime)]).host();
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            let refused = Preempt.check_here(&context, "", &text(wanted)).expect_err(wanted);
            assert_eq!(refused.why, why, "{content}");
            assert!(refused.hint.as_deref().is_some_and(|h| h.contains(hint)), "{content}: {refused:?}");
        };
        let two = "this kernel offers only full and lazy";
        check("full (lazy) \n", "0\n", "none", two, "from 7.0 on");
        check("full (lazy) \n", "0\n", "voluntary", two, "boot an older one");
        check("(full) lazy \n", "1\n", "none", two, "without PREEMPT_RT");
        let three = "this kernel offers only none and voluntary and full";
        check("none (voluntary) full \n", "0\n", "lazy", three, "came with Linux 6.13");
        let host = MemoryFs::of(&[(PATH, "full (lazy) \n")]).host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        Preempt.check_here(&context, "", &text("full")).expect("offered");
        assert!(Preempt.check_here(&context, "", &text("rt")).is_err());
        assert!(Preempt.check("", &Value::Integer(0)).is_err());
    }

    #[test]
    fn a_file_that_the_kernel_does_not_write_is_no_reading() {
        let read = |content: &[u8]| {
            let fs = MemoryFs::new();
            fs.put(PATH, content);
            Preempt.read(&KnobContext { host: &fs.host(), postgres: None, pids: Vec::new() }, "")
        };
        assert_eq!(read(b"none voluntary full (lazy) \n").ok(), Some(text("lazy")));
        assert_eq!(read(b"none (laziest)\n").ok(), Some(text("laziest")), "a model of a vendor");
        for content in [&b"none full\n"[..], b"(\xff)\n"] {
            let refused = read(content).expect_err("garbage");
            assert!(refused.why.contains("is not what the kernel writes there"), "{content:?}: {refused}");
        }
    }

    #[test]
    fn a_model_of_a_vendor_is_put_back() {
        let fs = MemoryFs::of(&[(PATH, "full lazy (laziest) \n")]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        let saved = Preempt.read(&context, "").expect("a model");
        Preempt.write(&context, "", &saved).expect("put back");
        assert_eq!(fs.get(PATH).as_deref(), Some("laziest"));
        assert!(Preempt.write(&context, "", &text("a; b")).is_err());
        assert_eq!(
            Preempt.by_hand("", &saved),
            format!("echo laziest > {PATH}   # Linux 5.12: /sys/kernel/debug/sched_preempt")
        );
    }
}
