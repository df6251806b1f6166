//! The cache of images.
//!
//! The name of an image is a hash over its entries: path in the guest, file, size, mtime and inode. Beside it a manifest has the
//! SHA-256 of its bytes and its inode and `ctime`. As long as these two match, the image is used without reading it, because the
//! kernel changes `ctime` with every write and no process can set it. If they differ, the whole image is hashed and compared.
//!
//! The format is cpio "newc" (`Documentation/driver-api/early-userspace/buffer-format.rst`), written by the crate `cpio`.

use super::roots::Source;
use super::tree::{Kind, Tree};
use cpio::newc;
use holdup_kernels::{hex, sha256};
use holdup_model::{Event, Observer, Problem};
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Changes when the same files give another image.
const FORMAT: &str = "holdup image 1";

/// Images in the cache.
const MOST_IMAGES: usize = 8;

const WAIT: Duration = Duration::from_secs(120);

/// Free bytes beyond the image.
const SPARE_BYTES: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    sha256: String,
    bytes: u64,
    stamp: Stamp,
}

/// Differs after any write to the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stamp {
    inode: u64,
    ctime: i64,
    ctime_nsec: i64,
}

impl Stamp {
    fn of(meta: &std::fs::Metadata) -> Self {
        Stamp { inode: meta.ino(), ctime: meta.ctime(), ctime_nsec: meta.ctime_nsec() }
    }
}

#[derive(Debug)]
pub(crate) struct CachedImage {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) was_cached: bool,
}

/// The image of a tree, from the cache or newly written.
///
/// # Errors
/// When a file cannot be read or changes meanwhile, or the folder cannot be written to or has too little room.
pub(crate) fn image_of(tree: &Tree, cache: &Path, observer: &mut dyn Observer) -> Result<CachedImage, Problem> {
    std::fs::create_dir_all(cache).map_err(|e| failed(cache, &e))?;
    let key = key_of(tree);
    let path = cache.join(format!("{key}.cpio"));
    let _lock = lock(cache, observer)?;
    if let Some(image) = verified(&path, observer) {
        return Ok(image);
    }
    observer.event(Event::Step("assembling the initramfs"));
    sweep(cache, MOST_IMAGES - 1);
    check_room(tree, cache)?;
    let part = cache.join(format!("{key}.part"));
    let written = write(tree, &part).and_then(|(sha256, bytes)| {
        std::fs::rename(&part, &path).map_err(|e| failed(&path, &e))?;
        let meta = std::fs::metadata(&path).map_err(|e| failed(&path, &e))?;
        let manifest = Manifest { sha256, bytes, stamp: Stamp::of(&meta) };
        write_manifest(&path, &manifest)?;
        Ok(manifest)
    });
    match written {
        Ok(Manifest { sha256, bytes, .. }) => Ok(CachedImage { path, sha256, bytes, was_cached: false }),
        Err(problem) => {
            let _gone = std::fs::remove_file(&part);
            Err(problem)
        }
    }
}

pub(super) fn failed(path: &Path, e: &io::Error) -> Problem {
    Problem::host(path.display().to_string(), e.to_string())
}

/// Locks the cache, waiting at most [`WAIT`].
pub(crate) fn lock(cache: &Path, observer: &mut dyn Observer) -> Result<File, Problem> {
    let begun = Instant::now();
    let mut is_announced = false;
    holdup_kernels::lock(&cache.join("lock"), |_| {
        if !std::mem::replace(&mut is_announced, true) {
            observer.event(Event::Step("waiting for another holdup that assembles an initramfs"));
        }
        if begun.elapsed() < WAIT {
            return Ok(());
        }
        let why = format!("another process has held its lock for {} s", WAIT.as_secs());
        Err(Problem::host(format!("cache {}", cache.display()), why))
    })
}

fn key_of(tree: &Tree) -> String {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    for (path, node) in tree.iter() {
        // Lengths go first, so that different trees hash different bytes.
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path.as_bytes());
        hash.update(node.mode.to_le_bytes());
        hash.update(node.owner.to_le_bytes());
        match &node.kind {
            Kind::Folder => hash.update(b"d"),
            Kind::CharDevice(major, minor) => {
                hash.update(b"c");
                hash.update(major.to_le_bytes());
                hash.update(minor.to_le_bytes());
            }
            Kind::Link(target) => sized(&mut hash, b"l", target.as_os_str().as_bytes()),
            Kind::Text(text) => sized(&mut hash, b"t", text),
            Kind::File(source) => {
                sized(&mut hash, b"f", source.path.as_os_str().as_bytes());
                hash.update(source.bytes.to_le_bytes());
                hash.update(source.mtime_ns.to_le_bytes());
                hash.update(source.inode.0.to_le_bytes());
                hash.update(source.inode.1.to_le_bytes());
            }
        }
    }
    hex(&hash.finalize())[..32].to_owned()
}

fn sized(hash: &mut Sha256, kind: &[u8], bytes: &[u8]) {
    hash.update(kind);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn manifest_path(image: &Path) -> PathBuf {
    image.with_extension("json")
}

/// Renamed when complete, so that no reader sees half of it.
fn write_manifest(image: &Path, manifest: &Manifest) -> Result<(), Problem> {
    let path = manifest_path(image);
    let part = image.with_extension("json-part");
    let text = serde_json::to_vec(manifest).map_err(|e| Problem::internal("manifest", e.to_string()))?;
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).map_err(|e| failed(&path, &e))
}

/// The image, if it exists and is whole; marks it as used.
fn verified(path: &Path, observer: &mut dyn Observer) -> Option<CachedImage> {
    let text = std::fs::read(manifest_path(path)).ok()?;
    let mut manifest: Manifest = serde_json::from_slice(&text).ok()?;
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.len() != manifest.bytes || !meta.is_file() {
        observer.event(Event::Note(
            "an initramfs in the cache has another size than when it was written; it is assembled again",
        ));
        return None;
    }
    if Stamp::of(&meta) != manifest.stamp {
        if sha256(path).ok()? != manifest.sha256 {
            observer.event(Event::Note("an initramfs in the cache was changed; it is assembled again"));
            return None;
        }
        manifest.stamp = Stamp::of(&meta);
        write_manifest(path, &manifest).ok()?;
    }
    // For the order of removal; a read-only cache still works.
    if let Ok(file) = File::options().append(true).open(manifest_path(path)) {
        let _marked = file.set_modified(SystemTime::now());
    }
    Some(CachedImage { path: path.to_owned(), sha256: manifest.sha256, bytes: manifest.bytes, was_cached: true })
}

/// Removes all but the `keep` most recently used images, and the leftovers of killed processes. Under the lock.
fn sweep(cache: &Path, keep: usize) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    let mut images = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.extension().and_then(|e| e.to_str()) {
            Some("cpio") => {
                let used = std::fs::metadata(manifest_path(&path)).and_then(|meta| meta.modified()).ok();
                images.push((used, path));
            }
            Some("part" | "json-part") => {
                let _gone = std::fs::remove_file(&path);
            }
            _ => {}
        }
    }
    images.sort();
    let over = images.len().saturating_sub(keep);
    for (_, path) in images.into_iter().take(over) {
        let _gone = std::fs::remove_file(&path);
        let _gone = std::fs::remove_file(manifest_path(&path));
    }
}

fn check_room(tree: &Tree, cache: &Path) -> Result<(), Problem> {
    let room = statvfs(cache).map_err(|e| failed(cache, &e.into()))?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let wanted = tree.archive_bytes() + SPARE_BYTES;
    if free >= wanted {
        return Ok(());
    }
    Err(Problem::host(
        format!("cache {}", cache.display()),
        format!("an initramfs of {} MB does not fit: {} MB are free", wanted >> 20, free >> 20),
    )
    .hint("make room there, or put the cache on another disk"))
}

/// Hashes and counts what it writes.
struct Hashing<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the image of a tree; returns its SHA-256 and its size in bytes.
fn write(tree: &Tree, path: &Path) -> Result<(String, u64), Problem> {
    let file = File::create(path).map_err(|e| failed(path, &e))?;
    let out = archive(tree, Hashing { out: file, hash: Sha256::new(), bytes: 0 }).map_err(|trouble| match trouble {
        Trouble::Out(e) => failed(path, &e),
        Trouble::In(problem) => problem,
    })?;
    // Otherwise a power cut could leave an image of the right size without its content.
    out.out.sync_data().map_err(|e| failed(path, &e))?;
    Ok((hex(&out.hash.finalize()), out.bytes))
}

/// A failed write of the archive, or a failed read of one of its files.
enum Trouble {
    Out(io::Error),
    In(Problem),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        Trouble::Out(e)
    }
}

fn archive<W: Write>(tree: &Tree, out: W) -> Result<W, Trouble> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let mut buffer = vec![0; 1 << 20];
    for ((path, node), number) in tree.iter().zip(1..) {
        let bytes = u32::try_from(node.content_bytes()).map_err(io::Error::other)?;
        let mut entry = node.header(path, number).write(out, bytes);
        match &node.kind {
            Kind::Folder | Kind::CharDevice(..) => {}
            Kind::Link(target) => entry.write_all(target.as_os_str().as_bytes())?,
            Kind::Text(text) => entry.write_all(text)?,
            Kind::File(source) => copy(source, &mut entry, &mut buffer)?,
        }
        out = entry.finish()?;
    }
    Ok(newc::trailer(out)?.into_inner().map_err(io::IntoInnerError::into_error)?)
}

fn copy(source: &Source, to: &mut impl Write, buffer: &mut [u8]) -> Result<(), Trouble> {
    let unreadable = |e: io::Error| Trouble::In(failed(&source.path, &e));
    let mut file = holdup_files::open_input(&source.path).map_err(unreadable)?;
    let mut left = source.bytes;
    loop {
        let n = file.read(buffer).map_err(unreadable)?;
        if n == 0 && left == 0 {
            return Ok(());
        }
        if n == 0 || n as u64 > left {
            let why = format!("its size is no longer {} bytes", source.bytes);
            return Err(Trouble::In(Problem::host(source.path.display().to_string(), why).hint("try again")));
        }
        left -= n as u64;
        to.write_all(&buffer[..n])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_an_archive() {
        let mut tree = Tree::default();
        tree.folder(Path::new("/dev"), 0o755, 7).unwrap();
        tree.put(Path::new("/dev/console"), Kind::CharDevice(5, 1), 0o600, 7).unwrap();
        tree.put(Path::new("/init"), Kind::Text(b"hello".to_vec()), 0o755, 7).unwrap();
        let bytes = archive(&tree, Vec::new()).unwrap_or_else(|_| panic!("nothing can fail"));
        let (z, owner) = ("00000000", "0000000700000007");
        let head = |ino: &str, mode: &str, links: &str, size: &str, device: &str, name: &str| {
            format!("070701{ino}{mode}{owner}{links}{z}{size}{z}{z}{device}{name}{z}")
        };
        let none = &format!("{z}{z}");
        let expected = [
            head("00000001", "000041ed", "00000002", z, none, "00000004"),
            "dev\0\0\0".to_owned(),
            head("00000002", "00002180", "00000001", z, "0000000500000001", "0000000c"),
            "dev/console\0\0\0".to_owned(),
            head("00000003", "000081ed", "00000001", "00000005", none, "00000005"),
            "init\0\0hello\0\0\0".to_owned(),
            format!("070701{}00000001{}0000000b{z}", z.repeat(4), z.repeat(6)),
            "TRAILER!!!\0\0\0\0".to_owned(),
        ]
        .concat();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        assert_eq!(tree.archive_bytes(), expected.len() as u64);
    }
}
