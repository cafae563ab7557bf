//! Calls and replies as words of shared memory.
//!
//! Every record is written and read word by word through atomics, so that a process that scribbles over the memory
//! meanwhile can make a value wrong but never makes the read undefined. Both ends are the same build of this crate:
//! the layout is private and may change with any version.

use std::sync::atomic::{AtomicU64, Ordering};

use interlock_policy_api::{
    DeviceView, LockView, Observation, ObservationKind, Request, RequestFlags, Stage, Strided, Verdict,
    VerdictKind, View, WakeSet,
};

use crate::interlock::MAX_LOCKS;

/// Words of a call: its kind, a request (9), a view (9) and its locks.
pub(super) const CALL_WORDS: usize = 19 + MAX_LOCKS;
/// Words of an answer after its heading: the longest is a verdict.
pub(super) const ANSWER_WORDS: usize = 3;
/// Words of one device in the area for long data.
const DEVICE_WORDS: usize = 3;

/// What the host asks for.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallKind(pub u32);

impl CallKind {
    /// Load the library and make the instance. The first call, and only the first.
    pub const START: CallKind = CallKind(1);
    pub const DECIDE: CallKind = CallKind(2);
    pub const RANK: CallKind = CallKind(3);
    pub const PLACE: CallKind = CallKind(4);
    pub const OBSERVE: CallKind = CallKind(5);
    pub const STATS: CallKind = CallKind(6);
}

/// How a call went.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyStatus(pub u32);

impl ReplyStatus {
    pub const OK: ReplyStatus = ReplyStatus(0);
    /// The policy panicked; for START: it could not be started.
    pub const PANICKED: ReplyStatus = ReplyStatus(1);
    /// The policy answered with a status that the ABI does not have.
    pub const UNREACHABLE: ReplyStatus = ReplyStatus(2);
}

/// A call as the child reads it.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Start,
    Decide(Request, OwnedView),
    Rank(Request, OwnedView),
    /// With the number of devices in the area for long data.
    Place(Request, usize),
    Observe(Observation),
    Stats,
}

/// A view that owns its locks.
#[derive(Clone, Debug)]
pub(super) struct OwnedView {
    facts: View<'static>,
    locks: [LockView; MAX_LOCKS],
    len: usize,
}

impl OwnedView {
    pub fn as_view(&self) -> View<'_> {
        View { locks: Strided::new(&self.locks[..self.len]), ..self.facts }
    }
}

/// Writes words in order.
struct Writer<'a> {
    words: &'a [AtomicU64],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(words: &'a [AtomicU64], kind: CallKind) -> Self {
        let mut writer = Self { words, at: 0 };
        writer.put(u64::from(kind.0));
        writer
    }

    fn put(&mut self, word: u64) {
        self.words[self.at].store(word, Ordering::Relaxed);
        self.at += 1;
    }

    fn pair(&mut self, low: u32, high: u32) {
        self.put(u64::from(low) | u64::from(high) << 32);
    }

    fn request(&mut self, request: &Request) {
        self.put(request.task);
        self.put(request.job);
        self.pair(request.partition, request.priority as u32);
        self.pair(request.gate.0, request.flags.0);
        self.put(request.arrival);
        self.put(request.gate_since_ns);
        self.put(request.held_bytes);
        self.put(request.need_bytes);
        self.put(request.peak_bytes);
    }

    fn view(&mut self, view: &View<'_>) {
        self.put(view.now_ns);
        self.put(view.capacity_bytes);
        self.put(view.free_bytes);
        self.pair(view.device, view.workers);
        for stages in [view.waiting, view.running] {
            self.pair(stages[0], stages[1]);
            self.pair(stages[2], stages[3]);
        }
        // A lock table has at most MAX_LOCKS: the loader refuses others.
        self.pair(view.staged, view.locks.len().min(MAX_LOCKS) as u32);
        for lock in view.locks.iter().take(MAX_LOCKS) {
            self.pair(lock.permits, lock.free);
        }
    }
}

/// Reads words in order.
struct Reader<'a> {
    words: &'a [AtomicU64],
    at: usize,
}

impl Reader<'_> {
    fn get(&mut self) -> u64 {
        let word = self.words[self.at].load(Ordering::Relaxed);
        self.at += 1;
        word
    }

    fn pair(&mut self) -> (u32, u32) {
        let word = self.get();
        (word as u32, (word >> 32) as u32)
    }

    fn request(&mut self) -> Request {
        let (task, job) = (self.get(), self.get());
        let (partition, priority) = self.pair();
        let (gate, flags) = self.pair();
        Request {
            task,
            job,
            partition,
            priority: priority as i32,
            gate: Stage(gate),
            flags: RequestFlags(flags),
            arrival: self.get(),
            gate_since_ns: self.get(),
            held_bytes: self.get(),
            need_bytes: self.get(),
            peak_bytes: self.get(),
        }
    }

    fn stages(&mut self) -> [u32; 4] {
        let ((a, b), (c, d)) = (self.pair(), self.pair());
        [a, b, c, d]
    }

    fn view(&mut self) -> OwnedView {
        let (now_ns, capacity_bytes, free_bytes) = (self.get(), self.get(), self.get());
        let (device, workers) = self.pair();
        let (waiting, running) = (self.stages(), self.stages());
        let (staged, len) = self.pair();
        let len = (len as usize).min(MAX_LOCKS);
        let mut locks = [LockView { permits: 0, free: 0 }; MAX_LOCKS];
        for lock in &mut locks[..len] {
            let (permits, free) = self.pair();
            *lock = LockView { permits, free };
        }
        let facts = View {
            now_ns,
            capacity_bytes,
            free_bytes,
            device,
            workers,
            waiting,
            running,
            staged,
            locks: Strided::new(&[]),
        };
        OwnedView { facts, locks, len }
    }
}

/// Writes a call that has nothing but its kind: START or STATS.
pub(super) fn put_bare(words: &[AtomicU64], kind: CallKind) {
    Writer::new(words, kind);
}

/// Writes a question about a task at a gate: DECIDE or RANK.
pub(super) fn put_question(words: &[AtomicU64], kind: CallKind, request: &Request, view: &View<'_>) {
    let mut writer = Writer::new(words, kind);
    writer.request(request);
    writer.view(view);
}

/// Writes PLACE; the devices go to the area for long data, as many as fit: it is made for thousands.
pub(super) fn put_place(words: &[AtomicU64], long: &[AtomicU64], request: &Request, devices: &[DeviceView]) {
    let devices = &devices[..devices.len().min(long.len() / DEVICE_WORDS)];
    let mut writer = Writer::new(words, CallKind::PLACE);
    writer.request(request);
    writer.put(devices.len() as u64);
    let mut writer = Writer { words: long, at: 0 };
    for device in devices {
        writer.put(device.capacity_bytes);
        writer.put(device.free_bytes);
        writer.pair(device.tasks, device.computing);
    }
}

/// Writes OBSERVE.
pub(super) fn put_observation(words: &[AtomicU64], observation: &Observation) {
    let mut writer = Writer::new(words, CallKind::OBSERVE);
    writer.pair(observation.kind.0, observation.stage.0);
    writer.put(observation.task);
    writer.put(observation.now_ns);
    writer.put(observation.duration_ns);
    writer.put(observation.bytes);
}

/// Reads a call; `None` for a kind that is none.
pub(super) fn get_call(words: &[AtomicU64]) -> Option<Call> {
    let mut reader = Reader { words, at: 0 };
    Some(match CallKind(reader.get() as u32) {
        CallKind::START => Call::Start,
        CallKind::DECIDE => Call::Decide(reader.request(), reader.view()),
        CallKind::RANK => Call::Rank(reader.request(), reader.view()),
        CallKind::PLACE => Call::Place(reader.request(), reader.get() as usize),
        CallKind::OBSERVE => {
            let (kind, stage) = reader.pair();
            Call::Observe(Observation {
                kind: ObservationKind(kind),
                stage: Stage(stage),
                task: reader.get(),
                now_ns: reader.get(),
                duration_ns: reader.get(),
                bytes: reader.get(),
            })
        }
        CallKind::STATS => Call::Stats,
        _ => return None,
    })
}

/// Reads the devices of a PLACE call.
pub(super) fn get_devices(long: &[AtomicU64], count: usize) -> Vec<DeviceView> {
    let mut reader = Reader { words: long, at: 0 };
    let device = |_| {
        let (capacity_bytes, free_bytes) = (reader.get(), reader.get());
        let (tasks, computing) = reader.pair();
        DeviceView { capacity_bytes, free_bytes, tasks, computing }
    };
    (0..count.min(long.len() / DEVICE_WORDS)).map(device).collect()
}

/// A verdict as the words of an answer.
pub(super) fn verdict_words(verdict: &Verdict) -> [u64; ANSWER_WORDS] {
    let kind = u64::from(verdict.kind.0) | u64::from(verdict.wake.0) << 32;
    [kind, verdict.reserve_bytes, verdict.deadline_ns]
}

/// The verdict in the words of an answer. Any words make one; the arbiter judges it.
pub(super) fn verdict_of(words: [u64; ANSWER_WORDS]) -> Verdict {
    Verdict {
        kind: VerdictKind(words[0] as u32),
        wake: WakeSet((words[0] >> 32) as u32),
        reserve_bytes: words[1],
        deadline_ns: words[2],
    }
}

/// Writes bytes to the area for long data, as many as fit. Returns how many.
pub(super) fn put_bytes(long: &[AtomicU64], bytes: &[u8]) -> usize {
    let len = bytes.len().min(long.len() * 8);
    for (word, chunk) in long.iter().zip(bytes[..len].chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
    len
}

/// Reads `len` bytes from the area for long data; `None` when it has not as many.
pub(super) fn get_bytes(long: &[AtomicU64], len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok().filter(|len| *len <= long.len() * 8)?;
    let words = long[..len.div_ceil(8)].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    Some(words.take(len).collect())
}

#[cfg(test)]
mod tests {
    use interlock_policy_api::testing::request;
    use proptest::prelude::*;

    use super::*;

    fn words<const N: usize>() -> [AtomicU64; N] {
        [const { AtomicU64::new(0) }; N]
    }

    proptest! {
        #[test]
        fn a_question_arrives_as_it_was_asked(
            r in any::<([u64; 7], [u32; 4])>(),
            v in any::<([u64; 3], [u32; 3], [u32; 4], [u32; 4])>(),
            locks in prop::collection::vec(any::<(u32, u32)>(), 0..=MAX_LOCKS),
        ) {
            let ([task, job, arrival, gate_since_ns, held_bytes, need_bytes, peak_bytes], u) = r;
            let asked = Request {
                task, job, partition: u[0], priority: u[1] as i32, gate: Stage(u[2]), flags: RequestFlags(u[3]),
                arrival, gate_since_ns, held_bytes, need_bytes, peak_bytes,
            };
            let ([now_ns, capacity_bytes, free_bytes], [device, workers, staged], waiting, running) = v;
            let locks: Vec<_> = locks.into_iter().map(|(permits, free)| LockView { permits, free }).collect();
            let shown = View {
                now_ns, capacity_bytes, free_bytes, device, workers, waiting, running, staged,
                locks: Strided::new(&locks),
            };
            let slot = words::<CALL_WORDS>();
            for kind in [CallKind::DECIDE, CallKind::RANK] {
                put_question(&slot, kind, &asked, &shown);
                let (request, view) = match get_call(&slot) {
                    Some(Call::Decide(request, view)) if kind == CallKind::DECIDE => (request, view),
                    Some(Call::Rank(request, view)) if kind == CallKind::RANK => (request, view),
                    call => panic!("{call:?}"),
                };
                // Records have no equality of their own; what they show is every field.
                prop_assert_eq!(format!("{request:?}"), format!("{asked:?}"));
                let view = view.as_view();
                prop_assert_eq!(view.locks.iter().copied().collect::<Vec<_>>(), locks.clone());
                let facts = |view: View<'_>| format!("{:?}", View { locks: Strided::new(&[]), ..view });
                prop_assert_eq!(facts(view), facts(shown));
            }
        }

        #[test]
        fn an_observation_and_a_verdict_arrive(w in any::<([u64; 4], [u32; 2])>()) {
            let ([task, now_ns, duration_ns, bytes], [kind, stage]) = w;
            let seen = Observation {
                kind: ObservationKind(kind), stage: Stage(stage), task, now_ns, duration_ns, bytes,
            };
            let slot = words::<CALL_WORDS>();
            put_observation(&slot, &seen);
            prop_assert!(matches!(get_call(&slot), Some(Call::Observe(told)) if told == seen));
            let verdict = Verdict {
                kind: VerdictKind(kind), wake: WakeSet(stage), reserve_bytes: task, deadline_ns: now_ns,
            };
            prop_assert_eq!(verdict_of(verdict_words(&verdict)), verdict);
        }

        #[test]
        fn bytes_arrive(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let long = words::<8>();
            let len = put_bytes(&long, &bytes);
            prop_assert_eq!(len, bytes.len().min(64));
            prop_assert_eq!(get_bytes(&long, len as u64), Some(bytes[..len].to_vec()));
            prop_assert_eq!(get_bytes(&long, 65), None);
            prop_assert_eq!(get_bytes(&long, u64::MAX), None);
        }
    }

    #[test]
    fn devices_arrive_as_many_as_fit() {
        let (slot, long) = (words::<CALL_WORDS>(), words::<9>());
        let device = |seed: u64| DeviceView {
            capacity_bytes: seed,
            free_bytes: seed + 1,
            tasks: seed as u32 + 2,
            computing: seed as u32 + 3,
        };
        let devices: Vec<_> = (0..4).map(|index| device(10 * index)).collect();
        for count in [2, 3, 4] {
            put_place(&slot, &long, &request(Stage::PREPARE), &devices[..count]);
            let Some(Call::Place(_, told)) = get_call(&slot) else { panic!("it is PLACE") };
            assert_eq!(told, count.min(3));
            assert_eq!(get_devices(&long, told), devices[..told]);
        }
    }

    #[test]
    fn a_kind_that_is_none_is_no_call() {
        let slot = words::<CALL_WORDS>();
        assert!(get_call(&slot).is_none());
        put_bare(&slot, CallKind(77));
        assert!(get_call(&slot).is_none());
        put_bare(&slot, CallKind::STATS);
        assert!(matches!(get_call(&slot), Some(Call::Stats)));
    }
}
