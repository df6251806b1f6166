//! Images that were assembled before.
//!
//! An image is called after what it is made from: the path in the guest, the file, its size, its time of change and its
//! inode, for every entry. Beside it a manifest has the SHA-256 of its bytes and what stat(2) said of it when it was
//! written. As long as that is the same, the image is taken as it is: the kernel changes `ctime` with every write, and
//! nobody can set it back. When it differs, the whole image is read and compared.

use super::cpio::Writer;
use super::roots::Source;
use super::tree::{Kind, Node, Tree};
use holdup_kernels::{hex, sha256};
use holdup_model::{Event, Observer, Problem};
use rustix::fs::{FlockOperation, flock, statvfs};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Changes with everything that lets the same files give another image.
const FORMAT: &str = "holdup image 1";

/// How many images are kept.
const KEPT: usize = 8;

/// How long another process may take to assemble.
const WAIT: Duration = Duration::from_secs(120);

/// What a file system must have left beyond the image.
const SPARE_BYTES: u64 = 16 << 20;

/// What is kept of an image beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    sha256: String,
    bytes: u64,
    stamp: Stamp,
}

/// What tells that nobody wrote to a file.
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

/// An image in the cache.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) cached: bool,
}

/// The image of a tree, from the cache or newly written.
///
/// # Errors
/// When a file cannot be read or changes meanwhile, or the folder cannot be written to or has too little room.
pub(crate) fn image_of(tree: &Tree, cache: &Path, observer: &mut dyn Observer) -> Result<Kept, Problem> {
    std::fs::create_dir_all(cache).map_err(|e| failed(cache, &e))?;
    let key = key_of(tree);
    let path = cache.join(format!("{key}.cpio"));
    let _lock = lock(cache, observer)?;
    if let Some(kept) = verified(&path, observer) {
        return Ok(kept);
    }
    observer.event(Event::Step("assembling the initramfs"));
    sweep(cache, KEPT - 1);
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
        Ok(Manifest { sha256, bytes, .. }) => Ok(Kept { path, sha256, bytes, cached: false }),
        Err(problem) => {
            let _gone = std::fs::remove_file(&part);
            Err(problem)
        }
    }
}

fn failed(path: &Path, e: &io::Error) -> Problem {
    Problem::host(path.display().to_string(), e.to_string())
}

/// Held while the cache is looked at or written to; the kernel ends it with the process.
pub(crate) fn lock(cache: &Path, observer: &mut dyn Observer) -> Result<File, Problem> {
    let path = cache.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(|e| failed(&path, &e))?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < WAIT => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Problem::host(
                    format!("cache {}", cache.display()),
                    format!("another process has held its lock for {} s", WAIT.as_secs()),
                ));
            }
            Err(e) => return Err(failed(&path, &e.into())),
        }
        if begun.elapsed() < Duration::from_millis(20) {
            observer.event(Event::Step("waiting for another holdup that assembles an initramfs"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The name of a tree's image.
fn key_of(tree: &Tree) -> String {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    for (path, node) in tree.iter() {
        // Lengths go first, so that no two trees are spelled alike.
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path);
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

/// Written beside and renamed, so that a reader never sees half of it.
fn write_manifest(image: &Path, manifest: &Manifest) -> Result<(), Problem> {
    let path = manifest_path(image);
    let part = image.with_extension("json-part");
    let text = serde_json::to_vec(manifest).map_err(|e| Problem::internal("manifest", e.to_string()))?;
    std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).map_err(|e| failed(&path, &e))
}

/// The image, if it is there and whole. It counts as used now.
fn verified(path: &Path, observer: &mut dyn Observer) -> Option<Kept> {
    let text = std::fs::read(manifest_path(path)).ok()?;
    let mut manifest: Manifest = serde_json::from_slice(&text).ok()?;
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.len() != manifest.bytes || !meta.is_file() {
        observer.event(Event::Note("a kept initramfs has lost its size; it is assembled again"));
        return None;
    }
    if Stamp::of(&meta) != manifest.stamp {
        if sha256(path).ok()? != manifest.sha256 {
            observer.event(Event::Note("a kept initramfs was changed by somebody; it is assembled again"));
            return None;
        }
        manifest.stamp = Stamp::of(&meta);
        write_manifest(path, &manifest).ok()?;
    }
    // The order of sweeping; a cache that may only be read still works.
    if let Ok(file) = File::options().append(true).open(manifest_path(path)) {
        let _marked = file.set_modified(SystemTime::now());
    }
    Some(Kept { path: path.to_owned(), sha256: manifest.sha256, bytes: manifest.bytes, cached: true })
}

/// Removes all but the `keep` images that were used last, and what killed processes have left. Under the lock.
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
    .hint("make room there, or let the cache be on another disk"))
}

/// Hashes what it hands on.
struct Hashing<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the image of a tree; returns its SHA-256 and its size in bytes.
fn write(tree: &Tree, path: &Path) -> Result<(String, u64), Problem> {
    let file = File::create(path).map_err(|e| failed(path, &e))?;
    let (out, bytes) = archive(tree, Hashing { out: file, hash: Sha256::new() }).map_err(|trouble| match trouble {
        Trouble::Out(e) => failed(path, &e),
        Trouble::In(problem) => problem,
    })?;
    // Else a power cut could leave an image of the right size without its content.
    out.out.sync_data().map_err(|e| failed(path, &e))?;
    Ok((hex(&out.hash.finalize()), bytes))
}

/// What may go wrong while an archive is written: at either end.
#[derive(Debug)]
pub(crate) enum Trouble {
    Out(io::Error),
    In(Problem),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        Trouble::Out(e)
    }
}

/// Writes a tree as an archive.
pub(crate) fn archive<W: Write>(tree: &Tree, out: W) -> Result<(W, u64), Trouble> {
    let mut writer = Writer::new(BufWriter::with_capacity(1 << 20, out));
    let mut buffer = vec![0; 1 << 20];
    for (path, node) in tree.iter() {
        writer.entry(&node.entry(path))?;
        content(node, &mut writer, &mut buffer)?;
        writer.pad()?;
    }
    let (out, bytes) = writer.finish()?;
    Ok((out.into_inner().map_err(io::IntoInnerError::into_error)?, bytes))
}

fn content<W: Write>(node: &Node, writer: &mut Writer<W>, buffer: &mut [u8]) -> Result<(), Trouble> {
    match &node.kind {
        Kind::Folder | Kind::CharDevice(..) => Ok(()),
        Kind::Link(target) => Ok(writer.content(target.as_os_str().as_bytes())?),
        Kind::Text(text) => Ok(writer.content(text)?),
        Kind::File(source) => copy(source, writer, buffer),
    }
}

fn copy<W: Write>(source: &Source, writer: &mut Writer<W>, buffer: &mut [u8]) -> Result<(), Trouble> {
    let unreadable = |e: io::Error| Trouble::In(failed(&source.path, &e));
    let mut file = holdup_files::open_input(&source.path).map_err(unreadable)?;
    let mut left = source.bytes;
    loop {
        let n = file.read(buffer).map_err(unreadable)?;
        if n == 0 && left == 0 {
            return Ok(());
        }
        if n == 0 || n as u64 > left {
            let why = format!("it has no longer the {} bytes that it had a moment ago", source.bytes);
            return Err(Trouble::In(Problem::host(source.path.display().to_string(), why).hint("try again")));
        }
        left -= n as u64;
        writer.content(&buffer[..n])?;
    }
}
