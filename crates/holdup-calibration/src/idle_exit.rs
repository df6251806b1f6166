//! An idle CPU that has to run a task.

use super::far_sleeper::far_wakes;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "idle_exit_ns",
    docs: "from FUTEX_WAKE until a thread that slept for 0.2 ms on a second CPU runs, less a FUTEX_WAKE that wakes no thread, \
           ipi_ns and switch_ns, 20 in a repeat; longer sleeps reach deeper idle states",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    let known_ns = context.known("ipi_ns")? + context.known("switch_ns")?;
    far_wakes(context, "an idle CPU", |wake| wake.awake_ns - wake.empty_ns - known_ns)
}
