//! What unit tests of several engines share.

use holdup_load::WindowHooks;
use holdup_model::{Measured, Measurement, Metric, Problem, Window};

/// Calls back when the window opens.
pub(crate) struct Hooks<'a>(pub(crate) &'a mut dyn FnMut());

impl WindowHooks for Hooks<'_> {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        (self.0)();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 1 })
    }
}

/// `ID VALUE` or `ID absent: WHY` of each measurement.
pub(crate) fn shown(measurements: &[Measurement]) -> Vec<String> {
    let value = |m: &Measurement| match &m.value {
        Measured::Value(v) => format!("{v}"),
        Measured::Absent(why) => format!("absent: {why}"),
    };
    measurements.iter().map(|m| format!("{} {}", m.metric, value(m))).collect()
}

#[test]
fn metrics_have_distinct_ids_and_the_primary_one_is_among_them() {
    for workload in crate::workloads::ALL {
        let ids: Vec<String> = workload.metrics(&[]).into_iter().map(|Metric { id, .. }| id).collect();
        let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{}", workload.meta().id);
        if let (Some(primary), [_, ..]) = (workload.primary_metric(), ids.as_slice()) {
            assert!(ids.iter().any(|id| id == primary), "{}: {primary}", workload.meta().id);
        }
    }
    for (id, first) in
        [("lock-contention", "operations_per_s"), ("messenger", "messages_per_s"), ("request", "requests_per_s")]
    {
        assert_eq!(crate::find(id).map(|workload| workload.metrics(&[])[0].id.clone()).as_deref(), Some(first));
    }
}
