//! The `interlock` program.

fn main() -> std::process::ExitCode {
    interlock_engine::cli::main()
}
