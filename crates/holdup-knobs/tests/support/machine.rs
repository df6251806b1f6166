//! The parts of the host in memory that belong to the machine as a whole: memory, CPUs, interrupts.

use holdup_host::fake::MemoryFs;
use holdup_model::Value;
use std::io;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const NUMA: &str = "/proc/sys/kernel/numa_balancing";
/// Tasks with the CPUs that they may run on at first.
const TASKS: [(u32, &[u32]); 4] = [(10, &[0, 1, 2, 3]), (15, &[2]), (11, &[0, 1]), (12, &[3])];
/// The last of them is bound by the kernel.
const IRQS: [u32; 3] = [1, 8, 24];
const LATENCY: &str = "/dev/cpu_dma_latency";
const GROUP: &str = "/sys/fs/cgroup/system.slice/pg.service";
const POLICIES: [&str; 2] = ["/sys/devices/system/cpu/cpufreq/policy0", "/sys/devices/system/cpu/cpufreq/policy2"];

/// Factors that act on several things together, so that a report names more than the one that someone else changed.
pub(super) const OF_PARTS: &[&str] = &["cpu-governor", "cgroup-cpu-max", "affinity", "irq-affinity"];

pub(super) fn factors() -> Vec<(&'static str, [Value; 2])> {
    let text = |t: &str| Value::Text(t.to_owned());
    vec![
        ("transparent-huge-pages", [text("always"), text("never")]),
        ("numa-balancing", [Value::Integer(1), Value::Integer(2)]),
        ("cgroup-cpu-weight", [Value::Integer(200), Value::Integer(1)]),
        ("cgroup-cpu-max", [text("1.5"), text("0.25")]),
        ("affinity", [text("1-2"), text("3,0")]),
        ("irq-affinity", [text("0"), text("1-2")]),
        ("cpu-dma-latency", [Value::Integer(0), Value::Integer(20_000)]),
        ("cpu-governor", [text("performance"), text("schedutil")]),
    ]
}

fn irq_file(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

/// What the kernel lists after a word was written: all of them, the chosen one in brackets.
fn bracketed(words: &'static [&'static str]) -> impl Fn(&[u8]) -> io::Result<Vec<u8>> + Send {
    move |bytes| {
        let asked = String::from_utf8_lossy(bytes).trim().to_owned();
        if !words.contains(&asked.as_str()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let shown: Vec<String> =
            words.iter().map(|word| if *word == asked { format!("[{word}]") } else { (*word).to_owned() }).collect();
        Ok(format!("{}\n", shown.join(" ")).into_bytes())
    }
}

/// Puts the files there.
pub(super) fn put(fs: &MemoryFs) {
    for (path, content) in
        [(THP, "always [madvise] never\n"), (NUMA, "0\n"), ("/sys/devices/system/node/online", "0-1\n")]
    {
        fs.put(path, content);
    }
    for (policy, governor) in POLICIES.iter().zip(["powersave", "ondemand"]) {
        fs.put(&format!("{policy}/scaling_governor"), format!("{governor}\n"));
        fs.put(&format!("{policy}/scaling_available_governors"), "performance powersave ondemand schedutil \n");
    }
    fs.put("/sys/devices/system/cpu/online", "0-3\n");
    fs.put(LATENCY, 2_000_000_000_i32.to_ne_bytes());
    for irq in IRQS {
        fs.put(&irq_file(irq), "0-3\n");
        fs.on_write(&irq_file(irq), |bytes| {
            // The kernel reads a list only of an interrupt that it does not bind.
            let is_list = holdup_host::cpu_list(&String::from_utf8_lossy(bytes)).is_some();
            if is_list { Ok(bytes.to_vec()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
        });
    }
    fs.refuse("write", &irq_file(IRQS[2]), libc::EPERM);
    for (tid, cpus) in TASKS {
        fs.put_affinity(tid, cpus);
    }
    // The kernel's default for four CPUs; one task has its own slice.
    fs.put_default_slice(2_100_000);
    fs.put_own_slice(15, 5_000_000);
    for pid in [10, 11] {
        fs.put(&format!("/proc/{pid}/cgroup"), "0::/system.slice/pg.service\n");
    }
    fs.put(&format!("{GROUP}/cgroup.procs"), "10\n11\n");
    fs.put(&format!("{GROUP}/cpu.weight"), "100\n");
    fs.put(&format!("{GROUP}/cpu.max"), "max 50000\n");
    fs.on_write(&format!("{GROUP}/cpu.max"), |bytes| {
        // A bare `max` keeps the period; the tests have one period beside that which holdup writes.
        Ok(if bytes == b"max" { b"max 100000\n".to_vec() } else { bytes.to_vec() })
    });
    fs.on_write(THP, bracketed(&["always", "madvise", "never"]));
}

/// Everything that a factor acts on, as it is; `None` for a factor of another kind.
pub(super) fn state(fs: &MemoryFs, factor: &str) -> Option<String> {
    let file = |path: &str| fs.get(path).unwrap_or_default().trim().to_owned();
    Some(match factor {
        "transparent-huge-pages" => file(THP),
        "numa-balancing" => file(NUMA),
        "cgroup-cpu-weight" => file(&format!("{GROUP}/cpu.weight")),
        "cgroup-cpu-max" => file(&format!("{GROUP}/cpu.max")),
        "affinity" => format!("{:?}", TASKS.map(|(tid, _)| fs.task_affinity(tid))),
        "irq-affinity" => format!("{:?}", IRQS.map(|irq| file(&irq_file(irq)))),
        "cpu-dma-latency" => format!("{:?}", fs.held(LATENCY)),
        "cpu-governor" => format!("{:?}", POLICIES.map(|policy| file(&format!("{policy}/scaling_governor")))),
        _ => return None,
    })
}

/// What someone else does to a factor; gives the value as a report should name it.
pub(super) fn foreign(fs: &MemoryFs, factor: &str) -> Option<&'static str> {
    let put = |path: &str, content: &str, named: &'static str| {
        fs.put(path, content);
        Some(named)
    };
    match factor {
        // There is no third mode beside the old one and the two levels, and what others hold is beside what holdup holds.
        "transparent-huge-pages" | "cpu-dma-latency" => Some(""),
        "numa-balancing" => put(NUMA, "4\n", "4"),
        "cgroup-cpu-weight" => put(&format!("{GROUP}/cpu.weight"), "77\n", "77"),
        "cgroup-cpu-max" => put(&format!("{GROUP}/cpu.max"), "77 1000\n", "0.077 in periods of 1000us"),
        "affinity" => {
            fs.put_affinity(11, &[1, 3]);
            Some("1,3")
        }
        "irq-affinity" => put(&irq_file(IRQS[1]), "1,3\n", "1,3"),
        "cpu-governor" => put(&format!("{}/scaling_governor", POLICIES[1]), "conservative\n", "conservative"),
        _ => None,
    }
}
