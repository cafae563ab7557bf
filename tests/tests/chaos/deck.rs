//! The policies: everything that can be wrong with one, in each mode it is meant for, and the four that ship.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use interlock_engine::host::{PolicyLibrary, ProcessSettings};
use interlock_tests::libraries::verified;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const HONEST: [&str; 4] = ["serialized-fallback", "single-lock", "two-lock", "vram-token"];

/// `faulty` only: harmless to the process that it runs in, whichever that is.
const PANICS: [&str; 7] = ["create", "decide", "rank", "place", "observe", "stats", "destroy"];
const VERDICTS: [&str; 12] = [
    "unknown", "never", "endless", "past", "greedy", "stingy", "grab", "skip", "exabytes", "garbage",
    "flips", "previous",
];
const HABITS: [&str; 3] = ["nap", "leak", "print"];

/// `hostile` only: for a process of its own.
const DEEDS: [&str; 27] = [
    "segfault",
    "abort",
    "exit",
    "exit 7",
    "spin",
    "sleep",
    "doze",
    "allocate",
    "overflow",
    "fork",
    "thread",
    "run",
    "limit parent",
    "connect",
    "print",
    "write file",
    "read file",
    "read passwd",
    "scribble",
    "claim early",
    "claim ahead",
    "claim back",
    "observe: crash",
    "create: segfault",
    "create: exit",
    "create: fork",
    "create: scribble",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    InProcess,
    Process,
}

#[derive(Clone, Debug)]
struct Card {
    library: &'static str,
    options: String,
    mode: Mode,
}

/// A policy that was dealt.
pub struct Dealt {
    pub policy: PolicyLibrary,
    /// Whether it may refuse to be made.
    pub may_not_start: bool,
    pub what: String,
}

pub struct Deck {
    rng: ChaCha20Rng,
    cards: Vec<Card>,
    /// Those that were not dealt since the deck was last shuffled.
    left: VecDeque<Card>,
    shuffled: u32,
    folder: tempfile::TempDir,
}

impl Deck {
    pub fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("secret"), "there").expect("written");
        let mut cards = Vec::new();
        let harmless = PANICS
            .map(|function| format!("panic_in: \"{function}\""))
            .into_iter()
            .chain(VERDICTS.map(|verdict| format!("verdict: \"{verdict}\"")))
            .chain(HABITS.map(|habit| format!("habit: \"{habit}\"")));
        for options in harmless {
            for mode in [Mode::InProcess, Mode::Process] {
                cards.push(Card { library: "fixture-faulty", options: options.clone(), mode });
            }
        }
        let deeds = DEEDS.map(|deed| format!("deed: \"{deed}\""));
        cards.extend(deeds.map(|options| Card { library: "fixture-hostile", options, mode: Mode::Process }));
        Self { rng: ChaCha20Rng::seed_from_u64(!seed), cards, left: VecDeque::new(), shuffled: 0, folder }
    }

    /// Has every library that is loaded into this process loaded: they stay, and with them an open file each.
    pub fn load_all(&self) {
        for library in HONEST.into_iter().chain(["fixture-faulty"]) {
            PolicyLibrary::open(verified(library, "")).expect("it is good");
        }
    }

    /// Whether each card was dealt.
    pub fn was_dealt_once(&self) -> bool {
        self.shuffled > 1 || (self.shuffled == 1 && self.left.is_empty())
    }

    /// The next policy that does wrong.
    pub fn bad(&mut self) -> Dealt {
        if self.left.is_empty() {
            let mut cards = self.cards.clone();
            cards.shuffle(&mut self.rng);
            self.left = cards.into();
            self.shuffled += 1;
        }
        let Card { library, options, mode } = self.left.pop_front().expect("the deck has cards");
        let may_not_start = options.contains("create");
        let options = match library {
            "fixture-hostile" => {
                let file = self.file(if options.contains("write") { "written" } else { "secret" });
                let after = if self.rng.r#gen() { 0 } else { self.rng.gen_range(0..60) };
                format!("({options}, after: {after}, file: {file:?})")
            }
            _ => format!(
                "({options}, seed: {}, device: {})",
                self.rng.r#gen::<u64>(),
                self.rng.gen_range(0..3)
            ),
        };
        self.dealt(library, &options, mode, may_not_start)
    }

    /// One of the policies that ship.
    pub fn honest(&mut self) -> Dealt {
        let library = *HONEST.choose(&mut self.rng).expect("there are four");
        let mode = if self.rng.gen_ratio(1, 3) { Mode::Process } else { Mode::InProcess };
        self.dealt(library, "", mode, false)
    }

    fn dealt(&mut self, library: &str, options: &str, mode: Mode, may_not_start: bool) -> Dealt {
        let verified = verified(library, options);
        let policy = match mode {
            Mode::InProcess => PolicyLibrary::open(verified),
            Mode::Process => {
                let settings = ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"))
                    .decision(Duration::from_millis(self.rng.gen_range(30..150)))
                    .memory_bytes(32 << 20);
                PolicyLibrary::isolate(verified, settings)
            }
        };
        let what = format!("{library} {options} {mode:?}");
        Dealt { policy: policy.expect("the library is good"), may_not_start, what }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// No policy reached a file.
    pub fn assert_untouched(&self) {
        assert!(!self.file("written").exists());
        assert_eq!(std::fs::read_to_string(self.file("secret")).expect("still there"), "there");
    }
}
