//! First touches of huge pages.

use super::bench::{each_ns, on_cpu, repeats};
use super::pages::Pages;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "huge_fault_ns",
    docs: "the first write to a huge page of 2 MB of a new memfd each time, allocated from those reserved and zeroed then; \
           one page for each repeat",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    if context.huge_pages_free == 0 {
        return Err(Problem::host("huge pages", "no page of 2 MB is reserved and free (vm.nr_hugepages)"));
    }
    on_cpu(context.cpu()?, || {
        repeats("huge pages", || {
            let page = Pages::huge(1)?;
            Ok(Some(each_ns(1, || page.touch_all())))
        })
    })
}
