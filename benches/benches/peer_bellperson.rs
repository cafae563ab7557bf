//! The CPU core and the setup against bellperson, in one run, on one circuit: the SHA-256 of a file
//! chunk of `--blocks` blocks, through bellperson's own gadgets.
//!
//! ```sh
//! cargo bench -p interlock-benches --bench peer_bellperson -- --blocks 4 --threads 2 --rounds 5
//! ```
//!
//! What is compared, and how it is kept fair:
//! - *Prover*: Prepare to Finish here, on a witness that is there already; there, bellperson's own
//!   "prover time", which it logs and which leaves out synthesis. Its synthesis makes a, b and c too,
//!   so that the matrix-vector products count on our side only.
//! - *Setup*: `srs::setup::generate` against `generate_random_parameters`.
//! - Both sides get the same number of threads, take turns, and the fastest round of each counts. The
//!   proofs of each round are made with the same SRS and blinding, and must be the same bytes.
//! - Wall time is what counts; CPU time stands beside it, as it suffers less from a busy machine.
//! - *Memory*: a process of its own reads SRS and circuit from files and proves; the kernel's
//!   high-water mark while it proves, over the bytes of SRS, witness, a, b and c.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bellperson::groth16::{
    Parameters, create_proof, generate_random_parameters, prepare_verifying_key, verify_proof,
};
use blstrs::Bls12;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness};
use interlock_engine::circuit::{Circuit, FileChunk, Witness};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::{Blinding, Core, ProvingKey};
use interlock_engine::format::{Input, PointCheck};
use interlock_engine::proof::Proof;
use interlock_engine::srs::{Srs, params, setup};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Error = Box<dyn std::error::Error>;

/// SHA-256 takes 64 bytes a block and adds at least 9 of its own.
const BLOCK_BYTES: usize = 64;
const PADDING_BYTES: usize = 9;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer_bellperson: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line says.
struct Options {
    blocks: usize,
    threads: usize,
    rounds: usize,
    setup: bool,
    memory: Option<PathBuf>,
}

impl Options {
    fn parse() -> Result<Self, Error> {
        let threads = std::thread::available_parallelism()?.get();
        let mut options = Self { blocks: 4, threads, rounds: 5, setup: true, memory: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--blocks" => options.blocks = value()?.parse()?,
                "--threads" => options.threads = value()?.parse()?,
                "--rounds" => options.rounds = value()?.parse()?,
                "--no-setup" => options.setup = false,
                "--memory-of" => options.memory = Some(value()?.into()),
                "--bench" => {}
                other => return Err(format!("unknown argument {other}").into()),
            }
        }
        Ok(options)
    }

    fn chunk_bytes(&self) -> usize {
        self.blocks * BLOCK_BYTES - PADDING_BYTES
    }

    /// This program again, with the thread pools of both sides set.
    fn again(&self) -> Result<Command, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        let threads = self.threads.to_string();
        command.env("RAYON_NUM_THREADS", &threads).env("EC_GPU_NUM_THREADS", &threads);
        command.env("BELLMAN_NUM_CPUS", &threads).args(["--threads", &threads]);
        command.args(["--blocks", &self.blocks.to_string(), "--rounds", &self.rounds.to_string()]);
        Ok(command)
    }
}

fn run() -> Result<(), Error> {
    let options = Options::parse()?;
    if let Some(directory) = &options.memory {
        return prove_and_report_memory(&options, directory);
    }
    // Thread pools read the environment once: it has to be there from the start.
    if std::env::var("RAYON_NUM_THREADS").ok() != Some(options.threads.to_string()) {
        let mut command = options.again()?;
        if !options.setup {
            command.arg("--no-setup");
        }
        return if command.status()?.success() { Ok(()) } else { Err("the run failed".into()) };
    }
    compare(&options)
}

fn compare(options: &Options) -> Result<(), Error> {
    ProverTime::install()?;
    let bytes = options.chunk_bytes();
    let chunk: Vec<u8> = (0..bytes).map(|index| (index * 7) as u8).collect();
    let circuit = record(FileChunk::shape(bytes))?;
    let started = Instant::now();
    let witness = synthesize_witness(FileChunk::new(&chunk, bytes)?)?;
    let synthesis = started.elapsed();
    println!(
        "SHA-256 of {} blocks: {} constraints, {} variables, domain 2^{}; {} threads, {} rounds",
        options.blocks,
        circuit.num_constraints(),
        circuit.num_variables(),
        circuit.domain_size().ilog2(),
        options.threads,
        options.rounds
    );
    println!("making the witness: {:.3} s", synthesis.as_secs_f64());
    println!("{:<10} {:>22} {:>22} {:>8} {:>8}", "", "bellperson", "interlock", "ratio", "CPU");
    let srs = if options.setup {
        compare_setup(bytes, &circuit)?
    } else {
        setup::generate(&circuit, ChaCha20Rng::seed_from_u64(1))
    };
    let directory = tempfile::tempdir()?;
    params::write(&srs, std::io::BufWriter::new(std::fs::File::create(directory.path().join("params"))?))?;
    compare_prover(options, &chunk, circuit, srs, witness)?;
    let memory = options.again()?.arg("--memory-of").arg(directory.path()).status()?;
    if memory.success() { Ok(()) } else { Err("the memory measurement failed".into()) }
}

fn compare_setup(bytes: usize, circuit: &Circuit) -> Result<Srs, Error> {
    let ours = Measured::of(|| setup::generate(circuit, ChaCha20Rng::seed_from_u64(1)));
    let theirs = Measured::of(|| {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        generate_random_parameters::<Bls12, _, _>(FileChunk::shape(bytes), &mut rng)
    });
    theirs.value?;
    print_row("setup", theirs.time, ours.time);
    Ok(ours.value)
}

fn compare_prover(
    options: &Options,
    chunk: &[u8],
    circuit: Circuit,
    srs: Srs,
    witness: Witness,
) -> Result<(), Error> {
    let parameters = Parameters {
        vk: srs.vk.clone(),
        h: Arc::new(srs.h.clone()),
        l: Arc::new(srs.l.clone()),
        a: Arc::new(srs.a.clone()),
        b_g1: Arc::new(srs.b_g1.clone()),
        b_g2: Arc::new(srs.b_g2.clone()),
    };
    let vk = prepare_verifying_key(&srs.vk);
    let inputs = FileChunk::public_inputs(chunk, options.chunk_bytes())?;
    let core = CpuCore::new(u64::MAX, Some(options.threads))?;
    let key = Arc::new(ProvingKey { circuit, srs });
    let witness = Arc::new(witness);
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (mut best_theirs, mut best_ours) = (Times::MAX, Times::MAX);
    for _ in 0..options.rounds.max(1) {
        let blinding = Blinding::random(&mut rng);
        let theirs = Measured::of(|| {
            let circuit = FileChunk::new(chunk, options.chunk_bytes())?;
            Ok::<_, Error>(create_proof(circuit, &parameters, blinding.r, blinding.s)?)
        });
        let wall = ProverTime::take().ok_or("bellperson did not log its prover time")?;
        best_theirs = best_theirs.min(Times { wall, ..theirs.time });
        let ours = Measured::of(|| prove(&core, &key, &witness, blinding));
        best_ours = best_ours.min(ours.time);
        let (theirs, ours) = (theirs.value?, ours.value?);
        if ours != theirs {
            return Err("the proofs differ".into());
        }
        if !verify_proof(&vk, &ours, &inputs)? {
            return Err("the proof does not verify".into());
        }
    }
    print_row("prover", best_theirs, best_ours);
    Ok(())
}

fn prove(
    core: &CpuCore,
    key: &Arc<ProvingKey>,
    witness: &Arc<Witness>,
    blinding: Blinding,
) -> Result<Proof<Bls12>, Error> {
    let mut task = core.task(0, key.clone(), witness.clone(), blinding)?;
    let verbose = std::env::var_os("PEER_STAGES").is_some();
    let timed = |what: &str, started: Instant| {
        if verbose {
            println!("  {what}: {:.3} s", started.elapsed().as_secs_f64());
        }
        Instant::now()
    };
    let started = Instant::now();
    task.prepare()?;
    let started = timed("prepare", started);
    task.stage()?;
    let started = timed("stage", started);
    task.compute()?;
    let started = timed("compute", started);
    let proof = task.finish()?;
    timed("finish", started);
    Ok(proof)
}

/// The child's part: what proving needs in memory.
fn prove_and_report_memory(options: &Options, directory: &Path) -> Result<(), Error> {
    let bytes = options.chunk_bytes();
    let circuit = record(FileChunk::shape(bytes))?;
    let input = Input::open(directory.join("params"))?;
    let srs = params::read(&input, &circuit, PointCheck::default())?;
    let witness = Arc::new(synthesize_witness(FileChunk::new(&[1; 16], bytes)?)?);
    let core = CpuCore::new(u64::MAX, Some(options.threads))?;
    let needed = srs.point_bytes() + (witness.values.len() + 3 * circuit.domain_size()) as u64 * 32;
    let key = Arc::new(ProvingKey { circuit, srs });
    // "5" sets the high-water mark of this process to what it holds now (proc(5)).
    std::fs::write("/proc/self/clear_refs", "5")?;
    let before = status_kib("VmRSS:").ok_or("no VmRSS in /proc/self/status")?;
    prove(&core, &key, &witness, Blinding::random(ChaCha20Rng::seed_from_u64(4)))?;
    let peak = status_kib("VmHWM:").ok_or("no VmHWM in /proc/self/status")?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "memory: peak {:.1} MiB ({:.1} MiB before proving) over SRS + witness + a, b, c of {:.1} MiB: {:.2}x",
        mib(peak << 10),
        mib(before << 10),
        mib(needed),
        (peak << 10) as f64 / needed as f64
    );
    Ok(())
}

fn status_kib(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Wall and CPU time.
#[derive(Clone, Copy)]
struct Times {
    wall: Duration,
    cpu: Duration,
}

impl Times {
    const MAX: Self = Self { wall: Duration::MAX, cpu: Duration::MAX };

    fn min(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

struct Measured<T> {
    value: T,
    time: Times,
}

impl<T> Measured<T> {
    fn of(work: impl FnOnce() -> T) -> Self {
        let (started, cpu) = (Instant::now(), cpu_time());
        let value = work();
        let time = Times { wall: started.elapsed(), cpu: cpu_time().saturating_sub(cpu) };
        Self { value, time }
    }
}

/// CPU time of this process so far, in steps of 10 ms; zero where there is no procfs.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields after the parenthesised name: utime and stime are the 12th and 13th, in 1/100 s.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn print_row(what: &str, theirs: Times, ours: Times) {
    let seconds =
        |time: Times| format!("{:.3} s ({:.2} s CPU)", time.wall.as_secs_f64(), time.cpu.as_secs_f64());
    let ratio = |theirs: Duration, ours: Duration| {
        format!("{:.2}x", theirs.as_secs_f64() / ours.as_secs_f64().max(1e-9))
    };
    println!(
        "{what:<10} {:>22} {:>22} {:>8} {:>8}",
        seconds(theirs),
        seconds(ours),
        ratio(theirs.wall, ours.wall),
        ratio(theirs.cpu, ours.cpu)
    );
}

/// Catches the prover time that bellperson logs.
struct ProverTime(Mutex<Option<Duration>>);

static PROVER_TIME: ProverTime = ProverTime(Mutex::new(None));

impl ProverTime {
    fn install() -> Result<(), Error> {
        log::set_logger(&PROVER_TIME).map_err(|error| error.to_string())?;
        log::set_max_level(log::LevelFilter::Info);
        Ok(())
    }

    fn take() -> Option<Duration> {
        PROVER_TIME.0.lock().ok()?.take()
    }

    /// Reads a duration as its `Debug` form writes it.
    fn parse(text: &str) -> Option<Duration> {
        let units = [("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("s", 1.0)];
        let (unit, scale) = units.into_iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs_f64(number * scale))
    }
}

impl log::Log for ProverTime {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let message = record.args().to_string();
        if let Some(time) = message.strip_prefix("prover time: ").and_then(Self::parse)
            && let Ok(mut slot) = self.0.lock()
        {
            *slot = Some(time);
        }
    }

    fn flush(&self) {}
}
