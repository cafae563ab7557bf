//! The parts of the CPU core, one by one.

use std::hint::black_box;
use std::sync::Arc;

use blst::{blst_fr, blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ff::Field;
use group::{Curve, Group};
use interlock_engine::arith::domain::Domain;
use interlock_engine::arith::field::canonical;
use interlock_engine::circuit::FileChunk;
use interlock_engine::circuit::bellpepper::{record, synthesize_witness, synthesize_witness_for};
use interlock_engine::core::cpu::CpuCore;
use interlock_engine::core::cpu::msm::multiply;
use interlock_engine::core::cpu::ntt::Twiddles;
use interlock_engine::core::cpu::spmv::Evaluations;
use interlock_engine::core::{Blinding, Core, ProvingKey};
use interlock_engine::srs::{HBasis, setup};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(1)
}

fn scalars(count: usize) -> Vec<Scalar> {
    let mut rng = rng();
    (0..count).map(|_| Scalar::random(&mut rng)).collect()
}

fn transforms(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ntt");
    for log_size in [12, 15, 17, 20] {
        let twiddles = Twiddles::new(Domain::new(HBasis::Monomial, log_size)).expect("memory");
        let mut values: Vec<blst_fr> = scalars(1 << log_size).into_iter().map(Into::into).collect();
        group.throughput(Throughput::Elements(1 << log_size));
        group.bench_function(BenchmarkId::new("forward", log_size), |bencher| {
            bencher.iter(|| twiddles.forward(black_box(&mut values)));
        });
        group.bench_function(BenchmarkId::new("inverse", log_size), |bencher| {
            bencher.iter(|| twiddles.inverse_scaled(black_box(&mut values)));
        });
    }
    group.finish();
}

/// Points of a kind whose multiples are cheap to make: `i * generator`.
fn points<G: Group + Curve>(count: usize) -> Vec<G::AffineRepr>
where
    G::AffineRepr: Default + Clone,
{
    let mut point = G::generator();
    let points: Vec<G> = (0..count)
        .map(|_| {
            point += G::generator();
            point
        })
        .collect();
    let mut affine = vec![G::AffineRepr::default(); count];
    G::batch_normalize(&points, &mut affine);
    affine
}

/// Ours, and for comparison the one that blst brings (G1 only; it uses all cores there are).
fn sums_of_points(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("msm");
    group.sample_size(10);
    let g1: Vec<G1Affine> = points::<G1Projective>(1 << 17);
    let g2: Vec<G2Affine> = points::<G2Projective>(1 << 15);
    let scalars = scalars(1 << 17);
    let integers: Vec<blst_fr> =
        scalars.iter().map(|scalar| blst_fr { l: canonical(&(*scalar).into()) }).collect();
    for log_size in [10, 13, 15, 17] {
        let count = 1 << log_size;
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("g1", log_size), |bencher| {
            bencher.iter(|| multiply::<blst_p1_affine>(&g1[..count], black_box(&integers[..count])));
        });
        let (raw, bytes) = for_blst(&g1[..count], &scalars[..count]);
        group.bench_function(BenchmarkId::new("g1 by blst", log_size), |bencher| {
            use blst::MultiPoint;
            bencher.iter(|| raw[..].mult(black_box(&bytes), 255));
        });
    }
    for log_size in [10, 13, 15] {
        let count = 1 << log_size;
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::new("g2", log_size), |bencher| {
            bencher.iter(|| multiply::<blst_p2_affine>(&g2[..count], black_box(&integers[..count])));
        });
    }
    group.finish();
}

fn for_blst(points: &[G1Affine], scalars: &[Scalar]) -> (Vec<blst_p1_affine>, Vec<u8>) {
    let raw = points.iter().map(|point| *point.as_ref()).collect();
    (raw, scalars.iter().flat_map(Scalar::to_bytes_le).collect())
}

/// From a chunk's bytes to its witness, in memory that is new each time. 152 blocks are about `2^22` constraints.
fn witness_of_a_chunk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("witness of a chunk");
    group.sample_size(10);
    for blocks in [1, 4, 36, 152] {
        let bytes = 64 * blocks - 9;
        let shape = record(FileChunk::shape(bytes)).expect("the circuit is well-formed");
        let chunk = FileChunk::new(b"bytes", bytes).expect("the chunk fits");
        group.throughput(Throughput::Elements(shape.num_variables() as u64));
        group.bench_function(BenchmarkId::new("SHA-256 blocks", blocks), |bencher| {
            bencher.iter(|| synthesize_witness_for(&shape, black_box(chunk.clone())));
        });
    }
    group.finish();
}

fn whole_proof(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("proof");
    group.sample_size(10);
    for blocks in [1, 4] {
        let bytes = 64 * blocks - 9;
        let circuit = record(FileChunk::shape(bytes)).expect("the circuit is well-formed");
        let chunk = FileChunk::new(b"bytes", bytes).expect("the chunk fits");
        let witness = Arc::new(synthesize_witness(chunk).expect("all values are there"));
        group.bench_function(BenchmarkId::new("spmv of SHA-256 blocks", blocks), |bencher| {
            bencher.iter(|| Evaluations::new(&circuit, black_box(&witness)));
        });
        group.bench_function(BenchmarkId::new("setup of SHA-256 blocks", blocks), |bencher| {
            bencher.iter(|| setup::generate(black_box(&circuit), rng()));
        });
        let srs = setup::generate(&circuit, rng());
        let key = Arc::new(ProvingKey { circuit, srs });
        let core = CpuCore::new(u64::MAX, None).expect("threads");
        let blinding = Blinding::random(rng());
        group.bench_function(BenchmarkId::new("proof of SHA-256 blocks", blocks), |bencher| {
            bencher.iter(|| {
                let mut task = core.task(0, key.clone(), witness.clone(), blinding)?;
                task.prepare()?;
                task.stage()?;
                task.compute()?;
                task.finish()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, transforms, sums_of_points, witness_of_a_chunk, whole_proof);
criterion_main!(benches);
