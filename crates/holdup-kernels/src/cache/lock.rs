//! One writer at a time.

use super::REMOVED;
use crate::Options;
use crate::files::{lock, problem};
use holdup_model::{Event, Observer, Problem};
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The locked cache.
#[derive(Debug)]
pub(super) struct Held {
    _file: File,
    root: PathBuf,
    scratches: Cell<u32>,
}

impl Held {
    /// Locks a cache for `what`. While another process holds the lock, the observer learns which one and for what.
    ///
    /// # Errors
    /// When the lock cannot be opened, or the wait is interrupted.
    pub(super) fn take(
        root: &Path,
        what: &str,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Held, Problem> {
        let mut announced = String::new();
        let mut file = lock(&root.join("lock"), |file| {
            let holder = holder(file);
            if announced != holder {
                observer.event(Event::Step(&format!("waiting for {holder}, which uses the cache {}", root.display())));
                announced = holder;
            }
            options.check("waiting for the cache of kernels")
        })?;
        // A full disk must not prevent `rm`: others then wait for "another run".
        let _unnamed = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "process {} ({what})", std::process::id()));
        let held = Held { _file: file, root: root.to_owned(), scratches: Cell::new(0) };
        held.clean_up();
        Ok(held)
    }

    /// Removes what killed runs left behind: only the holder of the lock has a scratch folder, and any process may empty `removed`.
    fn clean_up(&self) {
        let _was_absent = fs::remove_dir_all(self.root.join("scratch"));
        for left in fs::read_dir(self.root.join(REMOVED)).into_iter().flatten().flatten() {
            let _removed_by_its_owner = match left.path().is_dir() {
                true => fs::remove_dir_all(left.path()),
                false => fs::remove_file(left.path()),
            };
        }
    }

    /// A new folder in the cache, which is removed on drop.
    pub(super) fn scratch(&self) -> Result<Scratch, Problem> {
        let number = self.scratches.get();
        self.scratches.set(number + 1);
        let path = self.root.join("scratch").join(number.to_string());
        fs::create_dir_all(&path).map_err(|e| problem("folder", &path, &e))?;
        Ok(Scratch(path))
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(256).read_to_string(&mut text));
    match text.trim() {
        "" => "another run".to_owned(),
        _ if read.is_err() => "another run".to_owned(),
        words => words.escape_debug().to_string(),
    }
}

pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_for_the_next = fs::remove_dir_all(&self.0);
    }
}
