CREATE TABLE head (
  -- One row: what ran, where, by which holdup.
  one                  INTEGER PRIMARY KEY CHECK (one = 1), -- always 1
  run_id               TEXT NOT NULL,    -- a random name of this run, hexadecimal
  holdup_version       TEXT NOT NULL,    -- the version of holdup that wrote the bundle
  created_unix_ns      INTEGER NOT NULL, -- when the run was begun, ns since 1970
  target               TEXT NOT NULL,    -- where the trials ran: local, qemu, ssh:HOST, sim
  emulated             TEXT,             -- NULL when times are those of hardware; else what they are
  machine_cpus         INTEGER NOT NULL, -- CPUs that relative sizes in the plan were resolved against
  machine_memory_bytes INTEGER NOT NULL  -- memory that relative sizes in the plan were resolved against, bytes
) STRICT;

CREATE TABLE command (
  -- The command line that began the run, one row for each word.
  position INTEGER PRIMARY KEY, -- place of the word, from 0
  word     TEXT NOT NULL        -- the word, unquoted
) STRICT;

CREATE TABLE plan (
  -- One row: the plan as written and as checked.
  one          INTEGER PRIMARY KEY CHECK (one = 1), -- always 1
  name         TEXT NOT NULL, -- short name of the plan
  question     TEXT NOT NULL, -- the question that the run answers
  seed         TEXT NOT NULL, -- seed of every random choice, decimal; text, because it may need 64 bits unsigned
  source_toml  TEXT NOT NULL, -- the plan as the user wrote it, or as the command line came to
  checked_json TEXT NOT NULL  -- the checked plan: sizes and durations resolved, defaults filled in
) STRICT;

CREATE TABLE arms (
  -- The arms: one row for each combination of levels.
  arm      INTEGER PRIMARY KEY,  -- number of the arm, from 0
  label    TEXT NOT NULL UNIQUE, -- what tables call the arm
  workload TEXT NOT NULL,        -- name of its workload in the plan
  replica  TEXT CHECK (replica IN ('same', 'unobserved')) -- same: A/A; unobserved: without collectors; else NULL
) STRICT;

CREATE TABLE levels (
  -- The level of each axis and factor in each arm.
  arm   INTEGER NOT NULL REFERENCES arms, -- the arm
  role  TEXT NOT NULL CHECK (role IN ('axis', 'factor')), -- axis: a parameter of the workload; factor: a knob
  name  TEXT NOT NULL, -- name of the axis or factor
  type  TEXT NOT NULL CHECK (type IN ('bool', 'integer', 'float', 'text')), -- type of the value; a bool is 0 or 1
  value ANY NOT NULL,  -- the value; durations in ns, sizes in bytes
  label TEXT NOT NULL, -- the value as shown
  PRIMARY KEY (arm, role, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule (
  -- The trials as planned, in order. What really ran is in trials.
  planned  INTEGER PRIMARY KEY, -- place in the planned order, from 0
  seq      INTEGER NOT NULL,    -- number of the planned trial, from 0
  session  INTEGER NOT NULL,    -- session, from 0
  boot     INTEGER NOT NULL,    -- boot, from 0, counted over all sessions
  block    INTEGER NOT NULL,    -- block, from 0, counted over all sessions
  position INTEGER NOT NULL,    -- place in the block, from 0
  arm      INTEGER NOT NULL REFERENCES arms -- the arm
) STRICT;

CREATE TABLE metrics (
  -- The metrics of each workload: what measurements mean.
  position INTEGER PRIMARY KEY, -- place in the list, from 0
  workload TEXT NOT NULL,       -- name of the workload in the plan
  metric   TEXT NOT NULL,       -- id of the metric, unit last
  unit     TEXT NOT NULL,       -- unit, as printed in the head of a table
  better   TEXT NOT NULL CHECK (better IN ('higher', 'lower')), -- which way is better
  summary  TEXT NOT NULL        -- one line
) STRICT;

CREATE TABLE collectors (
  -- The collectors that the plan asked for, and whether they could work, asked before the first trial.
  position  INTEGER PRIMARY KEY, -- place in the list, from 0
  collector TEXT NOT NULL,       -- id of the collector
  state     TEXT NOT NULL CHECK (state IN ('ready', 'degraded', 'unavailable')), -- whether it could work
  reason    TEXT CHECK ((reason IS NULL) = (state = 'ready')), -- what was lost or missing, and why; NULL when ready
  remedy    TEXT CHECK (remedy IS NULL OR state = 'unavailable') -- what would have made it work, if there is something
) STRICT;

CREATE TABLE facts (
  -- Facts about the host, each distinct one once; environment and trial_environment refer to them.
  fact   INTEGER PRIMARY KEY, -- number of the fact in this bundle, from 1
  key    TEXT NOT NULL, -- dotted key, such as kernel.release
  value  TEXT,          -- the value; NULL when it is not known
  source TEXT NOT NULL, -- where it was read: a path, a system call, a query
  absent TEXT,          -- why there is no value
  steady INTEGER NOT NULL CHECK (steady IN (0, 1)) -- 1: a trial in which it moved is void
) STRICT;

CREATE TABLE environment_readings (
  -- One row for each reading of the environment at the begin of a boot; a session without guests is one boot.
  reading INTEGER PRIMARY KEY, -- number of the reading, from 0
  session INTEGER NOT NULL,    -- session, from 0
  boot    INTEGER NOT NULL     -- boot, from 0, counted over all sessions; opened again, it has several readings
) STRICT;

CREATE TABLE environment (
  -- The facts of each reading.
  reading  INTEGER NOT NULL REFERENCES environment_readings, -- the reading
  position INTEGER NOT NULL, -- place in the list, from 0
  fact     INTEGER NOT NULL REFERENCES facts, -- the fact
  PRIMARY KEY (reading, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE trials (
  -- Every trial as it was run, void ones included.
  trial                INTEGER PRIMARY KEY, -- place in the order in which trials really ran, repeats included, from 0
  session              INTEGER NOT NULL, -- session, from 0
  boot                 INTEGER NOT NULL, -- boot, from 0, counted over all sessions
  block                INTEGER NOT NULL, -- block, from 0, counted over all sessions
  position             INTEGER NOT NULL, -- place in the block, from 0
  arm                  INTEGER NOT NULL REFERENCES arms, -- the arm
  attempt              INTEGER NOT NULL, -- 0 for the first attempt, 1 for the first repeat, and so on
  status               TEXT NOT NULL CHECK (status IN ('done', 'void')), -- done: it counts; void: it does not
  void_reason          TEXT CHECK ((void_reason IS NULL) = (status = 'done')), -- why it is void; NULL when it counts
  started_unix_ns      INTEGER NOT NULL, -- when its set-up began, ns since 1970
  ended_unix_ns        INTEGER NOT NULL, -- when everything of it was over, ns since 1970
  window_begin_unix_ns INTEGER, -- begin of the window, warm-up excluded, ns since 1970; NULL when it never opened
  window_end_unix_ns   INTEGER, -- end of the window, ns since 1970
  window_length_ns     INTEGER, -- length of the window by the monotonic clock, ns
  CHECK ((window_begin_unix_ns IS NULL) = (window_end_unix_ns IS NULL)),
  CHECK ((window_begin_unix_ns IS NULL) = (window_length_ns IS NULL))
) STRICT;

CREATE TABLE trial_environment (
  -- The environment before each trial, and the facts that differed after it.
  trial    INTEGER NOT NULL REFERENCES trials, -- the trial
  moment   TEXT NOT NULL CHECK (moment IN ('before', 'moved')), -- before the trial, or after it where it differed
  position INTEGER NOT NULL, -- place in the list, from 0
  fact     INTEGER NOT NULL REFERENCES facts, -- the fact
  PRIMARY KEY (trial, moment, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE measurements (
  -- The metrics of each trial. Absent is not zero: exactly one of value and absent is set.
  trial    INTEGER NOT NULL REFERENCES trials, -- the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  metric   TEXT NOT NULL,    -- id of the metric; its unit is in metrics
  value    REAL,             -- what was measured
  absent   TEXT,             -- why there is no value
  PRIMARY KEY (trial, position),
  CHECK ((value IS NULL) <> (absent IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE histograms (
  -- Full histograms of durations in ns, at most 0.1 % relative error for each value.
  trial    INTEGER NOT NULL REFERENCES trials, -- the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  name     TEXT NOT NULL,    -- latency, schedule_lag, acquire
  count    INTEGER NOT NULL CHECK (count >= 0),   -- durations counted
  clipped  INTEGER NOT NULL CHECK (clipped >= 0), -- of them longer than an hour, counted as an hour
  hdr_v2   BLOB NOT NULL,    -- HdrHistogram in its V2 encoding (not compressed), values in ns, 1 ns to 1 h, 3 digits
  PRIMARY KEY (trial, position)
) STRICT;

CREATE TABLE collector_runs (
  -- One row for each collector that ran in a trial: how much it saw and what looking cost.
  trial        INTEGER NOT NULL REFERENCES trials, -- the trial
  run          INTEGER NOT NULL, -- place of the collector in the trial, from 0
  collector    TEXT NOT NULL,    -- id of the collector
  seen_count   INTEGER NOT NULL, -- samples or events seen; 2 for a pair of counter readings
  lost_count   INTEGER NOT NULL, -- samples or events known to be lost
  cost_cpu_ns  INTEGER NOT NULL, -- CPU time of the collector itself inside the window, ns
  cost_wakeups INTEGER NOT NULL, -- how often it woke up or was called
  cost_bytes   INTEGER NOT NULL, -- bytes that it read
  PRIMARY KEY (trial, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE coverage_notes (
  -- What else a collector missed, in words.
  trial    INTEGER NOT NULL, -- the trial
  run      INTEGER NOT NULL, -- place of the collector in the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  text     TEXT NOT NULL,    -- what was missed
  PRIMARY KEY (trial, run, position),
  FOREIGN KEY (trial, run) REFERENCES collector_runs
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence_items (
  -- What numbers of evidence are about, each distinct one once; evidence refers to them.
  item  INTEGER PRIMARY KEY, -- number of the item in this bundle, from 1
  name  TEXT NOT NULL, -- name, unit last
  label TEXT,          -- which one, where there are several: a softirq, a wait event
  unit  TEXT NOT NULL  -- unit of the number
) STRICT;

CREATE TABLE evidence (
  -- What the collectors saw. Absent is not zero: exactly one of value and absent is set.
  trial    INTEGER NOT NULL, -- the trial
  run      INTEGER NOT NULL, -- place of the collector in the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  item     INTEGER NOT NULL REFERENCES evidence_items, -- what the number is about
  value    REAL, -- the number
  absent   TEXT, -- why there is no number
  PRIMARY KEY (trial, run, position),
  FOREIGN KEY (trial, run) REFERENCES collector_runs,
  CHECK ((value IS NULL) <> (absent IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
  -- What else is worth keeping of a trial: lines of a program's output, for example.
  trial    INTEGER NOT NULL REFERENCES trials, -- the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  text     TEXT NOT NULL,    -- the note
  PRIMARY KEY (trial, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE log (
  -- What happened beside the trials: restarts, warnings.
  entry   INTEGER PRIMARY KEY, -- number of the entry, from 0
  unix_ns INTEGER NOT NULL,    -- when, ns since 1970
  text    TEXT NOT NULL        -- what happened
) STRICT;

CREATE TABLE boot_logs (
  -- What guests wrote, boot by boot. No row where trials ran on the host itself.
  entry         INTEGER PRIMARY KEY, -- number of the entry, from 0
  session       INTEGER NOT NULL, -- session, from 0
  boot          INTEGER NOT NULL, -- boot, from 0, counted over all sessions; one that was tried again has several
  name          TEXT NOT NULL,    -- what wrote it: console, kernel
  bytes         INTEGER NOT NULL CHECK (bytes >= 0), -- size as the guest wrote it, bytes
  trimmed_bytes INTEGER NOT NULL CHECK (trimmed_bytes BETWEEN 0 AND bytes), -- left out of its middle, bytes
  kept_bytes    INTEGER NOT NULL CHECK (kept_bytes BETWEEN 0 AND 1048576), -- size of the text as kept, bytes
  zlib          BLOB NOT NULL     -- the text as kept, in zlib form (RFC 1950); it need not be UTF-8
) STRICT;

CREATE TABLE ending (
  -- How the run ended. One row; none when it never did: a crash, or still running.
  one    INTEGER PRIMARY KEY CHECK (one = 1), -- always 1
  how    TEXT NOT NULL CHECK (how IN ('complete', 'decided', 'budget', 'interrupted', 'failed')), -- how it ended
  reason TEXT CHECK ((reason IS NULL) = (how <> 'failed')), -- why it failed; else NULL
  trials INTEGER NOT NULL -- trials in the bundle at the end, void ones included
) STRICT;

CREATE TABLE checksums (
  -- A checksum over the values of each part of the bundle, written in the same transaction as the part.
  part   TEXT NOT NULL, -- head, command, plan, arms, schedule, metrics, collectors, environment, trial, evidence, captures, log, boot_log, ending
  number INTEGER NOT NULL, -- the reading, trial or entry of a log; 0 for parts that exist once
  sha256 TEXT NOT NULL,    -- SHA-256 over the values, hexadecimal
  PRIMARY KEY (part, number)
) STRICT, WITHOUT ROWID;

CREATE VIEW trial_measurements AS
  -- Measurements with the arm, the status of the trial and the unit.
  SELECT t.trial, t.block, t.status, a.label AS arm_label, a.workload, m.metric, d.unit, m.value, m.absent
  FROM measurements m JOIN trials t USING (trial) JOIN arms a USING (arm)
  LEFT JOIN metrics d ON d.workload = a.workload AND d.metric = m.metric;

CREATE VIEW trial_evidence AS
  -- Evidence with the arm, the status of the trial, the collector and the names of the items.
  SELECT t.trial, t.block, t.status, a.label AS arm_label, r.collector, i.name, i.label, i.unit, e.value, e.absent
  FROM evidence e JOIN collector_runs r USING (trial, run) JOIN evidence_items i USING (item)
  JOIN trials t USING (trial) JOIN arms a USING (arm);

CREATE VIEW trial_facts AS
  -- The environment of each trial in words.
  SELECT e.trial, e.moment, f.key, f.value, f.absent, f.source, f.steady
  FROM trial_environment e JOIN facts f USING (fact);
