//! The CUDA proving core of Interlock: a library that the engine loads at run time.
//!
//! The layers, from the outside in:
//!
//! | module | what it holds |
//! |---|---|
//! | `boundary` | the exported functions: handles in, faults out, no panic across |
//! | `task` | one proof, stage by stage |
//! | `quotient`, `product`, `msm` | what is launched, in which order |
//! | `key`, `feed` | what stays between tasks, and how it gets to the kernels |
//! | `clock` | when the device did what |
//! | `gpu`, `arena` | one device: context, kernels, streams, memory |
//! | `driver` | the driver's functions that cust has no wrapper for |
//! | `plan` | how much memory, and where: arithmetic without a device |
//!
//! The kernels are CUDA C++ in `kernels/`, on sppark's field and curve headers.
//!
//! Tasks of one device share nothing but its keys, which are only read. All device memory of tasks is one
//! allocation, made when the device is opened; on a task's path nothing waits for the whole device.

#![deny(missing_docs)]

mod arena;
mod boundary;
mod clock;
mod driver;
mod fault;
mod feed;
mod gpu;
mod host_field;
mod kernels;
mod key;
mod msm;
mod notices;
mod plan;
mod product;
mod quotient;
mod sums;
mod task;
