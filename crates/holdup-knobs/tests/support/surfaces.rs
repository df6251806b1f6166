//! What the samples of the catalogue act on, in memory: files that answer to writes, a device, tasks.

use holdup_host::Scheduling;
use holdup_host::fake::MemoryFs;
use holdup_knobs::sample::{Answer, Foreign, KernelText, Sample, Surface};
use std::io;
use std::sync::Mutex;

/// Tasks with the CPUs that they may run on at first.
const TASKS: [(u32, &[u32]); 4] = [(10, &[0, 1, 2, 3]), (15, &[2]), (11, &[0, 1]), (12, &[3])];
/// What knobs read beside that which they set.
const BESIDE: [(&str, &str); 7] = [
    ("/sys/devices/system/node/online", "0-1\n"),
    ("/sys/devices/system/cpu/online", "0-3\n"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", GOVERNORS),
    ("/sys/devices/system/cpu/cpufreq/policy2/scaling_available_governors", GOVERNORS),
    ("/sys/fs/cgroup/system.slice/pg.service/cgroup.procs", "10\n11\n"),
    ("/proc/10/cgroup", "0::/system.slice/pg.service\n"),
    ("/proc/11/cgroup", "0::/system.slice/pg.service\n"),
];
const GOVERNORS: &str = "performance powersave ondemand schedutil \n";

/// The files that a factor sets.
pub(super) fn files(surface: &Surface) -> &[KernelText] {
    match surface {
        Surface::File(file) | Surface::Word(_, file) => std::slice::from_ref(file),
        Surface::Files(files) => files,
        _ => &[],
    }
}

/// Puts everything there; the tasks are there already.
pub(super) fn put(fs: &MemoryFs) {
    for (path, content) in BESIDE {
        fs.put(path, content);
    }
    for sample in super::samples() {
        files(&sample.surface).iter().for_each(|file| put_file(fs, *file));
        if let Surface::Held(path, content) = sample.surface {
            fs.put(path, content);
        }
    }
    for (tid, cpus) in TASKS {
        fs.put_affinity(tid, cpus);
    }
    // The kernel's default for four CPUs; one task has its own slice.
    fs.put_default_slice(2_100_000);
    fs.put_own_slice(15, 5_000_000);
}

/// A file does not show what was written but what came of it.
fn put_file(fs: &MemoryFs, file: KernelText) {
    fs.put(file.path, file.content);
    match file.answer {
        Answer::Same => {}
        Answer::Refused => fs.refuse("write", file.path, libc::EPERM),
        Answer::Made(made) => {
            let text = Mutex::new(file.content.to_owned());
            fs.on_write(file.path, move |bytes| {
                let mut text = text.lock().unwrap();
                let after = made(&text, String::from_utf8_lossy(bytes).trim());
                *text = after.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                Ok(text.clone().into_bytes())
            });
        }
    }
}

/// Everything that a factor acts on, as it is; `None` for one of a server.
pub(super) fn state(fs: &MemoryFs, surface: &Surface) -> Option<String> {
    let text = |path: &str| fs.get(path).unwrap_or_default().trim().to_owned();
    Some(match surface {
        Surface::File(file) => text(file.path),
        Surface::Word(name, file) => {
            let text = text(file.path);
            let found = text.split_whitespace().find(|word| word.strip_prefix("NO_").unwrap_or(word) == *name);
            found.unwrap_or_default().to_owned()
        }
        Surface::Files(files) => format!("{:?}", files.iter().map(|file| text(file.path)).collect::<Vec<_>>()),
        Surface::Held(path, _) => format!("{:?}", fs.held(path)),
        Surface::Policies => format!("{:?}", TASKS.map(|(tid, _)| (fs.task(tid), fs.task_slice(tid)))),
        Surface::Affinity => format!("{:?}", TASKS.map(|(tid, _)| fs.task_affinity(tid))),
        Surface::Setting(_) | Surface::RealOnly => return None,
    })
}

/// What someone else does to a factor; gives the value as a report should name it. `None` for one of a server.
pub(super) fn foreign(fs: &MemoryFs, sample: &Sample) -> Option<&'static str> {
    match (&sample.surface, &sample.foreign) {
        (Surface::Setting(_) | Surface::RealOnly, _) => None,
        (Surface::Policies, _) => {
            fs.put_task(11, Scheduling::other(9));
            Some("nice:9")
        }
        (Surface::Affinity, _) => {
            fs.put_affinity(11, &[1, 3]);
            Some("1,3")
        }
        (_, Some(Foreign { path, content, named })) => {
            fs.put(path, content);
            Some(named)
        }
        _ => Some(""),
    }
}
