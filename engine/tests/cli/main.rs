//! The `interlock` program as people run it: real files in, real files out, exit codes.

mod bad_input;
mod cuda;
mod isolation;
mod prove;
mod signals;
mod support;
mod trust;
