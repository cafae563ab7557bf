//! A policy that attacks whatever runs it, for tests of isolation: it crashes, hangs, eats memory, reaches for other processes
//! and files, and writes where it should not. Until then it is honest: it enters what is grantable, and else waits.
//!
//! It attacks in `decide`, or in a constructor while its library is loaded: for that a test changes [`AT_LOAD`] in a
//! copy of the library.

use std::cell::Cell;

use interlock_policy_api::{
    Capabilities, Manifest, Observation, Policy, Request, Verdict, View, WakeSet, export_policy,
    policy_options,
};

mod deeds;

policy_options! {
    /// Options of `hostile`.
    pub struct Options {
        /// What it does: a name from `deeds.rs`; nothing when empty.
        pub deed: String = String::new(),
        /// Honest decisions before it does that.
        pub after: u32 = 0,
        /// What it is about: a process id.
        pub target: u32 = 0,
        /// What it is about: a file.
        pub file: String = String::new(),
    }
}

/// The policy.
#[derive(Debug)]
pub struct Hostile {
    options: Options,
    decisions: Cell<u32>,
    /// How often a deed that is no crime by itself went well.
    succeeded: Cell<u64>,
    observed: u64,
}

impl Policy for Hostile {
    type Options = Options;

    const MANIFEST: Manifest = Manifest::new("hostile", "0.1.0", "attacks what runs it, for tests")
        .with_options(Options::SPEC)
        .with_capabilities(Capabilities::STATS.with(Capabilities::OBSERVE));

    fn new(options: Options) -> Result<Self, String> {
        let policy = Self { options, decisions: Cell::new(0), succeeded: Cell::new(0), observed: 0 };
        if let Some(deed) = policy.options.deed.strip_prefix("create: ") {
            deeds::commit(deed, &policy.options);
        }
        Ok(policy)
    }

    fn decide(&self, request: &Request, _view: &View<'_>) -> Verdict {
        let decisions = self.decisions.get();
        self.decisions.set(decisions + 1);
        if decisions >= self.options.after && deeds::commit(&self.options.deed, &self.options) {
            self.succeeded.set(self.succeeded.get() + 1);
        }
        if request.grantable() { Verdict::enter(request.need_bytes) } else { Verdict::wait(WakeSet::FREED) }
    }

    fn observe(&mut self, _observation: &Observation) {
        self.observed += 1;
        if self.options.deed == "observe: crash" {
            deeds::commit("segfault", &self.options);
        }
    }

    fn stats(&self) -> Vec<(String, u64)> {
        vec![
            ("decisions".into(), u64::from(self.decisions.get())),
            ("succeeded".into(), self.succeeded.get()),
            ("observed".into(), self.observed),
            ("\x1b[2J".into(), 1),
        ]
    }
}

export_policy!(Hostile);

/// What the constructor does: the text after the colon, up to the spaces.
#[used]
pub static AT_LOAD: [u8; 24] = *b"at load: nothing        ";

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // SAFETY: a static, read as the bytes the file has and not as those the compiler saw.
    let deed = unsafe { std::ptr::read_volatile(&raw const AT_LOAD) };
    if let Some(deed) = std::str::from_utf8(&deed).ok().and_then(|text| text.strip_prefix("at load: ")) {
        deeds::commit(deed.trim_end(), &Options::default());
    }
}
