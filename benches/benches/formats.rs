//! Reading circuits, witnesses and keys from files, in bytes a second.
//!
//! `cargo bench -p interlock-benches --bench formats`

use std::fs::File;
use std::hint::black_box;
use std::io::BufWriter;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use interlock_engine::circuit::bellpepper::record;
use interlock_engine::circuit::{FileChunk, r1cs, wtns};
use interlock_engine::format::{Input, PointCheck};
use interlock_engine::srs::{params, setup, zkey};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/circuits").join(name)
}

fn open(path: &Path) -> Input {
    Input::open(path).expect("the file can be read")
}

fn circom(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("formats");
    let size = |name: &str| Throughput::Bytes(fixture(name).metadata().expect("it is there").len());
    group.throughput(size("merkle.r1cs"));
    group.bench_function("r1cs", |bencher| {
        let path = fixture("merkle.r1cs");
        bencher.iter(|| r1cs::read(black_box(&open(&path))).expect("it is good"));
    });
    group.throughput(size("merkle.wtns"));
    group.bench_function("wtns", |bencher| {
        let path = fixture("merkle.wtns");
        bencher.iter(|| wtns::read(black_box(&open(&path))).expect("it is good"));
    });
    group.throughput(size("range.zkey"));
    group.bench_function("zkey, all points checked", |bencher| {
        let circuit = r1cs::read(&open(&fixture("range.r1cs"))).expect("it is good");
        let path = fixture("range.zkey");
        bencher.iter(|| zkey::read(black_box(&open(&path)), &circuit, PointCheck::Full).expect("it is good"));
    });
    group.finish();
}

fn bellperson(criterion: &mut Criterion) {
    let circuit = record(FileChunk::shape(32)).expect("the circuit is well-formed");
    let srs = setup::generate(&circuit, ChaCha8Rng::seed_from_u64(1));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sha256.params");
    params::write(&srs, BufWriter::new(File::create(&path).expect("a file"))).expect("it can be written");
    let mut group = criterion.benchmark_group("formats");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(path.metadata().expect("it was written").len()));
    for (name, check) in
        [("params, a sample checked", PointCheck::Sampled), ("params, all points checked", PointCheck::Full)]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| params::read(black_box(&open(&path)), &circuit, check).expect("it is good"));
        });
    }
    group.finish();
}

criterion_group!(benches, circom, bellperson);
criterion_main!(benches);
