//! The `interlock` program as people run it: real files in, real files out, exit codes.

mod ab;
mod bad_input;
mod calibrate;
mod control;
mod control_strangers;
mod cuda;
mod isolation;
mod policy_check;
mod prove;
mod report;
mod running;
mod signals;
mod simulate;
mod support;
mod trust;
mod tune;
