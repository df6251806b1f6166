-- The tables of a store. All of a run hangs on its row in holdup.run and goes with it.
CREATE TABLE holdup.environment (
  environment bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  sha256 text NOT NULL UNIQUE,
  facts jsonb NOT NULL
);

CREATE TABLE holdup.metric (
  metric integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL,
  unit text NOT NULL,
  better text NOT NULL CHECK (better IN ('higher', 'lower')),
  summary text NOT NULL,
  UNIQUE (id, unit, better, summary)
);

CREATE TABLE holdup.run (
  run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text NOT NULL UNIQUE,
  created_unix_ns bigint NOT NULL,
  pushed timestamptz NOT NULL DEFAULT now(),
  pushed_by text NOT NULL DEFAULT current_user,
  plan text NOT NULL,
  question text NOT NULL,
  target text NOT NULL,
  emulated text,
  host text,
  kernel text,
  server text,
  holdup_version text NOT NULL,
  ending text,
  trials_done integer NOT NULL,
  trials_void integer NOT NULL,
  bundle_bytes bigint NOT NULL,
  bundle_sha256 text NOT NULL,
  environment bigint NOT NULL REFERENCES holdup.environment
);
CREATE INDEX run_plan_created ON holdup.run (plan, created_unix_ns);
CREATE INDEX run_created ON holdup.run (created_unix_ns);

CREATE TABLE holdup.arm (
  run bigint NOT NULL REFERENCES holdup.run ON DELETE CASCADE,
  arm integer NOT NULL,
  label text NOT NULL,
  workload text NOT NULL,
  design text NOT NULL,
  replica text,
  metrics integer[] NOT NULL,
  PRIMARY KEY (run, arm)
);

CREATE TABLE holdup.arm_value (
  run bigint NOT NULL,
  arm integer NOT NULL,
  metric integer NOT NULL REFERENCES holdup.metric,
  is_primary boolean NOT NULL,
  margin double precision NOT NULL,
  trials integer NOT NULL,
  mean double precision NOT NULL,
  cv double precision,
  PRIMARY KEY (run, arm, metric),
  FOREIGN KEY (run, arm) REFERENCES holdup.arm ON DELETE CASCADE
);

CREATE TABLE holdup.trial (
  run bigint NOT NULL,
  trial integer NOT NULL,
  arm integer NOT NULL,
  session integer NOT NULL,
  block integer NOT NULL,
  void_reason text,
  started_unix_ns bigint NOT NULL,
  window_ns bigint,
  "values" double precision[] NOT NULL,
  PRIMARY KEY (run, trial),
  FOREIGN KEY (run) REFERENCES holdup.run ON DELETE CASCADE
);

CREATE TABLE holdup.bundle_part (
  run bigint NOT NULL REFERENCES holdup.run ON DELETE CASCADE,
  part integer NOT NULL,
  zlib bytea NOT NULL,
  PRIMARY KEY (run, part)
);
-- The bytes are compressed already.
ALTER TABLE holdup.bundle_part ALTER COLUMN zlib SET STORAGE EXTERNAL;
