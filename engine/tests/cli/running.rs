//! An engine that runs in a process of its own while a test talks to it.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

use serde_json::Value;

use super::support::{POLICIES, Workbench, library};

/// Partitions of an engine that a test stops when it has seen enough.
pub const MANY: usize = 6_000;

/// A workbench for the multiplier, with the four policies and a faulty one, and these settings.
pub fn bench(settings: &str, faulty: &str) -> Workbench {
    let bench = Workbench::new().with_multiplier();
    let mut entries: Vec<_> = POLICIES.iter().map(|name| entry(name, "")).collect();
    entries.push(entry("faulty", faulty));
    write_config(&bench, settings, &entries);
    bench
}

/// An entry of `plugins.ron`.
pub fn entry(name: &str, options: &str) -> String {
    let file = if name == "faulty" { "fixture_faulty".into() } else { name.replace('-', "_") };
    let library = library(&format!("libinterlock_{file}.so"));
    let options = if options.is_empty() { String::new() } else { format!(", options: {options}") };
    format!("(name: \"{name}\", library: {library:?}{options})")
}

pub fn write_config(bench: &Workbench, settings: &str, entries: &[String]) {
    let policies = entries.join(", ");
    bench.write("plugins.ron", format!("(policy: \"two-lock\", {settings} policies: [{policies}])"));
}

/// `interlock prove` in a process of its own.
pub struct Running<'a> {
    bench: &'a Workbench,
    program: Child,
    partitions: usize,
    name: String,
}

impl<'a> Running<'a> {
    /// Starts to prove the multiplier so many times; the proofs go to `NAME.proof.*.json`.
    pub fn start(bench: &'a Workbench, name: &str, partitions: usize, more: &[&str]) -> Self {
        let witnesses = bench.path(&format!("{name}.witnesses"));
        fs::create_dir(&witnesses).expect("made");
        for index in 0..partitions {
            fs::hard_link(bench.path("mul.wtns"), witnesses.join(format!("{index:05}.wtns")))
                .expect("linked");
        }
        let mut command = bench.command(&["prove", "--r1cs", "mul.r1cs", "--zkey", "mul.zkey", "--json"]);
        let mut files: Vec<PathBuf> =
            fs::read_dir(&witnesses).expect("made").map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        command.arg("--witness").args(files).args(more);
        command.args(["--proof", &format!("{name}.proof.json"), "--public", &format!("{name}.public.json")]);
        let output = |end: &str| File::create(bench.path(&format!("{name}.{end}"))).expect("made");
        let program = command.stdout(output("out")).stderr(output("err")).spawn().expect("starts");
        Self { bench, program, partitions, name: name.to_owned() }
    }

    /// Starts it and waits until it can be talked to.
    pub fn listening(bench: &'a Workbench, name: &str, partitions: usize, more: &[&str]) -> Self {
        let mut running = Self::start(bench, name, partitions, more);
        running.until(|running| UnixStream::connect(running.socket()).is_ok());
        running
    }

    pub fn pid(&self) -> u32 {
        self.program.id()
    }

    /// Where its socket is by default.
    pub fn socket(&self) -> PathBuf {
        self.bench.path(&format!("interlock/{}.sock", self.pid()))
    }

    /// Waits until something holds, as long as it runs.
    #[track_caller]
    pub fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            assert!(self.program.try_wait().expect("it is ours").is_none(), "it ended: {}", self.stderr());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.bench.path(&format!("{}.err", self.name))).expect("text")
    }

    /// Has it finish what it has begun, as a person would.
    pub fn interrupt(&self) {
        let status = Command::new("kill").args(["-s", "INT", &self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Stops it once it has made a proof, and insists on a good end.
    pub fn stop(mut self) -> Value {
        self.until(|running| !running.bench.files(&format!("{}.proof.", running.name)).is_empty());
        self.interrupt();
        self.ended()
    }

    /// Waits for its end and returns its report, after a look whether each proof in it is there, once.
    pub fn ended(mut self) -> Value {
        let status = self.program.wait().expect("it is ours");
        assert!(status.success(), "{}", self.stderr());
        let text = fs::read_to_string(self.bench.path(&format!("{}.out", self.name))).expect("text");
        let report: Value = serde_json::from_str(&text).expect("a whole report");
        let lines = report["partitions"].as_array().expect("a list");
        assert_eq!(lines.len(), self.partitions);
        let mut proofs: Vec<_> = lines.iter().filter_map(|line| line["proof"].as_str()).collect();
        proofs.sort_unstable();
        proofs.dedup();
        assert_eq!(report["proofs"], proofs.len(), "none twice");
        let written = self.bench.files(&format!("{}.proof.", self.name));
        assert_eq!(written, proofs, "each was written");
        assert!(!self.socket().exists(), "the socket went with it");
        report
    }
}

/// A run that was ended by the test itself, or by a failed one.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The JSON that a command printed.
#[track_caller]
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}
