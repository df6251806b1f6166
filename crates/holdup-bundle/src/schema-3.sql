CREATE TABLE captures (
  -- What a collector saw of TCP connections, or what an imported capture held, beyond numbers.
  trial        INTEGER NOT NULL, -- the trial
  run          INTEGER NOT NULL, -- place of the collector in the trial
  flows        INTEGER NOT NULL, -- connections that are kept
  flows_beyond INTEGER NOT NULL, -- connections that were seen and are not kept
  traces       INTEGER NOT NULL, -- connections that are kept over time, the worst ones
  json_bytes   INTEGER NOT NULL CHECK (json_bytes BETWEEN 0 AND 67108864), -- size of the JSON, bytes
  json_zlib    BLOB NOT NULL,    -- connections and traces: JSON in zlib form (RFC 1950), its members are described in docs/bundle.md
  PRIMARY KEY (trial, run),
  FOREIGN KEY (trial, run) REFERENCES collector_runs
) STRICT;
