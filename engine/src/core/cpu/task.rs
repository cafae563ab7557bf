//! One proof on the CPU core, stage by stage.

use std::collections::TryReserveError;
use std::sync::Arc;

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::Bls12;
use rayon::ThreadPool;
use rayon::prelude::*;

use super::NAME;
use super::assignment::{Assignment, QueryTerms};
use super::msm::{Batch, Products, Sum};
use super::ntt::Twiddles;
use super::quotient::h_scalars;
use super::spmv::Evaluations;
use crate::arith::affine::AffinePoint;
use crate::arith::domain::Domain;
use crate::circuit::Witness;
use crate::core::sums::Sums;
use crate::core::{Blinding, CoreError, CoreTask, ProvingKey};
use crate::proof::Proof;
use crate::srs::Srs;

/// A proof being made.
pub struct CpuTask {
    pool: Arc<ThreadPool>,
    key: Arc<ProvingKey>,
    witness: Arc<Witness>,
    blinding: Blinding,
    progress: Progress,
}

/// What the stages so far have left.
enum Progress {
    Created,
    Prepared(Assignment),
    Staged(Assignment, Evaluations),
    Computed(Box<Sums>),
    Failed,
}

impl CpuTask {
    /// A task whose key and witness fit together.
    pub fn new(
        pool: Arc<ThreadPool>,
        key: Arc<ProvingKey>,
        witness: Arc<Witness>,
        blinding: Blinding,
    ) -> Self {
        Self { pool, key, witness, blinding, progress: Progress::Created }
    }

    /// Takes the task's state; it counts as failed until a new one is set.
    fn take(&mut self) -> Progress {
        std::mem::replace(&mut self.progress, Progress::Failed)
    }

    fn evaluate(&self) -> Result<Evaluations, CoreError> {
        self.pool
            .install(|| Evaluations::new(&self.key.circuit, &self.witness))
            .map_err(out_of_memory("a, b and c", Evaluations::bytes(self.key.circuit.domain_size())))
    }
}

/// An error for running out of memory, for `map_err`.
fn out_of_memory(what: &'static str, bytes: u64) -> impl Fn(TryReserveError) -> CoreError {
    move |_| CoreError::OutOfMemory { core: NAME, what: what.into(), bytes }
}

impl CoreTask for CpuTask {
    fn prepare(&mut self) -> Result<(), CoreError> {
        let Progress::Created = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "prepare", missing: "nothing: it has run" });
        };
        self.key.check_variables()?;
        let assignment = self
            .pool
            .install(|| Assignment::new(&self.key, &self.witness.values))
            .map_err(out_of_memory("the sorted witness", Assignment::bytes(&self.key)))?;
        self.progress = Progress::Prepared(assignment);
        Ok(())
    }

    fn stage(&mut self) -> Result<(), CoreError> {
        let Progress::Prepared(assignment) = self.take() else {
            return Err(CoreError::OutOfOrder { stage: "stage", missing: "prepare" });
        };
        self.progress = Progress::Staged(assignment, self.evaluate()?);
        Ok(())
    }

    fn compute(&mut self) -> Result<(), CoreError> {
        let (assignment, evaluations) = match self.take() {
            Progress::Staged(assignment, evaluations) => (assignment, evaluations),
            Progress::Prepared(assignment) => (assignment, self.evaluate()?),
            _ => return Err(CoreError::OutOfOrder { stage: "compute", missing: "prepare" }),
        };
        let sums = self.pool.install(|| compute(&self.key, &assignment, evaluations))?;
        self.progress = Progress::Computed(Box::new(sums));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Proof<Bls12>, CoreError> {
        match &self.progress {
            Progress::Computed(sums) => Ok(sums.assemble(&self.key.srs, &self.blinding)),
            _ => Err(CoreError::OutOfOrder { stage: "finish", missing: "compute" }),
        }
    }
}

fn compute(key: &ProvingKey, assignment: &Assignment, evaluations: Evaluations) -> Result<Sums, CoreError> {
    let size = key.circuit.domain_size();
    let domain = Domain::new(key.srs.h_basis, size.ilog2());
    let h = {
        let twiddles =
            Twiddles::new(domain).map_err(out_of_memory("roots of unity", Twiddles::bytes(size)))?;
        h_scalars(evaluations, &twiddles, key.srs.h_basis)
    };
    sum_points(&key.srs, assignment, &h).map_err(out_of_memory(
        "buckets",
        super::memory::plan(key, rayon::current_num_threads()).compute_extra,
    ))
}

fn sum_points(srs: &Srs, assignment: &Assignment, h: &[blst_fr]) -> Result<Sums, TryReserveError> {
    let threads = rayon::current_num_threads();
    let g1 = [
        Sum { points: &srs.h, scalars: h, products: Products::InOrder, plus: &[], minus: &[] },
        query::<blst_p1_affine>(&srs.l, assignment, &assignment.l),
        query::<blst_p1_affine>(&srs.a, assignment, &assignment.a),
        query::<blst_p1_affine>(&srs.b_g1, assignment, &assignment.b),
    ];
    let g2 = [query::<blst_p2_affine>(&srs.b_g2, assignment, &assignment.b)];
    let (g1, g2) = (Batch::new(&g1, threads)?, Batch::new(&g2, threads)?);
    // The costliest jobs come first, so that all threads end at about the same time.
    (0..threads).into_par_iter().with_max_len(1).try_for_each(|_| {
        g2.work()?;
        g1.work()
    })?;
    let (g1, g2) = (g1.finish(), g2.finish());
    Ok(Sums { h: g1[0], l: g1[1], a: g1[2], b_g1: g1[3], b_g2: g2[0] })
}

fn query<'a, P: AffinePoint>(
    points: &'a [P::Public],
    assignment: &'a Assignment,
    terms: &'a QueryTerms,
) -> Sum<'a, P> {
    Sum {
        points,
        scalars: &assignment.scalars,
        products: Products::Listed(&terms.products),
        plus: &terms.plus,
        minus: &terms.minus,
    }
}
