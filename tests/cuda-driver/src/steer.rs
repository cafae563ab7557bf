//! Steering words.

use std::str::FromStr;

use crate::Status;

/// Which calls fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The functions; none for all.
    pub functions: Vec<String>,
    /// When.
    pub when: When,
    /// With which error.
    pub status: Status,
    /// Whether the device is lost from then on.
    pub lose: bool,
    /// Calls of these functions so far.
    pub calls: u64,
}

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At this call, counted from 1.
    Nth(u64),
    /// At random.
    Share(f64),
}

/// What steers the stand-in; read from words.
///
/// | word | meaning | else |
/// |---|---|---|
/// | `devices=N` | devices there are | 1 |
/// | `memory=BYTES` | memory of each | 1 GiB |
/// | `multiprocessors=N` | of each | 4 |
/// | `seed=N` | for what is random | 1 |
/// | `fail=FUNCTIONS:WHEN:STATUS` | these calls fail with this error number | |
/// | `lose=FUNCTIONS:WHEN:STATUS` | so does every later call for the device that was current | |
///
/// `FUNCTIONS` are names with commas between, or `*` for every function that concerns a device. `WHEN` is `nth=N`, counted
/// from 1 over all of them, or `share=P`, a probability. The first word that applies to a call counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Steering {
    /// Devices.
    pub devices: i32,
    /// Bytes of each.
    pub memory: u64,
    /// Multiprocessors of each.
    pub multiprocessors: i32,
    /// What fails.
    pub failures: Vec<Failure>,
    /// State of the generator.
    pub random: u64,
    /// How many `nth=N` have come.
    pub nth_met: u64,
}

impl Default for Steering {
    fn default() -> Self {
        Self { devices: 1, memory: 1 << 30, multiprocessors: 4, failures: Vec::new(), random: 1, nth_met: 0 }
    }
}

impl FromStr for Steering {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let mut steering = Self::default();
        for word in words.split_whitespace() {
            let wrong = || format!("\"{word}\" is not understood");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match name {
                "devices" => steering.devices = value.parse().map_err(|_| wrong())?,
                "memory" => steering.memory = value.parse().map_err(|_| wrong())?,
                "multiprocessors" => steering.multiprocessors = value.parse().map_err(|_| wrong())?,
                "seed" => steering.random = value.parse().map_err(|_| wrong())?,
                "fail" | "lose" => {
                    steering.failures.push(failure(value, name == "lose").ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(steering)
    }
}

fn failure(text: &str, lose: bool) -> Option<Failure> {
    let mut parts = text.split(':');
    let (functions, when, status) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
    let functions =
        if functions == "*" { Vec::new() } else { functions.split(',').map(str::to_owned).collect() };
    let when = match when.split_once('=')? {
        ("nth", n) => When::Nth(n.parse().ok()?),
        ("share", share) => When::Share(share.parse().ok()?),
        _ => return None,
    };
    parts.next().is_none().then_some(Failure { functions, when, status, lose, calls: 0 })
}

impl Steering {
    /// The failure that meets a call of `function`, if one does. `host`: it concerns no device.
    pub fn failure_of(&mut self, function: &str, host: bool) -> Option<(Status, bool)> {
        let mut met = None;
        for failure in &mut self.failures {
            let all = failure.functions.is_empty();
            if !(all && !host || failure.functions.iter().any(|name| name == function)) {
                continue;
            }
            failure.calls += 1;
            let fails = match failure.when {
                When::Nth(n) => {
                    self.nth_met += u64::from(failure.calls == n);
                    failure.calls == n
                }
                When::Share(share) => (next(&mut self.random) >> 11) as f64 / ((1_u64 << 53) as f64) < share,
            };
            if fails && met.is_none() {
                met = Some((failure.status, failure.lose));
            }
        }
        met
    }
}

/// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_strange_ones_refused() {
        let steering: Steering =
            "devices=2 memory=4096 seed=9 fail=cuInit,cuEventCreate:nth=2:999 lose=*:share=0.5:719"
                .parse()
                .unwrap();
        assert_eq!((steering.devices, steering.memory, steering.random), (2, 4096, 9));
        assert_eq!(steering.failures[0].functions, ["cuInit", "cuEventCreate"]);
        assert!(steering.failures[1].functions.is_empty() && steering.failures[1].lose);
        for wrong in ["devices", "devices=x", "cards=1", "fail=*:nth=1", "fail=*:at=1:1", "fail=*:nth=1:1:1"]
        {
            assert!(wrong.parse::<Steering>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_nth_call_fails_and_shares_are_kept() {
        let mut steering: Steering = "fail=a:nth=2:7 fail=b:share=0.25:8".parse().unwrap();
        let met: Vec<_> = (0..4).map(|_| steering.failure_of("a", true)).collect();
        assert_eq!(met, [None, Some((7, false)), None, None]);
        let met = (0..4_000).filter(|_| steering.failure_of("b", false).is_some()).count();
        assert!((800..1_200).contains(&met), "{met}");
        assert_eq!(steering.failure_of("c", false), None);
        let mut all: Steering = "fail=*:nth=1:9".parse().unwrap();
        assert_eq!((all.failure_of("c", true), all.failure_of("c", false)), (None, Some((9, false))));
    }
}
