//! A folder for each test, the program, and files for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use interlock_engine::circuit::bellpepper;
use interlock_engine::circuit::file_chunk::FileChunk;
use interlock_engine::srs::{params, setup};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

pub const POLICIES: [&str; 4] = ["serialized-fallback", "single-lock", "two-lock", "vram-token"];
pub const CHUNK_BYTES: usize = 16;

/// A folder with a `plugins.ron` of the four policies; gone with the value.
pub struct Workbench {
    folder: tempfile::TempDir,
}

impl Workbench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let entry = |name: &&str| {
            let library = library(&format!("libinterlock_{}.so", name.replace('-', "_")));
            format!("(name: \"{name}\", library: {library:?})")
        };
        let entries: Vec<_> = POLICIES.iter().map(entry).collect();
        let config = format!("(policy: \"two-lock\", policies: [{}])", entries.join(", "));
        fs::write(folder.path().join("plugins.ron"), config).expect("written");
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
        command.current_dir(self.folder.path()).args(arguments);
        // Control sockets go to `interlock/` here, so that tests do not see each other's engines.
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        // Dumps too: the user's own folder is left alone.
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Runs the program and insists on success.
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The three files of the circom multiplier, by their names.
    pub fn with_multiplier(self) -> Self {
        for name in ["mul.r1cs", "mul.wtns", "mul.zkey", "vkey.json"] {
            fs::copy(fixture(name), self.path(name)).expect("copied");
        }
        self
    }

    /// The parameters of the file-chunk circuit, made once for all tests.
    pub fn with_chunk_params(self) -> Self {
        static PARAMS: OnceLock<Vec<u8>> = OnceLock::new();
        let bytes = PARAMS.get_or_init(|| {
            let circuit = bellpepper::record(FileChunk::shape(CHUNK_BYTES)).expect("records");
            let srs = setup::generate(&circuit, ChaCha20Rng::seed_from_u64(11));
            let mut bytes = Vec::new();
            params::write(&srs, &mut bytes).expect("written");
            bytes
        });
        self.write("chunk.params", bytes);
        self
    }

    /// Everything in the folder whose name starts with `prefix`, in order.
    pub fn files(&self, prefix: &str) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).expect("a folder");
        let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    }
}

/// The arguments that prove `file` in chunks, and `more`.
pub fn prove_chunks<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let common = ["prove", "--file", "file", "--chunk-bytes", "16", "--params", "chunk.params"];
    let outputs = ["--proof", "proof.json", "--public", "public.json"];
    [&common[..], &outputs, more].concat()
}

/// The multiplier as work, with its witness last: the files of more witnesses may follow.
pub const MULTIPLIER: [&str; 6] = ["--r1cs", "mul.r1cs", "--zkey", "mul.zkey", "--witness", "mul.wtns"];

/// The arguments that prove the multiplier's witness, and `more`: the outputs too.
pub fn prove_multiplier<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["prove"], &MULTIPLIER[..], more].concat()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/circom_mul").join(name)
}

/// A library that cargo built beside this test.
pub fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test runs from a file");
    let deps = test.parent().expect("in deps");
    let places = [deps.parent().expect("in a profile's folder").join(name), deps.join(name)];
    let found = places.iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("{name} is not built: run `cargo build --release` first")).clone()
}
