//! An interrupt to another CPU, for the CPU that sends it.

use super::far_sleeper::far_wakes;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "ipi_send_ns",
    docs: "FUTEX_WAKE of a thread that slept for 0.2 ms on a second, idle CPU, less one that wakes no thread and wake_ns, 20 in a \
           repeat; in a guest the interrupt may be an exit to the hypervisor, which is most of it then",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    let known_ns = context.known("wake_ns")?;
    far_wakes(context, "an interrupt to an idle CPU", |wake| wake.call_ns - wake.empty_ns - known_ns)
}
