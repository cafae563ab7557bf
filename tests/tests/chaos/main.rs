//! Chaos: every policy that does wrong, in every mode it is meant for, under load, with swaps in between, on the CPU core and on a
//! simulated one. What is asked for is proved, once, and nothing is left behind.
//!
//! ```sh
//! cargo test --release -p interlock-tests --test chaos -- --nocapture
//! INTERLOCK_CHAOS_SECONDS=600 cargo test …    # longer; the default ends once every card was dealt
//! INTERLOCK_CHAOS_SEED=7 cargo test …         # the same cards, loads and faults, as far as threads allow
//! ```

mod count;
mod deck;
mod round;
mod simulated;
mod statement;

use std::time::{Duration, Instant};

use count::{Counts, Progress};
use deck::Deck;
use interlock_tests::leftovers::{Descriptors, children};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use round::Kind;
use statement::Statements;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn whatever_policies_do_each_proof_that_is_asked_for_comes_once() {
    let seed = setting("INTERLOCK_CHAOS_SEED").unwrap_or_else(|| rand::rngs::OsRng.next_u64() >> 16);
    let long = Duration::from_secs(setting("INTERLOCK_CHAOS_SECONDS").unwrap_or(0));
    println!("INTERLOCK_CHAOS_SEED={seed}");
    let statements = Statements::new(seed);
    let mut deck = Deck::new(seed);
    deck.load_all();
    // Each round has a child of its own seed, so that it does not hang on how far the one before came.
    let mut seeds = ChaCha20Rng::seed_from_u64(seed);
    let progress = Progress::watched(seed);
    let (mut total, start) = (Counts::default(), Instant::now());
    let open_before = Descriptors::now();
    for number in 0.. {
        if deck.was_dealt_once() && start.elapsed() >= long {
            break;
        }
        let kind = if number % 2 == 0 { Kind::Simulated } else { Kind::Cpu };
        let what = format!("round {number} ({kind:?}) of INTERLOCK_CHAOS_SEED={seed}");
        let counts = round::play(kind, seeds.next_u64(), &statements, &mut deck, &progress, &what);
        assert_eq!(children(), Vec::<u32>::new(), "no process is left, dead or alive: {what}");
        assert_eq!(
            open_before.left_since(),
            Vec::<std::path::PathBuf>::new(),
            "no file is left open: {what}"
        );
        total.add(&counts);
    }
    deck.assert_untouched();
    println!("{total}\nseconds: {}", start.elapsed().as_secs());
    total.assert_seen_enough();
}
