//! Page table entries that are dropped.

use super::bench::{each_ns, on_cpu, repeats};
use super::pages::Pages;
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "forget_ns",
    docs: "MADV_DONTNEED of 256 mapped pages of a memfd less the same call with none mapped, for each page, 10 passes; \
           other CPUs have nothing to flush",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    on_cpu(context.cpu()?, || {
        let pages = Pages::small(256)?;
        repeats("page table entries", || {
            let pass = |_| {
                pages.touch_all();
                let mapped = each_ns(1, || pages.forget());
                (mapped - each_ns(1, || pages.forget())) / pages.count()
            };
            Ok(quiet((0..10).map(pass).collect()))
        })
    })
}
