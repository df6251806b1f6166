//! Where trials run, and the run loop.
