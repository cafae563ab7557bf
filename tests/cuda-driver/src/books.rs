//! What there is, and what was done.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What can be made and must be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Device memory.
    Device,
    /// Pinned host memory.
    Pinned,
    /// Host memory that was registered.
    Registered,
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A module.
    Module,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Device, "device"),
    (Kind::Pinned, "pinned"),
    (Kind::Registered, "registered"),
    (Kind::Stream, "streams"),
    (Kind::Event, "events"),
    (Kind::Module, "modules"),
];

/// Something that was made.
#[derive(Clone, Copy, Debug)]
struct Object {
    bytes: u64,
    /// The device whose context was current.
    owner: i32,
}

/// The books.
#[derive(Debug, Default)]
pub struct Books {
    objects: BTreeMap<(Kind, usize), Object>,
    /// Times each device's context is retained.
    pub contexts: BTreeMap<i32, u64>,
    /// Calls of each function.
    pub calls: BTreeMap<&'static str, u64>,
    /// Failures that were made up.
    pub injected: u64,
    /// Those of them that were asked for by their number.
    pub nth: u64,
    /// Work on the null stream, which waits for other streams.
    pub null_stream: u64,
    /// Objects that a context which was not lost took with it when it went.
    pub left_behind: u64,
    /// What made no sense.
    violations: Vec<String>,
}

/// Violations beyond these are not written down.
const MOST_VIOLATIONS: usize = 20;

impl Books {
    /// Writes down that something was made.
    pub fn made(&mut self, kind: Kind, handle: usize, bytes: u64, owner: i32) {
        self.objects.insert((kind, handle), Object { bytes, owner });
    }

    /// Writes down that something was given back. False when it was not there.
    pub fn gone(&mut self, kind: Kind, handle: usize) -> bool {
        self.objects.remove(&(kind, handle)).is_some()
    }

    /// Whether it is there.
    pub fn has(&self, kind: Kind, handle: usize) -> bool {
        self.objects.contains_key(&(kind, handle))
    }

    /// Bytes from `address` to the end of the object of this kind that it lies in.
    pub fn room_at(&self, kind: Kind, address: usize) -> Option<u64> {
        let ((found, start), object) = self.objects.range(..=(kind, address)).next_back()?;
        let into = (address - if *found == kind { *start } else { return None }) as u64;
        (into <= object.bytes).then(|| object.bytes - into)
    }

    /// Whether an object of this kind has some of these bytes.
    pub fn overlaps(&self, kind: Kind, address: usize, bytes: u64) -> bool {
        let before = self.objects.range((kind, 0)..(kind, address + bytes as usize));
        before.into_iter().any(|((_, start), object)| *start as u64 + object.bytes > address as u64)
    }

    /// Bytes of one kind that one device has, or that all have.
    pub fn bytes(&self, kind: Kind, owner: Option<i32>) -> u64 {
        let objects = self.objects.iter().filter(|((found, _), _)| *found == kind);
        objects
            .map(|(_, object)| object)
            .filter(|object| owner.is_none_or(|owner| owner == object.owner))
            .map(|object| object.bytes)
            .sum()
    }

    /// Takes out what a context owns that goes, and returns the handles.
    pub fn take_all_of(&mut self, owner: i32) -> Vec<(Kind, usize)> {
        let owned = |(key, object): (&(Kind, usize), &Object)| (object.owner == owner).then_some(*key);
        let keys: Vec<_> = self.objects.iter().filter_map(owned).collect();
        self.objects.retain(|_, object| object.owner != owner);
        keys
    }

    /// Writes down what makes no sense.
    pub fn violation(&mut self, what: String) {
        eprintln!("test driver: {what}");
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(what);
        }
    }

    /// As JSON. Names and violations need no escapes: they are made here.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        // Writing to a String cannot fail.
        for (kind, name) in KINDS {
            let count = self.objects.keys().filter(|(found, _)| *found == kind).count();
            let _ = write!(json, "\"{name}\":{count},\"{name}_bytes\":{},", self.bytes(kind, None));
        }
        let contexts: u64 = self.contexts.values().sum();
        let _ = write!(json, "\"nth\":{},", self.nth);
        let (injected, null_stream, left_behind) = (self.injected, self.null_stream, self.left_behind);
        let _ =
            write!(json, "\"contexts\":{contexts},\"injected\":{injected},\"null_stream\":{null_stream},");
        let _ = write!(json, "\"left_behind\":{left_behind},\"calls\":{{");
        let calls: Vec<_> = self.calls.iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        let violations: Vec<_> = self.violations.iter().map(|text| format!("\"{text}\"")).collect();
        let _ = write!(json, "{}}},\"violations\":[{}]}}", calls.join(","), violations.join(","));
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_that_of_the_object_an_address_lies_in() {
        let mut books = Books::default();
        books.made(Kind::Device, 1_000, 24, 0);
        books.made(Kind::Pinned, 2_000, 8, 0);
        let room = |address| books.room_at(Kind::Device, address);
        assert_eq!(
            [room(999), room(1_000), room(1_023), room(1_024), room(1_025), room(2_000)],
            [None, Some(24), Some(1), Some(0), None, None]
        );
        assert_eq!(books.room_at(Kind::Pinned, 2_004), Some(4));
        assert!(books.gone(Kind::Device, 1_000) && !books.gone(Kind::Device, 1_000));
    }
}
