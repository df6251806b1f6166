//! How long an idle CPU may take to wake up.

use crate::refused::{garbled, write_refused, wrong};
use crate::sample::{Sample, Surface};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use std::io::ErrorKind;

/// `cpu-dma-latency`.
pub(crate) struct CpuDmaLatency;

const DEVICE: &str = "/dev/cpu_dma_latency";
/// What the device says without any request, in µs: no limit (PM_QOS_CPU_LATENCY_DEFAULT_VALUE).
const NO_LIMIT_US: i32 = 2_000_000_000;

static META: Meta = Meta {
    id: "cpu-dma-latency",
    summary: "longest time that an idle CPU may take to wake up, such as 10us",
    docs: "Idle CPUs sleep the deeper the longer they expect to be idle, and the deeper they sleep the longer they take \
           to wake up: from 1 us to some hundred us. This keeps them from states that take longer than the value; 0 \
           means that they do not sleep at all but spin, which costs power and on some processors the turbo of the \
           other cores.\n\n\
           It is a request to the kernel that holds for as long as the file is open: holdup keeps /dev/cpu_dma_latency \
           open while the level is in force. If holdup is killed, the kernel closes it, and all is as before. The \
           shortest of all requests is in force, so a level above what another program (tuned, say) asks for cannot be \
           had, and is an error.\n\n\
           The unit is whole microseconds. A host without a cpuidle driver, as many virtual machines are, has no states \
           to choose from; holdup says so.",
    references: &[
        "Documentation/power/pm_qos_interface.rst, Documentation/admin-guide/pm/cpuidle.rst (v6.18)",
        "kernel/power/qos.c:cpu_latency_qos_write, cpu_latency_qos_release (v6.18)",
    ],
};

impl Knob for CpuDmaLatency {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::DURATION
    }

    fn samples(&self) -> &'static [Sample] {
        // What other processes hold is beside what holdup holds.
        const {
            &[Sample {
                real_levels: &["10us", "100us"],
                is_paired: true,
                ..Sample::new("cpu-dma-latency", Surface::Held(DEVICE, NO_LIMIT_US.to_ne_bytes()), ["0ns", "20us"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        format!("{DEVICE}, held open while it is in force: the idle states of all CPUs")
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        match context.host.may_write(DEVICE) {
            Err(e) if e.kind == ErrorKind::NotFound => Availability::unavailable_but(
                format!("{DEVICE} does not exist: the kernel has no CPU idle states to govern, or this is a container"),
                "use a kernel with CONFIG_CPU_IDLE=y, and give the container the device",
            ),
            Err(e) => write_refused(context.host, &e),
            Ok(()) => match context.host.read_value("/sys/devices/system/cpu/cpuidle/current_driver") {
                Ok(driver) if driver == "none" => {
                    Availability::Degraded { reason: "it has no effect: no cpuidle driver is at work".to_owned() }
                }
                _ => Availability::Ready,
            },
        }
    }

    /// The shortest of all requests, those of others too.
    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let bytes = context.host.read(DEVICE)?;
        match <[u8; 4]>::try_from(bytes.as_slice()).map(i32::from_ne_bytes) {
            Ok(us @ 0..) => Ok(Value::Integer(i64::from(us) * 1000)),
            _ => Err(garbled(DEVICE, &format!("{bytes:?}"))),
        }
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        microseconds(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        Ok(context.host.hold(DEVICE, &microseconds(value)?.to_ne_bytes())?)
    }

    /// What another program asks for goes away with it, so that the same value counts only when holdup holds it.
    fn same_here(&self, context: &KnobContext<'_>, _instance: &str, wanted: &Value, found: &Value) -> bool {
        wanted == found && context.host.holds(DEVICE).unwrap_or(false)
    }

    /// The process that holds it: ending that is the only way back from outside.
    fn save(&self, _context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        Ok(already.is_empty().then(|| Value::Integer(i64::from(std::process::id()))))
    }

    fn standing(&self, context: &KnobContext<'_>, instance: &str, _past: &Past<'_>) -> Result<Standing, Problem> {
        if context.host.holds(DEVICE)? {
            self.read(context, instance).map(Standing::Ours)
        } else {
            Ok(Standing::Restored)
        }
    }

    fn restore(&self, context: &KnobContext<'_>, _instance: &str, _past: &Past<'_>) -> Result<(), Problem> {
        Ok(context.host.release(DEVICE)?)
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        format!("kill {}   # it holds {DEVICE} open; with its end the value goes", shell_quoted(&saved.to_string()))
    }

    fn outlives_process(&self) -> bool {
        false
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let us = match value {
            Value::Integer(ns) => u32::try_from(ns / 1000).ok(),
            _ => None,
        };
        us.map(|us| Destination::WakeLatency { us }).into_iter().collect()
    }
}

/// A level in the unit of the device.
fn microseconds(value: &Value) -> Result<i32, Problem> {
    match value {
        Value::Integer(ns) if ns % 1000 == 0 => {
            i32::try_from(ns / 1000).ok().filter(|us| (0..=NO_LIMIT_US).contains(us))
        }
        _ => None,
    }
    .ok_or_else(|| wrong(META.id, value, "a duration in whole microseconds from 0us to 2000s, such as 10us"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn what_others_ask_for_is_not_what_holdup_holds() {
        let fs = MemoryFs::new();
        fs.put(DEVICE, 5_i32.to_ne_bytes());
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        let five = Value::Integer(5000);
        assert_eq!(CpuDmaLatency.read(&context, "").expect("there"), five);
        assert!(!CpuDmaLatency.same_here(&context, "", &five, &five));
        CpuDmaLatency.write(&context, "", &five).expect("it takes");
        assert!(CpuDmaLatency.same_here(&context, "", &five, &five));
        let past = Past { saved: &Value::Integer(1), written: &[], ever: &[] };
        assert_eq!(CpuDmaLatency.standing(&context, "", &past), Ok(Standing::Ours(five)));
        // The end of the process, however it comes, lets go of it.
        fs.end_holding();
        assert_eq!(CpuDmaLatency.standing(&context, "", &past), Ok(Standing::Restored));
    }

    #[test]
    fn values_and_devices_that_are_none_are_refused() {
        for wrong in
            [Value::Integer(1), Value::Integer(-1000), Value::Integer(2_000_000_000_001_000), Value::Bool(true)]
        {
            assert!(CpuDmaLatency.check("", &wrong).is_err(), "{wrong:?}");
        }
        assert!(CpuDmaLatency.check("", &Value::Integer(0)).is_ok());
        let fs = MemoryFs::new();
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
        assert!(format!("{:?}", CpuDmaLatency.probe(&context, "")).contains("CONFIG_CPU_IDLE"));
        for broken in [&b""[..], b"123", b"12345", &(-1_i32).to_ne_bytes()] {
            fs.put(DEVICE, broken);
            assert!(CpuDmaLatency.read(&context, "").is_err(), "{broken:?}");
        }
        fs.put("/sys/devices/system/cpu/cpuidle/current_driver", "none\n");
        assert!(format!("{:?}", CpuDmaLatency.probe(&context, "")).contains("no effect"));
    }
}
