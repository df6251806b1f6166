//! Which governor chooses the frequency of the CPUs.

use crate::pieces::{self, Files, Pieces};
use crate::refused::{write_refused, wrong};
use crate::sample::{Foreign, KernelText, Sample, Surface};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::{Host, HostError};
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `cpu-governor`.
pub(crate) struct CpuGovernor;

const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
/// A governor whose state, the speed that somebody chose, is lost when another one takes over.
const USERSPACE: &str = "userspace";

static META: Meta = Meta {
    id: "cpu-governor",
    summary: "frequency governor of all CPUs: performance, powersave, schedutil …",
    docs: "The governor chooses the frequency of a CPU from its load. `performance` stays at the highest, which is \
           what most measurements want; `powersave` at the lowest, but with intel_pstate in active mode it is the \
           driver's own choice by load. The host lists what it has in scaling_available_governors; another one is \
           refused.\n\n\
           It is set for every policy (a group of CPUs with one frequency), and what each had before is kept and put \
           back for each. The tunables of a governor (ondemand/…, schedutil/…) begin anew when it is set again. A \
           policy under `userspace` is refused, because the speed that was chosen there could not be put back.\n\n\
           Most virtual machines have no frequencies to choose: the hypervisor's host does it.",
    references: &[
        "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst (v6.18)",
        "drivers/cpufreq/cpufreq.c:store_scaling_governor (v6.18)",
    ],
};

impl Knob for CpuGovernor {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        const OF_POLICY: KernelText =
            KernelText::new("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n");
        const OF_OTHER: KernelText =
            KernelText::new("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "ondemand\n");
        const {
            &[Sample {
                real_levels: &["performance", "powersave"],
                foreign: Some(Foreign { path: OF_OTHER.path, content: "conservative\n", named: "conservative" }),
                has_parts: true,
                ..Sample::new("cpu-governor", Surface::Files(&[OF_POLICY, OF_OTHER]), ["performance", "schedutil"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        format!("{POLICIES}/policy*/scaling_governor, for all CPUs")
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        let host = context.host;
        let paths = match governors(host) {
            Ok(paths) => paths,
            Err(e) if e.is_gone() => Vec::new(),
            Err(e) => return Availability::unavailable(e.to_string()),
        };
        let Some(first) = paths.first() else { return missing(host) };
        match host.may_write(first) {
            Err(e) => write_refused(host, &e),
            Ok(()) => match self.read(context, "") {
                Ok(_) => Availability::Ready,
                Err(problem) => Availability::unavailable(format!("{}: {}", problem.what, problem.why)),
            },
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let files = pieces::read(context.host, &governors(context.host)?)?;
        if files.is_empty() {
            return Err(Problem::host("factor cpu-governor", format!("there is no policy in {POLICIES}")));
        }
        Ok(in_force(&files))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        governor(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (host, wanted) = (context.host, governor(value)?);
        let what = || format!("factor cpu-governor = {wanted}");
        let files = pieces::read(host, &governors(host)?)?;
        // Nothing is touched before every policy was found to have the governor and a way back.
        for (path, now) in files.iter().filter(|(_, now)| *now != wanted) {
            let list = host.read_value(&path.replace("scaling_governor", "scaling_available_governors"))?;
            if !list.split_ascii_whitespace().any(|name| name == wanted) {
                return Err(Problem::host(what(), format!("{path} does not take it")).hint(format!("it has: {list}")));
            }
            if now == USERSPACE {
                return Err(Problem::host(what(), format!("{path} is {USERSPACE}, whose speed could not be put back"))
                    .hint("set another governor by hand first"));
            }
        }
        for (path, _) in files.iter().filter(|(_, now)| *now != wanted) {
            host.write(path, wanted)?;
        }
        Ok(())
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        pieces::save(context.host, &governors(context.host)?, already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        pieces::overlaps(&governors(context.host)?, saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        pieces_of(context.host).standing(past)
    }

    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        pieces_of(context.host).restore(past)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        pieces::by_hand(saved).unwrap_or_else(|| "cpupower frequency-set -g GOVERNOR".to_owned())
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let path = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".to_owned();
        vec![Destination::File { path, value: value.to_string() }]
    }
}

fn pieces_of(host: &Host) -> Pieces<'_> {
    Pieces {
        host,
        has: &|_, now, level| governor(level).is_ok_and(|name| name == now),
        below: "/sys/devices/system/cpu",
        summary: &in_force,
        gone: "the CPUs went offline",
    }
}

fn in_force(files: &Files) -> Value {
    pieces::summary(files.values(), "policies")
}

/// A name as the kernel keeps them: at most 15 letters (CPUFREQ_NAME_LEN).
fn governor(value: &Value) -> Result<&str, Problem> {
    match value {
        Value::Text(name)
            if (1..=15).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'-')
                && name != USERSPACE =>
        {
            Ok(name)
        }
        _ => Err(wrong(META.id, value, "the name of a governor such as performance or schedutil, but not userspace")),
    }
}

/// The file of each policy; that of a CPU is a link to one of them.
fn governors(host: &Host) -> Result<Vec<String>, HostError> {
    let names = host.list(POLICIES)?;
    let policies = names.iter().filter(|name| name.starts_with("policy"));
    Ok(policies.map(|name| format!("{POLICIES}/{name}/scaling_governor")).collect())
}

fn missing(host: &Host) -> Availability {
    let is_virtual = host.read_text("/proc/cpuinfo").is_ok_and(|text| {
        text.lines().any(|l| l.starts_with("flags") && l.split(' ').any(|flag| flag == "hypervisor"))
    });
    if is_virtual {
        return Availability::unavailable_but(
            format!("{POLICIES} has no policy: in this virtual machine the frequency is the hypervisor's affair"),
            "set the governor on the machine that the virtual one runs on, or leave the factor out",
        );
    }
    Availability::unavailable_but(
        format!("{POLICIES} has no policy: no cpufreq driver is at work"),
        "load the driver of this CPU (intel_pstate, amd_pstate, acpi-cpufreq) and let the firmware give the system \
         control over power states",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    fn file(policy: u32, name: &str) -> String {
        format!("{POLICIES}/policy{policy}/{name}")
    }

    fn two(first: &str, second: &str) -> MemoryFs {
        let fs = MemoryFs::new();
        for (policy, now) in [(0, first), (4, second)] {
            fs.put(&file(policy, "scaling_governor"), now);
            fs.put(&file(policy, "scaling_available_governors"), "performance powersave \n");
        }
        fs
    }

    #[test]
    fn what_a_policy_does_not_have_is_refused_before_any_is_touched() {
        let check = |fs: &MemoryFs, wanted: &str, expect: &str| {
            let host = fs.host();
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            fs.arm(None);
            let refused = CpuGovernor.write(&context, "", &Value::Text(wanted.to_owned())).expect_err(wanted);
            assert!(refused.to_string().contains(expect), "{refused}");
            assert!(fs.log().iter().all(|o| o.name != "write"), "{wanted}");
        };
        check(&two("powersave", "powersave"), "schedutil", "does not take it");
        check(&two("powersave", "userspace"), "performance", "could not be put back");
        check(&two("powersave", "powersave"), "userspace", "not a value");
        check(&two("powersave", "powersave"), "a b", "not a value");
    }

    #[test]
    fn why_there_is_none_is_said() {
        let check = |fs: &MemoryFs, expect: &str| {
            let host = fs.host();
            let found = CpuGovernor.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, "");
            assert!(format!("{found:?}").contains(expect), "{found:?}");
        };
        check(&MemoryFs::new(), "no cpufreq driver");
        check(&MemoryFs::of(&[("/proc/cpuinfo", "flags\t\t: fpu hypervisor lahf_lm\n")]), "hypervisor's affair");
        let fs = two("powersave", "performance");
        check(&fs, "Ready");
        fs.refuse("write", &file(0, "scaling_governor"), libc::EACCES);
        check(&fs, "run holdup as root");
    }
}
