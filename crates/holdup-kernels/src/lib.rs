//! Kernels for guests: what a plan may name, where it comes from, and the cache that keeps it.
