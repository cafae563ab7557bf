//! The CPU core against ark-groth16 over BLS12-381, in one run, on one circuit: the SHA-256 of a file chunk of `--blocks` blocks.
//!
//! ```sh
//! cargo bench -p interlock-benches --features ark --bench peer_ark -- --blocks 4 --threads 2 --rounds 5
//! ```
//!
//! The circuit is recorded once and given to both as the same three matrices with the same assignment, so that neither side synthesizes: what is timed
//! is from the assignment to the proof. Each side has an SRS of its own, as neither reads the other's; each proof is verified by its own side. Both
//! get the same number of threads and take turns; the fastest round counts, and the median stands beside it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ark_bls12_381::{Bls12_381, Fr};
use ark_ff::{PrimeField, UniformRand};
use ark_groth16::{Groth16, prepare_verifying_key};
use ark_relations::r1cs::{
    ConstraintMatrices, ConstraintSynthesizer, ConstraintSystem, ConstraintSystemRef, LinearCombination,
    SynthesisError, SynthesisMode, Variable,
};
use clap::Parser;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::circuit::{Circuit, Csr, FileChunk, Witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, ProvingKey};
use interlock_engine::proof;
use interlock_engine::srs::setup;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Error = Box<dyn std::error::Error>;

/// SHA-256 takes 64 bytes a block and adds at least 9 of its own.
const BLOCK_BYTES: usize = 64;
const PADDING_BYTES: usize = 9;

#[derive(Parser)]
struct Options {
    /// Blocks of SHA-256
    #[arg(long, default_value_t = 1)]
    blocks: usize,
    /// Threads of each side
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Rounds: each side proves once in each
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// What cargo passes to benches
    #[arg(long, hide = true)]
    bench: bool,
}

/// The recorded circuit with an assignment, as arkworks takes it.
struct Recorded<'a> {
    circuit: &'a Circuit,
    values: Vec<Fr>,
    coefficients: Vec<Fr>,
}

fn to_ark(scalar: &blstrs::Scalar) -> Fr {
    Fr::from_le_bytes_mod_order(&scalar.to_bytes_le())
}

impl<'a> Recorded<'a> {
    fn new(circuit: &'a Circuit, witness: &Witness) -> Self {
        Self {
            circuit,
            values: witness.values.iter().map(to_ark).collect(),
            coefficients: circuit.coefficients.iter().map(to_ark).collect(),
        }
    }

    fn sum(&self, matrix: &Csr, row: usize, variables: &[Variable]) -> LinearCombination<Fr> {
        let term = |(column, coefficient): (u32, u32)| {
            (self.coefficients[coefficient as usize], variables[column as usize])
        };
        LinearCombination(matrix.row(row).map(term).collect())
    }
}

impl ConstraintSynthesizer<Fr> for &Recorded<'_> {
    fn generate_constraints(self, system: ConstraintSystemRef<Fr>) -> Result<(), SynthesisError> {
        let inputs = self.circuit.num_inputs;
        let mut variables = vec![Variable::One];
        for value in &self.values[1..inputs] {
            variables.push(system.new_input_variable(|| Ok(*value))?);
        }
        for value in &self.values[inputs..] {
            variables.push(system.new_witness_variable(|| Ok(*value))?);
        }
        for row in 0..self.circuit.num_constraints() {
            let [a, b, c] = [&self.circuit.a, &self.circuit.b, &self.circuit.c]
                .map(|matrix| self.sum(matrix, row, &variables));
            system.enforce_constraint(a, b, c)?;
        }
        Ok(())
    }
}

fn matrices(recorded: &Recorded<'_>) -> Result<ConstraintMatrices<Fr>, Error> {
    let system = ConstraintSystem::new_ref();
    system.set_mode(SynthesisMode::Prove { construct_matrices: true });
    recorded.generate_constraints(system.clone())?;
    system.finalize();
    if !system.is_satisfied()? {
        return Err("arkworks finds the assignment wrong".into());
    }
    system.to_matrices().ok_or_else(|| "arkworks made no matrices".into())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer_ark: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let bytes = (options.blocks.max(1) * BLOCK_BYTES - PADDING_BYTES) / 32 * 32;
    let circuit = record(FileChunk::shape(bytes))?;
    let chunk: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
    let witness = Arc::new(synthesize_witness(FileChunk::new(&chunk, bytes)?)?);
    let (constraints, domain) = (circuit.num_constraints(), circuit.domain_size().ilog2());
    let (threads, rounds) = (options.threads, options.rounds.max(1));
    println!(
        "SHA-256 of {bytes} bytes: {constraints} constraints, domain 2^{domain}; {threads} threads, {rounds} rounds"
    );
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let recorded = Recorded::new(&circuit, &witness);
    let mut random = ark_std::rand::rngs::StdRng::seed_from_u64(1);
    let theirs = pool.install(|| {
        Groth16::<Bls12_381>::generate_random_parameters_with_reduction(&recorded, &mut random)
    })?;
    let their_vk = prepare_verifying_key(&theirs.vk);
    let matrices = matrices(&recorded)?;
    let core = CpuCore::new(u64::MAX, Some(threads))?;
    let srs = setup::generate(&circuit, ChaCha20Rng::seed_from_u64(2));
    let key = Arc::new(ProvingKey { circuit: circuit.clone(), srs });
    let public: Vec<_> = witness.values[1..circuit.num_inputs].to_vec();
    let mut blindings = ChaCha20Rng::seed_from_u64(3);
    let (mut ark_times, mut own_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (r, s) = (Fr::rand(&mut random), Fr::rand(&mut random));
        let started = Instant::now();
        let proof = pool.install(|| {
            Groth16::<Bls12_381>::create_proof_with_reduction_and_matrices(
                &theirs,
                r,
                s,
                &matrices,
                matrices.num_instance_variables,
                matrices.num_constraints,
                &recorded.values,
            )
        })?;
        ark_times.push(started.elapsed());
        if !Groth16::<Bls12_381>::verify_proof(&their_vk, &proof, &recorded.values[1..circuit.num_inputs])? {
            return Err("arkworks' proof does not verify".into());
        }
        let started = Instant::now();
        let mut task = core.task(0, key.clone(), witness.clone(), Blinding::random(&mut blindings))?;
        task.prepare()?;
        task.stage()?;
        task.compute()?;
        let proof = task.finish()?;
        own_times.push(started.elapsed());
        if !proof::verify(&key.srs.vk, &proof, &public)? {
            return Err("the proof does not verify".into());
        }
    }
    let ((ark, ark_median), (own, own_median)) = (fastest(&mut ark_times), fastest(&mut own_times));
    println!("{:<22} {:>10} {:>10}", "", "fastest", "median");
    println!("{:<22} {ark:>9.3}s {ark_median:>9.3}s", "ark-groth16");
    println!("{:<22} {own:>9.3}s {own_median:>9.3}s", "interlock");
    println!("{:<22} {:>9.2}x {:>9.2}x", "ratio", ark / own, ark_median / own_median);
    Ok(())
}

/// The fastest and the median, in seconds.
fn fastest(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    (times[0].as_secs_f64(), times[times.len() / 2].as_secs_f64())
}
