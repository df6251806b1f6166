-- The views for SQL and Grafana, and what each column means.
CREATE VIEW holdup.runs AS
  SELECT r.run_id, to_timestamp(r.created_unix_ns / 1e9) AS "time", r.created_unix_ns, r.plan, r.question, r.host, r.kernel, r.server,
         r.target, r.emulated, r.holdup_version, r.ending, r.trials_done, r.trials_void, r.bundle_bytes, r.pushed, r.pushed_by
  FROM holdup.run r;
COMMENT ON VIEW holdup.runs IS 'One row for each run that is kept.';
COMMENT ON COLUMN holdup.runs.run_id IS 'random name of the run, hexadecimal; the bundle has it too';
COMMENT ON COLUMN holdup.runs."time" IS 'when the run was begun';
COMMENT ON COLUMN holdup.runs.created_unix_ns IS 'the same, ns since 1970';
COMMENT ON COLUMN holdup.runs.plan IS 'name of the plan';
COMMENT ON COLUMN holdup.runs.question IS 'question that the plan answers';
COMMENT ON COLUMN holdup.runs.host IS 'name of the host, or of the simulated machine; NULL where the bundle does not have it';
COMMENT ON COLUMN holdup.runs.kernel IS 'release of the kernel';
COMMENT ON COLUMN holdup.runs.server IS 'version of PostgreSQL';
COMMENT ON COLUMN holdup.runs.target IS 'where the trials ran: local, qemu, sim';
COMMENT ON COLUMN holdup.runs.emulated IS 'what times are; NULL where they are those of hardware';
COMMENT ON COLUMN holdup.runs.holdup_version IS 'version of holdup that wrote the bundle';
COMMENT ON COLUMN holdup.runs.ending IS 'how the run ended; NULL when it never did';
COMMENT ON COLUMN holdup.runs.trials_done IS 'trials that count';
COMMENT ON COLUMN holdup.runs.trials_void IS 'trials that do not';
COMMENT ON COLUMN holdup.runs.bundle_bytes IS 'size of the bundle, bytes';
COMMENT ON COLUMN holdup.runs.pushed IS 'when it was pushed';
COMMENT ON COLUMN holdup.runs.pushed_by IS 'role that pushed it';

CREATE VIEW holdup.arms AS
  SELECT r.run_id, a.arm, a.label, a.workload, a.design, a.replica
  FROM holdup.arm a JOIN holdup.run r USING (run);
COMMENT ON VIEW holdup.arms IS 'One row for each arm of each run.';
COMMENT ON COLUMN holdup.arms.arm IS 'number of the arm in its bundle';
COMMENT ON COLUMN holdup.arms.label IS 'what tables call the arm';
COMMENT ON COLUMN holdup.arms.workload IS 'name of its workload in the plan';
COMMENT ON COLUMN holdup.arms.design IS 'same for two runs whose arms of the same label measure the same';
COMMENT ON COLUMN holdup.arms.replica IS 'same: the A/A pair; unobserved: without collectors; else NULL';

CREATE VIEW holdup.trials AS
  SELECT r.run_id, t.trial, a.label AS arm, a.workload, t.session, t.block, t.void_reason,
         to_timestamp(t.started_unix_ns / 1e9) AS "time", t.window_ns, m.id AS metric, m.unit, t."values"[i] AS value
  FROM holdup.trial t JOIN holdup.run r USING (run) JOIN holdup.arm a USING (run, arm)
  CROSS JOIN LATERAL generate_subscripts(a.metrics, 1) i JOIN holdup.metric m ON m.metric = a.metrics[i];
COMMENT ON VIEW holdup.trials IS 'One row for each metric of each trial, void ones included.';
COMMENT ON COLUMN holdup.trials.trial IS 'place in the order in which trials ran, from 0';
COMMENT ON COLUMN holdup.trials.void_reason IS 'why it does not count; NULL when it does';
COMMENT ON COLUMN holdup.trials."time" IS 'when its set-up began';
COMMENT ON COLUMN holdup.trials.window_ns IS 'length of the window, ns; NULL when it never opened';
COMMENT ON COLUMN holdup.trials.value IS 'what was measured; NULL where nothing was';

CREATE VIEW holdup.series AS
  SELECT to_timestamp(r.created_unix_ns / 1e9) AS "time", r.run_id, r.plan, r.host, r.kernel, r.server, r.target, r.emulated, a.workload,
         a.label AS arm, a.design, m.id AS metric, m.unit, m.better, v.is_primary, v.margin, v.trials, v.mean AS value, v.cv
  FROM holdup.arm_value v JOIN holdup.arm a USING (run, arm) JOIN holdup.run r USING (run) JOIN holdup.metric m USING (metric)
  WHERE a.replica IS NULL;
COMMENT ON VIEW holdup.series IS 'One row for each metric of each arm of each run, replicas of baselines left out: what holdup history draws.';
COMMENT ON COLUMN holdup.series."time" IS 'when the run was begun';
COMMENT ON COLUMN holdup.series.better IS 'which way is better: higher or lower';
COMMENT ON COLUMN holdup.series.is_primary IS 'whether the metric answers the question of the plan';
COMMENT ON COLUMN holdup.series.margin IS 'largest difference that counts as none, as a share';
COMMENT ON COLUMN holdup.series.trials IS 'trials behind the value';
COMMENT ON COLUMN holdup.series.value IS 'geometric mean over the trials that count, in the unit of the metric';
COMMENT ON COLUMN holdup.series.cv IS 'standard deviation by mean over these trials, as a share';

CREATE VIEW holdup.facts AS
  SELECT r.run_id, f.key, f.value FROM holdup.run r JOIN holdup.environment e USING (environment)
  CROSS JOIN LATERAL jsonb_each_text(e.facts) f;
COMMENT ON VIEW holdup.facts IS 'The facts about the host at the begin of each run.';
COMMENT ON COLUMN holdup.facts.key IS 'dotted key, such as kernel.release';
COMMENT ON COLUMN holdup.facts.value IS 'the value';
