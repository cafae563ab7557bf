//! Interlock: a Groth16 (BLS12-381) proving engine whose scheduling is a plug-in.
//!
//! The rooms of the engine, in the order data flows through them:
//!
//! | module | what it holds |
//! |---|---|
//! | [`format`](mod@format) | what file formats share: named inputs, checked points, the error with its place |
//! | [`arith`] | field, curve and domain arithmetic under the core and the setup |
//! | [`circuit`] | formats in (circom `.r1cs` and `.wtns`, bellpepper circuits), one inner CSR form |
//! | [`srs`] | proving keys in (snarkjs `.zkey`, bellperson `.params`), development setup, one inner form |
//! | [`proof`] | proofs and public inputs, in and out (snarkjs JSON, bellperson bytes), verification |
//! | [`core`] | the trait every proving core keeps, and the CPU core |
//! | [`host`] | policies: `plugins.ron`, checks before loading, loading, instances |
//! | [`interlock`] | the arbiter: locks, device bytes, and who may go on |
//! | [`pipeline`] | the engine: threads that drive tasks through the arbiter |
//! | [`experiment`] | the same work under several policies in turns, with figures and verdicts |
//! | [`control`] | the control socket of a running engine: switches, figures |
//! | [`report`] | what a run has to say for itself: JSON, text, timeline, trace |
//! | [`cli`] | the `interlock` command |

#![deny(missing_docs)]

pub mod arith;
pub mod circuit;
pub mod cli;
pub mod control;
pub mod core;
pub mod experiment;
pub mod format;
pub mod host;
pub mod pipeline;
pub mod proof;
pub mod report;
pub mod srs;

pub use interlock_arbiter as interlock;
