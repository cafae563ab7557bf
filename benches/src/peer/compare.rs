//! One size after the other: set up, hold the proofs against each other, then measure in turns.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use blstrs::Bls12;
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, ProvingKey};
use interlock_engine::format::{Input, PointCheck};
use interlock_engine::proof::{Proof, Verifier, to_bytes};
use interlock_engine::srs::params;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::inputs::ProverInputs;
use super::seats::{Batch, Seat, SeatOptions};
use super::synthesis::{self, FromInputs};
use super::{Error, PeerProver};
use crate::measure::{median, timed};
use crate::statement::{Statement, demonstration_chunk};

/// Circuits in the peer's batch.
pub const PEER_BATCH: usize = 4;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Rounds that count; one more comes first, to warm up.
    pub rounds: usize,
    /// Our proofs in a batch of tasks at once, and in a job for the engine.
    pub proofs: usize,
    /// Numbers of our tasks at once, without the engine.
    pub at_once: Vec<usize>,
    /// The engines.
    pub seats: SeatOptions,
}

/// A size with everything that both provers need.
pub struct Case {
    /// The size that was asked for.
    pub log_size: u32,
    /// Circuit, SRS as read back from the file, witness.
    pub statement: Statement,
    /// What the peer takes.
    pub inputs: ProverInputs,
    /// The SRS.
    pub file: PathBuf,
    /// Seconds to make the circuit, the witness and the SRS; 0 when they were there.
    pub setup_seconds: f64,
    /// What is hashed, for the demonstration circuit.
    chunk: Option<Vec<u8>>,
    blindings: Vec<Blinding>,
    expected: Vec<u8>,
    verifier: Verifier,
}

impl Case {
    /// A case of the demonstration circuit at about `2^log_size` constraints; see [`Case::of`].
    ///
    /// # Errors
    /// See [`Case::of`].
    pub fn set_up(log_size: u32, directory: &Path) -> Result<Self, Error> {
        let (statement, setup_ms) = timed(|| Statement::demonstration(log_size));
        let case = Self::of(statement, log_size, directory)?;
        Ok(Self { setup_seconds: setup_ms / 1e3, chunk: Some(demonstration_chunk(log_size)), ..case })
    }

    /// Writes the SRS into `directory` and reads it back, checks the peer's inputs, and makes the proof that the others are
    /// held against on the CPU core.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn of(mut statement: Statement, log_size: u32, directory: &Path) -> Result<Self, Error> {
        let file = directory.join(format!("{log_size}.params"));
        params::write(&statement.key.srs, BufWriter::new(File::create(&file)?))?;
        let ProvingKey { circuit, srs } = Arc::into_inner(statement.key).ok_or("the key is shared")?;
        drop(srs);
        let srs = params::read(&Input::open(&file)?, &circuit, PointCheck::default())?;
        statement.key = Arc::new(ProvingKey { circuit, srs });

        statement.witness.check(&statement.key.circuit)?;
        let inputs = ProverInputs::new(&statement.key, &statement.witness);
        inputs.check_counts(&statement.key)?;
        if let Some(row) = inputs.first_unsatisfied() {
            return Err(format!("row {row} of a, b, c does not hold").into());
        }
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut blindings = vec![statement.blinding];
        blindings.resize_with(PEER_BATCH, || Blinding::random(&mut rng));
        let verifier = Verifier::new(&statement.key.srs.vk)?;
        let expected = to_bytes(&statement.prove(&CpuCore::new(u64::MAX, None)?)?).to_vec();
        Ok(Self {
            log_size,
            statement,
            inputs,
            file,
            setup_seconds: 0.0,
            chunk: None,
            blindings,
            expected,
            verifier,
        })
    }

    /// Whether the peer's proofs, alone and in a batch, are those of the CPU core or at least verify.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check_peer(&self, peer: &dyn PeerProver) -> Result<(), Error> {
        for count in [1, PEER_BATCH] {
            let proofs = self.prove_on_peer(peer, count)?;
            self.check_same(&proofs[0], &format!("the peer, {count} circuits"))?;
            for (index, proof) in proofs.iter().enumerate() {
                self.check_verifies(proof, &format!("the peer, circuit {index} of {count}"))?;
            }
        }
        Ok(())
    }

    /// A proof of the peer's, verified.
    ///
    /// # Errors
    /// The peer fails, or the proof does not verify.
    pub fn prove_and_verify_on_peer(&self, peer: &dyn PeerProver) -> Result<(), Error> {
        let proofs = self.prove_on_peer(peer, 1)?;
        proofs.iter().try_for_each(|proof| self.check_verifies(proof, "the peer"))
    }

    /// A proof of a core's for a statement with this case's key, verified.
    ///
    /// # Errors
    /// The core fails, or the proof does not verify.
    pub fn prove_and_verify(&self, core: &dyn Core, statement: &Statement) -> Result<(), Error> {
        self.check_verifies(&statement.prove(core)?, &format!("the {} core", core.name()))
    }

    /// Whether `core` makes the CPU core's proof.
    ///
    /// # Errors
    /// It does not.
    pub fn check_core(&self, core: &dyn Core) -> Result<(), Error> {
        let proof = self.statement.prove(core)?;
        self.check_same(&proof, &format!("the {} core", core.name()))?;
        self.check_verifies(&proof, &format!("the {} core", core.name()))
    }

    fn check_same(&self, proof: &Proof<Bls12>, who: &str) -> Result<(), Error> {
        if to_bytes(proof)[..] == self.expected[..] {
            return Ok(());
        }
        let verifies = if self.verifies(proof)? { "verifies" } else { "does not verify" };
        let parts = [("A", 0..48), ("B", 48..144), ("C", 144..192)];
        let found = to_bytes(proof);
        let differ = parts.iter().filter(|(_, range)| found[range.clone()] != self.expected[range.clone()]);
        let differ: Vec<&str> = differ.map(|(name, _)| *name).collect();
        Err(format!(
            "2^{}, {who}: the proof is not the CPU core's for the same r and s (differs in {}); it {verifies}",
            self.log_size,
            differ.join(", ")
        )
        .into())
    }

    fn check_verifies(&self, proof: &Proof<Bls12>, who: &str) -> Result<(), Error> {
        match self.verifies(proof)? {
            true => Ok(()),
            false => Err(format!("2^{}, {who}: the proof does not verify", self.log_size).into()),
        }
    }

    fn verifies(&self, proof: &Proof<Bls12>) -> Result<bool, Error> {
        let public = self.statement.witness.public_inputs(&self.statement.key.circuit);
        Ok(self.verifier.verify(proof, public)?)
    }

    fn prove_on_peer(&self, peer: &dyn PeerProver, count: usize) -> Result<Vec<Proof<Bls12>>, Error> {
        let proofs = peer.prove(&self.inputs, &self.statement.witness, &self.blindings[..count])?;
        if proofs.len() != count {
            return Err(format!("the peer made {} proofs of {count}", proofs.len()).into());
        }
        Ok(proofs)
    }
}

/// Medians of the peer: its prover alone, a, b and c being there already.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PeerTimes {
    /// Milliseconds of a call with one circuit.
    pub one_ms: f64,
    /// Milliseconds per proof of a call with [`PEER_BATCH`] circuits.
    pub batch_ms: f64,
}

impl PeerTimes {
    /// Proofs a second, the better way.
    pub fn best_rate(&self) -> f64 {
        1e3 / self.one_ms.min(self.batch_ms)
    }
}

/// Times of the peer as rounds go by.
#[derive(Default)]
struct PeerSamples {
    one_ms: Vec<f64>,
    batch_ms: Vec<f64>,
}

impl PeerSamples {
    fn take(&mut self, case: &Case, peer: &dyn PeerProver, counts: bool) -> Result<(), Error> {
        let (one, one_ms) = timed(|| case.prove_on_peer(peer, 1));
        one?;
        let (batch, batch_ms) = timed(|| case.prove_on_peer(peer, PEER_BATCH));
        batch?;
        if counts {
            self.one_ms.push(one_ms);
            self.batch_ms.push(batch_ms / PEER_BATCH as f64);
        }
        Ok(())
    }

    fn medians(self) -> PeerTimes {
        PeerTimes { one_ms: median(self.one_ms), batch_ms: median(self.batch_ms) }
    }
}

/// The peer with the card to itself.
///
/// # Errors
/// What the peer says.
pub fn measure_peer(case: &Case, peer: &dyn PeerProver, effort: &Effort) -> Result<PeerTimes, Error> {
    let mut samples = PeerSamples::default();
    for round in 0..=effort.rounds {
        samples.take(case, peer, round > 0)?;
    }
    Ok(samples.medians())
}

/// Our core with several tasks at once, without the engine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TasksAtOnce {
    /// How many.
    pub tasks: usize,
    /// Proofs a second; the median of the rounds.
    pub rate: f64,
}

/// The engine under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct EngineRow {
    /// The policy.
    pub policy: String,
    /// Device workers.
    pub workers: u32,
    /// Proofs a second, each verified; the median of the rounds.
    pub rate: f64,
    /// Proofs a second over the peer's best.
    pub ratio: f64,
    /// The share of the time in which some task was in Compute.
    pub busy: f64,
    /// Mean milliseconds per proof at gates before locks were granted.
    pub lock_wait_ms: f64,
    /// Proofs that were staged inline, of all in `proofs`.
    pub skips: u64,
    /// Proofs in all rounds that count.
    pub proofs: u64,
    /// Verdicts that the host refused.
    pub refused: u64,
    /// The most device bytes that tasks held at once.
    pub peak_bytes: u64,
}

/// Everything about one size.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The size that was asked for.
    pub log_size: u32,
    /// Constraints, without the rows for public inputs.
    pub constraints: usize,
    /// Points of the domain.
    pub domain: usize,
    /// Variables, the constant one included.
    pub variables: usize,
    /// Values of the witness that are neither 0 nor 1.
    pub wide_values: usize,
    /// Rounds behind each median.
    pub rounds: usize,
    /// Our proofs in a batch.
    pub proofs: usize,
    /// The peer before our core was opened.
    pub peer_alone: PeerTimes,
    /// The peer in turns with our core.
    pub peer_in_turns: PeerTimes,
    /// The peer's best proofs a second of all four.
    pub peer_rate: f64,
    /// Milliseconds of one task of ours, Prepare to Finish.
    pub core_one_ms: f64,
    /// Proofs a second of our core, tasks one after another.
    pub core_one_rate: f64,
    /// Our core with several tasks at once.
    pub core_at_once: Vec<TasksAtOnce>,
    /// Bytes of a task's plan: staged, and more to compute.
    pub plan_bytes: (u64, u64),
    /// From the circuit's inputs to a verified proof, for the demonstration circuit.
    pub from_inputs: Option<FromInputs>,
    /// The engine.
    pub engine: Vec<EngineRow>,
}

impl Comparison {
    /// The engine's best row.
    pub fn best_engine(&self) -> Option<&EngineRow> {
        self.engine.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    /// The best of several tasks at once.
    pub fn best_at_once(&self) -> Option<&TasksAtOnce> {
        self.core_at_once.iter().max_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

/// What our side came to as rounds go by.
struct CoreSamples {
    one_ms: Vec<f64>,
    /// Seconds of a batch, for each number of tasks at once.
    at_once: Vec<Vec<f64>>,
    /// For each engine.
    batches: Vec<Vec<Batch>>,
}

impl CoreSamples {
    fn new(effort: &Effort, seats: &[Seat]) -> Self {
        Self {
            one_ms: Vec::new(),
            at_once: vec![Vec::new(); effort.at_once.len()],
            batches: vec![Vec::new(); seats.len()],
        }
    }

    fn take(
        &mut self,
        case: &Case,
        core: &dyn Core,
        seats: &[Seat],
        effort: &Effort,
        counts: bool,
    ) -> Result<(), Error> {
        let (proof, one) = timed(|| case.statement.prove(core));
        proof?;
        if counts {
            self.one_ms.push(one);
        }
        for (tasks, samples) in effort.at_once.iter().zip(&mut self.at_once) {
            let seconds = prove_at_once(core, &case.statement, *tasks, effort.proofs)?;
            eprintln!("    {tasks} tasks at once: {:.1} proofs/s", effort.proofs as f64 / seconds);
            if counts {
                samples.push(seconds);
            }
        }
        for (seat, batches) in seats.iter().zip(&mut self.batches) {
            let batch = seat.prove(&case.statement, effort.proofs)?;
            seat.tell(&batch, effort.proofs);
            if counts {
                batches.push(batch);
            }
        }
        Ok(())
    }
}

/// Measures both provers in turns, and the engine under each policy. Each figure is said on standard error as it comes.
///
/// # Errors
/// A prover fails, or a proof of the engine does.
pub fn compare(
    case: &Case,
    peer: &dyn PeerProver,
    peer_alone: PeerTimes,
    core: &Arc<dyn Core>,
    effort: &Effort,
) -> Result<Comparison, Error> {
    let measure_from_inputs =
        |chunk: &Vec<u8>| synthesis::measure(case, chunk, peer, core.as_ref(), effort.rounds.min(3));
    let from_inputs = case.chunk.as_ref().map(measure_from_inputs).transpose()?;
    let seats = effort.seats.start(core)?;
    let mut peer_samples = PeerSamples::default();
    let mut samples = CoreSamples::new(effort, &seats);
    for round in 0..=effort.rounds {
        eprintln!("  round {round} of {}", effort.rounds);
        peer_samples.take(case, peer, round > 0)?;
        samples.take(case, core.as_ref(), &seats, effort, round > 0)?;
    }
    let peer_in_turns = peer_samples.medians();
    let peer_rate = peer_alone.best_rate().max(peer_in_turns.best_rate());
    let rows = seats.iter().zip(&samples.batches);
    let core_at_once = effort.at_once.iter().zip(samples.at_once);
    let core_one_ms = median(samples.one_ms);
    let circuit = &case.statement.key.circuit;
    let plan = core.plan(&case.statement.key);
    Ok(Comparison {
        log_size: case.log_size,
        constraints: circuit.num_constraints(),
        domain: circuit.domain_size(),
        variables: circuit.num_variables(),
        wide_values: case.statement.wide_values(),
        rounds: effort.rounds,
        proofs: effort.proofs,
        peer_alone,
        peer_in_turns,
        peer_rate,
        core_one_ms,
        core_one_rate: 1e3 / core_one_ms,
        core_at_once: core_at_once
            .map(|(tasks, seconds)| TasksAtOnce {
                tasks: *tasks,
                rate: effort.proofs as f64 / median(seconds),
            })
            .collect(),
        plan_bytes: (plan.staged_bytes, plan.compute_extra),
        from_inputs,
        engine: rows.map(|(seat, batches)| row(seat, batches, effort.proofs, peer_rate)).collect(),
    })
}

fn row(seat: &Seat, batches: &[Batch], proofs: usize, peer_rate: f64) -> EngineRow {
    let summary = seat.summary(batches, proofs);
    EngineRow {
        policy: seat.policy.clone(),
        workers: seat.workers,
        rate: summary.rate,
        ratio: summary.rate / peer_rate,
        busy: summary.busy,
        lock_wait_ms: summary.lock_wait_ms,
        skips: summary.staged_inline,
        proofs: summary.proofs,
        refused: seat.refused(),
        peak_bytes: seat.peak_bytes(),
    }
}

/// Seconds for `proofs` proofs by as many threads as `tasks`.
fn prove_at_once(core: &dyn Core, statement: &Statement, tasks: usize, proofs: usize) -> Result<f64, Error> {
    let begun = AtomicUsize::new(0);
    let work = || {
        while begun.fetch_add(1, Ordering::Relaxed) < proofs {
            statement.prove(core)?;
        }
        Ok::<_, Error>(())
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests;
