//! What the operator should hear though no call failed.

use abi_stable::std_types::{RString, RVec};
use parking_lot::Mutex;

/// Sentences that wait to be taken over the boundary. Each is said once in the life of the core.
#[derive(Debug, Default)]
pub struct Notices(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: Vec<String>,
    said: Vec<&'static str>,
}

impl Notices {
    /// Adds a sentence, unless one with this `topic` has been added before.
    pub fn say_once(&self, topic: &'static str, sentence: impl FnOnce() -> String) {
        let mut state = self.0.lock();
        if !state.said.contains(&topic) {
            state.said.push(topic);
            state.waiting.push(sentence());
        }
    }

    /// Takes what waits.
    pub fn take(&self) -> RVec<RString> {
        std::mem::take(&mut self.0.lock().waiting).into_iter().map(RString::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_topic_is_heard_once() {
        let notices = Notices::default();
        notices.say_once("memory", || "no pinned memory".into());
        notices.say_once("memory", || unreachable!("it has been said"));
        notices.say_once("other", || "another".into());
        assert_eq!(notices.take().as_slice(), ["no pinned memory", "another"]);
        assert!(notices.take().is_empty());
        notices.say_once("memory", || unreachable!("it has been said"));
        assert!(notices.take().is_empty());
    }
}
