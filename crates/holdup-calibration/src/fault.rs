//! First touches of pages that are in the page cache.

use super::bench::{each_ns, on_cpu, repeats};
use super::pages::Pages;
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "fault_ns",
    docs: "the first write to each of 256 pages of a memfd less touch_ns, 10 passes, entries dropped by MADV_DONTNEED \
           before each; a write fault maps one page",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    on_cpu(context.cpu()?, || {
        let touch_ns = context.known("touch_ns")?;
        let pages = Pages::small(256)?;
        repeats("page faults", || {
            let pass = |_| {
                pages.forget();
                each_ns(1, || pages.touch_all()) / pages.count() - touch_ns
            };
            Ok(quiet((0..10).map(pass).collect()))
        })
    })
}
