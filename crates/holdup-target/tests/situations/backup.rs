//! A base backup is read slowly, beside sessions whose clients are silent.

use crate::situations::programs::started;
use crate::situations::{QUIET, Situation, USUAL, judge_beside};
use std::time::Duration;

static SITUATION: Situation = Situation { name: "backup", held: &["SELECT 1"], says: "hardly run", ..QUIET };

pub(crate) fn a_backup_beside_idle_sessions() {
    judge_beside(&SITUATION, USUAL, |server| {
        let mut backup = server.program("pg_basebackup");
        server.hinder(started(backup.args(["-D", "-", "-F", "tar", "-X", "none", "-c", "fast", "-r", "2M"])));
        while server.ask("SELECT 1 FROM pg_stat_progress_basebackup WHERE backup_streamed > 0").is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}
