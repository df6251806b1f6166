//! The undo journal: the old value is on disk, synced, before the new one is written.
