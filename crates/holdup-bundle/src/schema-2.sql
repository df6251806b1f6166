CREATE TABLE collector_costs (
  -- What else looking cost, one row for each row of collector_runs.
  trial        INTEGER NOT NULL, -- the trial
  run          INTEGER NOT NULL, -- place of the collector in the trial
  bpf_runs     INTEGER,          -- how often its BPF programs ran; NULL where it has none or the kernel does not count
  bpf_run_ns   INTEGER,          -- for how long, ns, in the context of the tasks that they watch, all CPUs together
  memory_bytes INTEGER NOT NULL, -- memory of its maps, rings and tables, bytes
  PRIMARY KEY (trial, run),
  FOREIGN KEY (trial, run) REFERENCES collector_runs,
  CHECK ((bpf_runs IS NULL) = (bpf_run_ns IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence_histograms (
  -- Full histograms of what the collectors saw, in ns, at most 0.1 % relative error for each value.
  trial    INTEGER NOT NULL, -- the trial
  run      INTEGER NOT NULL, -- place of the collector in the trial
  position INTEGER NOT NULL, -- place in the list, from 0
  item     INTEGER NOT NULL REFERENCES evidence_items, -- what the durations are about; its unit is ns
  count    INTEGER NOT NULL CHECK (count >= 0),   -- durations counted
  clipped  INTEGER NOT NULL CHECK (clipped >= 0), -- of them longer than an hour, counted as an hour
  hdr_v2   BLOB NOT NULL,    -- HdrHistogram in its V2 encoding (not compressed), values in ns, 1 ns to 1 h, 3 digits
  PRIMARY KEY (trial, run, position),
  FOREIGN KEY (trial, run) REFERENCES collector_runs
) STRICT;

CREATE TABLE stack_profiles (
  -- Call stacks with weights: where CPU time went, or where tasks waited.
  trial            INTEGER NOT NULL, -- the trial
  run              INTEGER NOT NULL, -- place of the collector in the trial
  position         INTEGER NOT NULL, -- place in the list, from 0
  name             TEXT NOT NULL,    -- what they are stacks of: on_cpu, off_cpu, waker
  unit             TEXT NOT NULL,    -- what a weight counts: samples, ns
  period_ns        INTEGER NOT NULL, -- the time that one sample stands for, ns; 0 where weights are times
  stacks           INTEGER NOT NULL, -- distinct stacks
  weight           INTEGER NOT NULL, -- of all stacks together
  truncated_weight INTEGER NOT NULL, -- of stacks that could not be followed to their outermost function
  json_bytes       INTEGER NOT NULL CHECK (json_bytes BETWEEN 0 AND 67108864), -- size of the JSON, bytes
  json_zlib        BLOB NOT NULL,    -- the stacks: JSON in zlib form (RFC 1950), its members are described in docs/bundle.md
  PRIMARY KEY (trial, run, position),
  FOREIGN KEY (trial, run) REFERENCES collector_runs
) STRICT;

CREATE TABLE timelines (
  -- What happened to tasks and CPUs, event by event, for a bounded time.
  trial        INTEGER NOT NULL, -- the trial
  run          INTEGER NOT NULL, -- place of the collector in the trial
  begin_ns     INTEGER NOT NULL, -- its begin by the monotonic clock of the machine that was watched, ns
  events       INTEGER NOT NULL, -- events
  lost_events  INTEGER NOT NULL, -- events that there was no room for
  json_bytes   INTEGER NOT NULL CHECK (json_bytes BETWEEN 0 AND 67108864), -- size of the JSON, bytes
  json_zlib    BLOB NOT NULL,    -- the events: JSON in zlib form (RFC 1950), its members are described in docs/bundle.md
  PRIMARY KEY (trial, run),
  FOREIGN KEY (trial, run) REFERENCES collector_runs
) STRICT;
