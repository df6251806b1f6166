//! The program. All of it is in the library, so that its pages are made from the same command line (examples/pages.rs).

fn main() -> std::process::ExitCode {
    holdup::main()
}
