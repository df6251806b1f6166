//! Settings of PostgreSQL 15 to 19. Levels are those that guides name beside the defaults.

use super::{Class, Group, Tunable};

pub(super) const GROUP: Group = Group {
    id: "postgres",
    summary: "settings of the PostgreSQL server",
    tunables: &[
        Tunable::ordered(
            "postgres.shared_buffers",
            &["10% memory", "25% memory", "40% memory"],
            "the default is 128 MB; guides say a quarter of the memory",
        ),
        Tunable::ordered("postgres.work_mem", &["16MB", "64MB"], "sorts and hashes that fit do not go to disk"),
        Tunable::ordered("postgres.wal_buffers", &["1MB", "64MB"], "sessions that wait for WALWrite with full buffers"),
        Tunable::ordered("postgres.max_wal_size", &["4GB", "16GB"], "fewer checkpoints, fewer full-page images"),
        Tunable::ordered("postgres.checkpoint_timeout", &["15min", "1h"], "fewer checkpoints, fewer full-page images"),
        Tunable::ordered("postgres.checkpoint_completion_target", &["0.5", "0.7"], "0.9 is the default from 14 on"),
        Tunable::ordered("postgres.checkpoint_flush_after", &["0", "1MB"], "writeback in small or large pieces"),
        Tunable::ordered(
            "postgres.backend_flush_after",
            &["512kB", "2MB"],
            "writeback by sessions instead of the kernel",
        ),
        Tunable::safe("postgres.wal_compression", &["pglz", "lz4", "zstd"], "less log, more CPU time"),
        Tunable::ordered("postgres.wal_writer_delay", &["10ms", "1s"], "how often the writer of the log wakes up"),
        Tunable::ordered("postgres.commit_delay", &["20", "200"], "several commits share a flush"),
        Tunable::safe(
            "postgres.wal_sync_method",
            &["open_datasync", "fsync"],
            "how the log gets to the disk; all of them keep it",
        ),
        Tunable::safe("postgres.wal_init_zero", &["off"], "file systems that copy on write"),
        Tunable::safe("postgres.wal_recycle", &["off"], "file systems that copy on write"),
        Tunable::ordered(
            "postgres.bgwriter_delay",
            &["10ms", "1s"],
            "who writes dirty buffers: the writer or the sessions",
        ),
        Tunable::ordered(
            "postgres.bgwriter_lru_maxpages",
            &["0", "1000"],
            "who writes dirty buffers: the writer or the sessions",
        ),
        Tunable::ordered("postgres.effective_io_concurrency", &["0", "200"], "reads ahead in bitmap scans"),
        Tunable::ordered("postgres.random_page_cost", &["1.1", "2"], "plans for disks that do not seek"),
        Tunable::ordered(
            "postgres.effective_cache_size",
            &["25% memory", "75% memory"],
            "plans that expect cached tables",
        ),
        Tunable::safe("postgres.jit", &["off", "on"], "short queries that are compiled"),
        Tunable::ordered("postgres.max_parallel_workers_per_gather", &["0", "4"], "short queries that start workers"),
        Tunable::safe("postgres.io_method", &["sync", "io_uring"], "asynchronous reads, from 18 on"),
        Tunable::safe("postgres.update_process_title", &["off"], "a system call or a write for each statement"),
        Tunable::ordered("postgres.autovacuum_naptime", &["10s", "5min"], "how often dead rows are looked for"),
        Tunable::ordered("postgres.autovacuum_vacuum_cost_limit", &["1000", "10000"], "how fast vacuum goes"),
        Tunable::safe("postgres.synchronous_commit", &["off"], "commits that do not wait for the disk")
            .of(Class::Durability),
        Tunable::safe("postgres.full_page_writes", &["off"], "less log").of(Class::Risky),
        Tunable::safe("postgres.fsync", &["off"], "no waiting for the disk at all").of(Class::Risky),
        Tunable::safe("postgres.autovacuum", &["off"], "no vacuum while it is measured").of(Class::Risky),
    ],
};
