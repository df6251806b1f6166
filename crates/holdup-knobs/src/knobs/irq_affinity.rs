//! The CPUs to which interrupts are delivered.

use crate::pieces::{self, Files, Pieces};
use crate::refused::{write_refused, wrong};
use crate::sample::{Answer, Foreign, KernelText, Sample, Surface};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::{Host, HostError, cpu_list, cpu_ranges, online_cpus};
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// `irq-affinity`.
pub(crate) struct IrqAffinity;

const FOLDER: &str = "/proc/irq";
const FILE: &str = "smp_affinity_list";
/// What stands between the CPUs and the interrupts that are bound.
const BOUND: &str = "; bound by the kernel: IRQ ";

static META: Meta = Meta {
    id: "irq-affinity",
    summary: "CPUs that interrupts go to, such as 0-1",
    docs: "A list of CPUs, written to smp_affinity_list of every interrupt that accepts it. An interrupt stops the task that \
           runs on its CPU, so CPUs that get none are quieter; on the CPUs that get all, tasks are delayed more.\n\n\
           Interrupts that the kernel binds itself (per-CPU ones, and the managed queues of disks and network cards) \
           refuse it; they are left as they are, and the value that is read back names them. What each single \
           interrupt had before is kept and put back. An interrupt that appears later has the default of the host \
           (default_smp_affinity), which is not changed.\n\n\
           irqbalance moves interrupts by itself every ten seconds; holdup then reports that someone else changed \
           them. Stop it first.",
    references: &[
        "Documentation/core-api/irq/irq-affinity.rst (v6.18)",
        "kernel/irq/proc.c:write_irq_affinity; kernel/irq/manage.c:irq_can_set_affinity_usr (v6.18)",
    ],
};

impl Knob for IrqAffinity {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        // The last interrupt is bound by the kernel, which reads a list only of one that it does not bind.
        const OF_IRQ: KernelText = KernelText {
            answer: Answer::Made(|_, list| cpu_list(list).map(|_| list.to_owned())),
            ..KernelText::new("/proc/irq/8/smp_affinity_list", "0-3\n")
        };
        const {
            &[Sample {
                real_levels: &["0", "1"],
                foreign: Some(Foreign { path: OF_IRQ.path, content: "1,3\n", named: "1,3" }),
                has_parts: true,
                ..Sample::new(
                    "irq-affinity",
                    Surface::Files(&[
                        KernelText { path: "/proc/irq/1/smp_affinity_list", ..OF_IRQ },
                        OF_IRQ,
                        KernelText { path: "/proc/irq/24/smp_affinity_list", answer: Answer::Refused, ..OF_IRQ },
                    ]),
                    ["0", "1-2"],
                )
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        format!("{FOLDER}/*/{FILE} of every interrupt that accepts it, for the whole host")
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let host = context.host;
        let paths = match interrupts(host) {
            Ok(paths) if !paths.is_empty() => paths,
            Ok(_) => return Availability::unavailable(format!("{FOLDER} has no interrupt whose CPUs could be set")),
            Err(problem) => return Availability::unavailable(format!("{}: {}", problem.what, problem.why)),
        };
        // Newer kernels take the right to write away from those that are bound, so one that may be written is enough.
        let asked: Vec<_> = paths.iter().map(|path| host.may_write(path)).collect();
        match asked.into_iter().reduce(Result::or) {
            Some(Err(e)) => write_refused(host, &e),
            _ => Availability::Ready,
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let host = context.host;
        let paths = interrupts(host)?;
        let refusing = bound(host, &paths);
        let (open, bound): (Vec<String>, Vec<String>) = paths.into_iter().partition(|path| !refusing.contains(path));
        let open = lasting(|| pieces::read(host, &open), |files| files.values().min() == files.values().max())?;
        if open.is_empty() {
            return Err(Problem::host(format!("factor {}", META.id), "there is no interrupt whose CPUs could be set"));
        }
        let found = in_force(&open);
        let mut numbers: Vec<u32> = bound.iter().filter_map(|path| number(path)).collect();
        numbers.sort_unstable();
        let note = if numbers.is_empty() { String::new() } else { format!("{BOUND}{}", cpu_ranges(&numbers)) };
        Ok(Value::Text(format!("{found}{note}")))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        wanted(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (host, cpus) = (context.host, wanted(value)?);
        if let Some(online) = online_cpus(host) {
            let offline: Vec<u32> = cpus.iter().copied().filter(|cpu| !online.contains(cpu)).collect();
            if !offline.is_empty() {
                return Err(Problem::host(
                    format!("factor {} = {value}", META.id),
                    format!("offline CPUs: {}", cpu_ranges(&offline)),
                )
                .hint(format!("it can be of {}", cpu_ranges(&online))));
            }
        }
        let list = cpu_ranges(&cpus);
        let paths = interrupts(host)?;
        let bound = bound(host, &paths);
        for path in paths.iter().filter(|path| !bound.contains(*path)) {
            match host.write(path, &list) {
                Err(e) if e.is_gone() => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        match (wanted(a), wanted(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        }
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        pieces::save(context.host, &interrupts(context.host)?, already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        pieces::overlaps(&interrupts(context.host)?, saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        lasting(|| pieces_of(context.host).standing(past), |found| *found == Standing::Restored)
    }

    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        pieces_of(context.host).restore(past)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        let line = pieces::by_hand(saved).unwrap_or_else(|| format!("echo LIST > {FOLDER}/N/{FILE}"));
        format!("{line}   # those that the kernel binds refuse it and need none")
    }
}

fn pieces_of(host: &Host) -> Pieces<'_> {
    Pieces {
        host,
        has: &|_, now, level| wanted(level).is_ok_and(|cpus| cpu_list(now).is_some_and(|now| now == cpus)),
        below: FOLDER,
        summary: &in_force,
        gone: "the interrupts went",
    }
}

/// What is read, again after a pause if it is not as expected, until two in succession are the same.
///
/// Where an interrupt is moved when it next occurs (x86 without remapping), its file shows for a moment of that move
/// what it held before: the pending mask is not shown any more and the affinity is not set yet, which lasts as long as
/// the hypervisor takes to write the message (`kernel/irq/migration.c:irq_move_masked_irq`,
/// `kernel/irq/proc.c:show_irq_affinity`, v6.18).
fn lasting<T: PartialEq>(
    mut read: impl FnMut() -> Result<T, Problem>,
    is_expected: impl Fn(&T) -> bool,
) -> Result<T, Problem> {
    let mut found = read()?;
    for _ in 0..10 {
        if is_expected(&found) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        let again = read()?;
        if again == found {
            break;
        }
        found = again;
    }
    Ok(found)
}

fn in_force(files: &Files) -> Value {
    pieces::summary(files.values(), "interrupts")
}

/// The CPUs of a level, or of a value that was read back, without the note on interrupts that are bound.
fn wanted(value: &Value) -> Result<Vec<u32>, Problem> {
    let refused = || wrong(META.id, value, "a list of CPUs such as 0-3,7");
    let Value::Text(text) = value else { return Err(refused()) };
    let list = text.split_once(BOUND).map_or(text.as_str(), |(list, _)| list);
    let mut cpus = cpu_list(list).filter(|cpus| !cpus.is_empty()).ok_or_else(refused)?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The file of each interrupt.
fn interrupts(host: &Host) -> Result<Vec<String>, Problem> {
    let names = host.list(FOLDER)?;
    let numbers = names.iter().filter(|name| name.parse::<u32>().is_ok());
    Ok(numbers.map(|name| format!("{FOLDER}/{name}/{FILE}")).collect())
}

fn number(path: &str) -> Option<u32> {
    path.strip_prefix(FOLDER)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// The interrupts that the kernel binds itself.
///
/// Newer kernels take the right to write away from their files (seen in v6.18). Where no file is without it, the kernel
/// may be an older one, which only a write shows: so one is made that changes nothing, of a list that is none. It
/// is refused with EPERM (EIO in older ones) where every list would be, and else, when the kernel reads it, with
/// EINVAL (`kernel/irq/proc.c:write_irq_affinity`).
fn bound(host: &Host, paths: &[String]) -> BTreeSet<String> {
    let is_closed = |path: &&String| host.mode(path).is_ok_and(|mode| mode & 0o222 == 0);
    let closed: BTreeSet<String> = paths.iter().filter(is_closed).cloned().collect();
    if !closed.is_empty() {
        return closed;
    }
    paths.iter().filter(|path| host.write(path, "-").is_err_and(|e| is_refusal(&e))).cloned().collect()
}

fn is_refusal(error: &HostError) -> bool {
    ["operation not permitted", "input/output error"].contains(&error.message.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;
    use std::io;

    fn file(irq: u32) -> String {
        format!("{FOLDER}/{irq}/{FILE}")
    }

    /// Three that accept a list, and one that the kernel binds; a new kernel says so with EPERM and closes the file.
    fn four(errno: i32) -> MemoryFs {
        let fs =
            MemoryFs::of(&[("/sys/devices/system/cpu/online", "0-3\n"), ("/proc/irq/default_smp_affinity", "f\n")]);
        for irq in [1, 8, 9, 24] {
            fs.put(&file(irq), "0-3\n");
            fs.on_write(&file(irq), |bytes| {
                let is_list = cpu_list(&String::from_utf8_lossy(bytes)).is_some();
                if is_list { Ok(bytes.to_vec()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
            });
        }
        fs.refuse("write", &file(24), errno);
        fs
    }

    #[test]
    fn interrupts_that_are_bound_are_left_out_and_named() {
        for errno in [libc::EPERM, libc::EIO] {
            let fs = four(errno);
            let host = fs.host();
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            let text = |t: &str| Value::Text(t.to_owned());
            let read = || IrqAffinity.read(&context, "").expect("they are there");
            assert_eq!(
                (read(), IrqAffinity.probe(&context, "")),
                (text("0-3; bound by the kernel: IRQ 24"), Availability::Ready)
            );
            let wrote = fs.log().iter().any(|o| o.name == "write");
            assert_eq!(wrote, errno == libc::EIO, "only an older kernel has to be asked by a write");
            let saved = IrqAffinity.save(&context, "", &[]).expect("there").expect("fresh");
            IrqAffinity.write(&context, "", &text("2")).expect("three take it");
            assert!(IrqAffinity.same(&text("2"), &read()), "{}", read());
            let held = [1, 8, 9, 24].map(|irq| fs.get(&file(irq)).expect("there").trim().to_owned());
            assert_eq!(held, ["2", "2", "2", "0-3"]);
            let ever = [text("2")];
            let past = Past { saved: &saved, written: &ever, ever: &ever };
            IrqAffinity.restore(&context, "", &past).expect("they take it");
            assert_eq!(IrqAffinity.standing(&context, "", &past), Ok(Standing::Restored));
            let offline = IrqAffinity.write(&context, "", &text("3-5")).expect_err("offline");
            assert!(offline.why.contains("4-5"), "{offline}");
            for wrong in ["", "all", "-", "0-3 on 2"] {
                assert!(IrqAffinity.check("", &text(wrong)).is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn what_an_interrupt_shows_while_it_moves_is_not_believed() {
        let of = |found: &[u32]| {
            let mut readings = found.iter();
            let read = || readings.next().copied().ok_or_else(|| Problem::internal("readings", "there are no more"));
            lasting(read, |cpus| *cpus == 3).expect("enough")
        };
        assert_eq!([of(&[3]), of(&[1, 3]), of(&[1, 2, 3]), of(&[1, 1]), of(&[2, 1, 1])], [3, 3, 3, 1, 1]);
    }

    #[test]
    fn without_the_right_to_write_it_is_not_there() {
        let fs = four(libc::EPERM);
        for irq in [1, 8, 9, 24] {
            fs.refuse("write", &file(irq), libc::EACCES);
        }
        let host = fs.host();
        let found = IrqAffinity.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
        assert!(format!("{found:?}").contains("run holdup as root"), "{found:?}");
    }
}
