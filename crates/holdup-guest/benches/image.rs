//! How long an image takes: `cargo bench -p holdup-guest --bench image`.
fn main() {
    divan::main();
}
