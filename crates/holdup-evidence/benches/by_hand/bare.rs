//! The reference: a bare histogram of waits for a CPU, compiled by the bench and loaded as our collectors are.

use crate::cpu_time;
use crate::observers::{Said, Watching};
use crate::stats::{self, Measuring};
use aya::maps::Array;
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};
use std::process::Command;

/// The compiled object.
pub(crate) struct Bare(Vec<u8>);

const PROGRAMS: [(&str, &str); 3] =
    [("wakes", "sched_wakeup"), ("wakes_new", "sched_wakeup_new"), ("switches", "sched_switch")];

impl Bare {
    /// With the compiler and the options that `build.rs` takes.
    pub(crate) fn compile() -> Result<Self, String> {
        let here = env!("CARGO_MANIFEST_DIR");
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let object = folder.path().join("bare.bpf.o");
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let status = Command::new(&clang)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wno-unused-variable"])
            .arg(format!("-I{here}/src/kernel/bpf"))
            .args(["-c", &format!("{here}/benches/bpf/bare.bpf.c"), "-o"])
            .arg(&object)
            .status();
        match status {
            Ok(status) if status.success() => std::fs::read(&object).map(Bare).map_err(|e| e.to_string()),
            Ok(status) => Err(format!("{clang}: {status}")),
            Err(error) => Err(format!("{clang}: {error}")),
        }
    }

    pub(crate) fn start(&self) -> Result<Box<dyn Watching>, String> {
        let btf = Btf::from_sys_fs().map_err(|e| e.to_string())?;
        let mut object = Ebpf::load(&self.0).map_err(|e| format!("{e:?}"))?;
        for (program, tracepoint) in PROGRAMS {
            let found = object.program_mut(program).ok_or_else(|| format!("no program {program}"))?;
            let found: &mut BtfTracePoint = found.try_into().map_err(|e| format!("{program}: {e}"))?;
            found.load(tracepoint, &btf).map_err(|e| format!("{tracepoint}: {e:?}"))?;
            found.attach().map_err(|e| format!("{tracepoint}: {e}"))?;
        }
        Ok(Box::new(Running { object, measuring: Measuring::begin() }))
    }
}

struct Running {
    object: Ebpf,
    measuring: Option<Measuring>,
}

impl Watching for Running {
    fn cpu_s(&self) -> f64 {
        cpu_time::of_this()
    }

    fn stop(self: Box<Self>) -> Result<Said, String> {
        let map = self.object.map("waits").ok_or("no map waits")?;
        let waits: Array<_, u64> = Array::try_from(map).map_err(|e| e.to_string())?;
        let seen = waits.iter().filter_map(Result::ok).sum();
        if seen == 0 {
            return Err("bare saw no wait at all".to_owned());
        }
        let measured = stats::of(&self.object).0;
        let whole = self.measuring.and_then(Measuring::end);
        let bpf = whole.map(|times| (measured.runs as f64 * times, measured.run_ns as f64 * times));
        // The kernel preallocates the hash: key and value, without its links.
        let memory_bytes = 10_240 * 12 + 64 * 8;
        Ok(Said { bpf: bpf.map(|(runs, ns)| (runs as u64, ns as u64)), seen, memory_bytes, ..Said::default() })
    }
}
