//! File helpers: sums, sizes, locks, and manifests that are written atomically.

use holdup_model::Problem;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest file that is read into memory: a configuration, a patch, a file of a source tree.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

pub(crate) fn problem(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::host(format!("{what} {}", path.display()), error.to_string())
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of a file in hexadecimal.
pub fn sha256(path: &Path) -> io::Result<String> {
    let mut file = holdup_files::open_input(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Takes an exclusive lock, which ends with the process (flock(2)). `wait` is called about every 50 ms while another process holds it.
///
/// # Errors
/// When the file cannot be opened or locked, and those of `wait`.
pub fn lock(path: &Path, mut wait: impl FnMut(&mut File) -> Result<(), Problem>) -> Result<File, Problem> {
    let failed = |e: &io::Error| problem("lock", path, e);
    let mut file = File::options().read(true).append(true).create(true).open(path).map_err(|e| failed(&e))?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK | Errno::INTR) => wait(&mut file)?,
            Err(e) => return Err(failed(&e.into())),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Reads a manifest of a schema, all of whose `paths` must stay in its folder.
pub(crate) fn read_manifest<M: DeserializeOwned>(
    path: &Path,
    schema: &str,
    of: impl Fn(&M) -> &str,
    paths: impl Fn(&M) -> Vec<&PathBuf>,
) -> Result<M, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("its manifest: {e}"))?;
    let manifest: M = serde_json::from_str(&text).map_err(|e| format!("its manifest: {e}"))?;
    if of(&manifest) != schema {
        return Err(format!("its manifest is of the schema `{}`, not {schema}", of(&manifest).escape_debug()));
    }
    let leaves = |path: &&PathBuf| !path.components().all(|part| matches!(part, Component::Normal(_)));
    match paths(&manifest).into_iter().find(leaves) {
        Some(path) => Err(format!("its manifest has a file outside it: {}", path.display())),
        None => Ok(manifest),
    }
}

/// Writes a manifest as JSON, whole or not at all, also through a power cut.
pub(crate) fn write_manifest(manifest: &impl Serialize, to: &Path) -> Result<(), Problem> {
    let new = to.with_extension("new");
    let text = serde_json::to_string_pretty(manifest).map_err(|e| Problem::internal("a manifest", e.to_string()))?;
    let write = || -> io::Result<()> {
        fs::write(&new, text)?;
        File::open(&new)?.sync_all()?;
        fs::rename(&new, to)
    };
    write().map_err(|e| problem("manifest", to, &e))
}

/// All files below a folder, relative to it, in order; links are not followed.
pub(crate) fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if let Ok(path) = entry.path().strip_prefix(folder) {
                found.push(path.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn bytes_below(folder: &Path) -> u64 {
    sum_below(folder, fs::Metadata::len).unwrap_or(0)
}

/// `None` for what another process has removed.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// The sum over all files and links below a folder; links are not followed.
pub(crate) fn sum_below(folder: &Path, of: impl Fn(&fs::Metadata) -> u64) -> io::Result<u64> {
    let (mut sum, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in there(fs::read_dir(&next))?.into_iter().flatten() {
            let Some(entry) = there(entry)? else { continue };
            let Some(metadata) = there(entry.metadata())? else { continue };
            match metadata.is_dir() {
                true => folders.push(entry.path()),
                false => sum += of(&metadata),
            }
        }
    }
    Ok(sum)
}

pub(crate) fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `13.6 MB`.
pub(crate) fn human_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes.div_ceil(1_000)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Refuses when the disk of `folder` has too few free bytes.
pub(crate) fn check_room(folder: &Path, needed: u64, for_what: &str) -> Result<(), Problem> {
    let Ok(stat) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let why = format!("{for_what} needs {} there, and {} are free", human_size(needed), human_size(free));
    Err(Problem::host(format!("cache {}", folder.display()), why)
        .hint("`holdup kernels rm SPEC` frees some; --cache DIR or HOLDUP_CACHE chooses another place"))
}
