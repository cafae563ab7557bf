//! A stand-in for NVML, NVIDIA's management library, with cards that count energy: for tests on a machine without one.
//!
//! It is steered with words, in the environment variable `INTERLOCK_TEST_NVML` or by [`interlock_test_nvml_steer`]. Each
//! word is a card, `UUID:SETTING,SETTING,…`:
//!
//! | setting | meaning | else |
//! |---|---|---|
//! | `watts=N` | what it uses at all times | 0 |
//! | `step_us=N` | its counter moves each so many microseconds | 1000 |
//! | `fails=N` | from the reading of this number on, counted from 1, its counter cannot be read | |
//! | `back=N` | at this reading its counter begins anew | |
//! | `uncounted` | it has no counter | |

use std::ffi::{CStr, c_char, c_int};
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a function of NVML returns: 0, or the number of an error.
pub type Status = c_int;

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: Status = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
const NOT_SUPPORTED: Status = 3;
/// `NVML_ERROR_NOT_FOUND`.
const NOT_FOUND: Status = 6;
/// `NVML_ERROR_GPU_IS_LOST`.
const GPU_IS_LOST: Status = 15;

/// What a counter has from before: the driver was loaded long ago.
const BEFORE_MILLIJOULES: u64 = 7_000_000_000;

/// One card.
#[derive(Clone, Debug, Default, PartialEq)]
struct Card {
    uuid: String,
    watts: u64,
    step_us: u64,
    fails: Option<u64>,
    back: Option<u64>,
    is_uncounted: bool,
    readings: u64,
}

impl FromStr for Card {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let wrong = || format!("\"{word}\" is not understood");
        let (uuid, settings) = word.split_once(':').ok_or_else(wrong)?;
        let mut card = Card { uuid: uuid.to_owned(), step_us: 1000, ..Card::default() };
        for setting in settings.split(',') {
            let (name, value) = setting.split_once('=').unwrap_or((setting, "1"));
            let number: u64 = value.parse().map_err(|_| wrong())?;
            match name {
                "watts" => card.watts = number,
                "step_us" if number > 0 => card.step_us = number,
                "fails" => card.fails = Some(number),
                "back" => card.back = Some(number),
                "uncounted" => card.is_uncounted = true,
                _ => return Err(wrong()),
            }
        }
        Ok(card)
    }
}

impl Card {
    /// Millijoules after so many microseconds, or the number of an error.
    fn read(&mut self, now_us: u64) -> Result<u64, Status> {
        if self.is_uncounted {
            return Err(NOT_SUPPORTED);
        }
        self.readings += 1;
        if self.fails.is_some_and(|first| self.readings >= first) {
            return Err(GPU_IS_LOST);
        }
        let before =
            if self.back.is_some_and(|first| self.readings >= first) { 0 } else { BEFORE_MILLIJOULES };
        let moved_us = now_us / self.step_us * self.step_us;
        Ok(before + moved_us * self.watts / 1000)
    }
}

struct State {
    began: Instant,
    cards: Vec<Card>,
}

/// The variable that steers from the start.
const VARIABLE: &str = "INTERLOCK_TEST_NVML";

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let words = std::env::var(VARIABLE).unwrap_or_default();
    let cards = cards(&words).unwrap_or_else(|error| {
        // Going on without would test something else than was asked for.
        eprintln!("test NVML: {VARIABLE}: {error}");
        std::process::exit(101)
    });
    Mutex::new(State { began: Instant::now(), cards })
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cards(words: &str) -> Result<Vec<Card>, String> {
    words.split_whitespace().map(str::parse).collect()
}

/// Adds cards. Returns 0, or 1 when a word is not understood.
///
/// # Safety
/// `words` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interlock_test_nvml_steer(words: *const c_char) -> Status {
    // SAFETY: the caller's.
    let words = unsafe { CStr::from_ptr(words) };
    match cards(&words.to_string_lossy()) {
        Ok(cards) => {
            state().cards.extend(cards);
            0
        }
        Err(error) => {
            eprintln!("test NVML: {error}");
            1
        }
    }
}

/// NVML's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
pub extern "C" fn nvmlInit_v2() -> Status {
    0
}

/// NVML's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
pub extern "C" fn nvmlShutdown() -> Status {
    0
}

/// NVML's function of this name. A handle is the number of the card, from 1.
///
/// # Safety
/// `uuid` is a C string, and `handle` a place to write to.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut usize) -> Status {
    // SAFETY: the caller's.
    let uuid = unsafe { CStr::from_ptr(uuid) }.to_string_lossy();
    match state().cards.iter().position(|card| card.uuid == uuid) {
        Some(index) => {
            // SAFETY: the caller's.
            unsafe { handle.write(index + 1) };
            0
        }
        None => NOT_FOUND,
    }
}

/// NVML's function of this name.
///
/// # Safety
/// `millijoules` is a place to write to.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "NVML's name")]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(handle: usize, millijoules: *mut u64) -> Status {
    let mut state = state();
    let now_us = state.began.elapsed().as_micros() as u64;
    let card = handle.checked_sub(1).and_then(|index| state.cards.get_mut(index));
    match card.map(|card| card.read(now_us)) {
        Some(Ok(reading)) => {
            // SAFETY: the caller's.
            unsafe { millijoules.write(reading) };
            0
        }
        Some(Err(status)) => status,
        None => INVALID_ARGUMENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_counts_what_it_uses_in_steps() {
        let mut card: Card = "GPU-1:watts=250,step_us=100000,back=4,fails=5".parse().expect("it is a card");
        // 250 W are 25 J each tenth of a second.
        for (now_us, reading) in [
            (0, Ok(7_000_000_000)),
            (99_999, Ok(7_000_000_000)),
            (250_000, Ok(7_000_050_000)),
            (300_000, Ok(75_000)),
            (400_000, Err(GPU_IS_LOST)),
            (500_000, Err(GPU_IS_LOST)),
        ] {
            assert_eq!(card.read(now_us), reading, "after {now_us} us");
        }
        for bad in ["GPU-1", "GPU-1:watts=x", "GPU-1:volts=1", "GPU-1:step_us=0"] {
            assert!(bad.parse::<Card>().is_err(), "{bad}");
        }
    }
}
