//! A policy in a process of its own answers as it does in the engine's: the same library, the same questions in the same
//! order, the same answers.

use interlock_engine::host::{Isolation, LoadedPolicy, PolicyLibrary, ProcessSettings};
use interlock_engine::interlock::{PlaceError, PolicyFault, PolicyPort};
use interlock_policy_api::{
    DeviceView, LockView, Observation, ObservationKind, Request, RequestFlags, Stage, Strided, View,
};
use interlock_tests::libraries::verified;
use interlock_tests::questions::{DEVICES, SEEN, ask_all};
use proptest::prelude::*;

const POLICIES: [&str; 4] = ["serialized-fallback", "single-lock", "two-lock", "vram-token"];

fn settings() -> ProcessSettings {
    ProcessSettings::new(env!("CARGO_BIN_EXE_interlock-test-policy-host"))
        .decision(std::time::Duration::from_secs(20))
}

fn both(policy: &str, options: &str) -> [LoadedPolicy; 2] {
    let here = PolicyLibrary::open(verified(policy, options)).expect("it is good");
    let apart = PolicyLibrary::isolate(verified(policy, options), settings()).expect("it is good");
    assert_eq!((here.isolation(), apart.isolation()), (Isolation::InProcess, Isolation::Process));
    [here, apart].map(|library| library.instantiate().expect("the options are good"))
}

/// One call.
#[derive(Clone, Debug)]
enum Ask {
    Decide(Request, Shown),
    Rank(Request, Shown),
    Place(Request, Vec<DeviceView>),
    Observe(Observation),
    Stats,
}

/// A view that owns its locks.
#[derive(Clone, Debug)]
struct Shown {
    numbers: [u64; 3],
    small: [u32; 11],
    locks: Vec<LockView>,
}

impl Shown {
    fn view(&self) -> View<'_> {
        let ([now_ns, capacity_bytes, free_bytes], small) = (self.numbers, self.small);
        View {
            now_ns,
            capacity_bytes,
            free_bytes,
            device: small[0],
            workers: small[1],
            waiting: [small[2], small[3], small[4], small[5]],
            running: [small[6], small[7], small[8], small[9]],
            staged: small[10],
            locks: Strided::new(&self.locks),
        }
    }
}

/// Numbers of tasks, bytes and times: mostly of a size at which policies decide one way or the other, sometimes any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..64_u64, 4 => (0..64_u64).prop_map(|count| count << 20), 1 => any::<u64>()]
}

fn request() -> impl Strategy<Value = Request> {
    let small = (any::<u32>(), -3..4_i32, prop_oneof![8 => 0..4_u32, 1 => any::<u32>()], 0..32_u32);
    (prop::array::uniform7(number()), small).prop_map(|(n, (partition, priority, gate, flags))| Request {
        task: n[0],
        job: n[1],
        partition,
        priority,
        gate: Stage(gate),
        flags: RequestFlags(flags),
        arrival: n[2],
        gate_since_ns: n[3],
        held_bytes: n[4],
        need_bytes: n[5],
        peak_bytes: n[6],
    })
}

fn shown() -> impl Strategy<Value = Shown> {
    let lock = (1..4_u32, 0..4_u32).prop_map(|(permits, free)| LockView { permits, free });
    let small = prop::array::uniform11(prop_oneof![8 => 0..6_u32, 1 => any::<u32>()]);
    (prop::array::uniform3(number()), small, prop::collection::vec(lock, 0..4))
        .prop_map(|(numbers, small, locks)| Shown { numbers, small, locks })
}

fn ask() -> impl Strategy<Value = Ask> {
    let device = (number(), number(), 0..9_u32, 0..9_u32).prop_map(
        |(capacity_bytes, free_bytes, tasks, computing)| DeviceView {
            capacity_bytes,
            free_bytes,
            tasks,
            computing,
        },
    );
    let observation = (0..9_u32, 0..5_u32, prop::array::uniform4(number())).prop_map(|(kind, stage, n)| {
        let [task, now_ns, duration_ns, bytes] = n;
        Observation { kind: ObservationKind(kind), stage: Stage(stage), task, now_ns, duration_ns, bytes }
    });
    prop_oneof![
        6 => (request(), shown()).prop_map(|(request, shown)| Ask::Decide(request, shown)),
        2 => (request(), shown()).prop_map(|(request, shown)| Ask::Rank(request, shown)),
        1 => (request(), prop::collection::vec(device, 1..5)).prop_map(|(request, view)| Ask::Place(request, view)),
        6 => observation.prop_map(Ask::Observe),
        1 => Just(Ask::Stats),
    ]
}

/// What a policy answers, as text. An observation's answer is left out: it comes later from a process.
fn answer(policy: &mut LoadedPolicy, ask: &Ask) -> String {
    match ask {
        Ask::Decide(request, shown) => format!("{:?}", policy.decide(request, &shown.view())),
        Ask::Rank(request, shown) => format!("{:?}", policy.rank(request, &shown.view())),
        Ask::Place(request, devices) => format!("{:?}", policy.place(request, devices)),
        Ask::Observe(observation) => {
            policy.observe(observation).expect("it does not panic");
            String::new()
        }
        Ask::Stats => format!("{:?}", policy.stats()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_shipped_policies_answer_the_same(asks in prop::collection::vec(ask(), 1..200)) {
        for name in POLICIES {
            let [mut here, mut apart] = both(name, "");
            for ask in &asks {
                prop_assert_eq!(answer(&mut apart, ask), answer(&mut here, ask), "{}: {:?}", name, ask);
            }
        }
    }
}

#[test]
fn more_observations_than_the_channel_holds_all_arrive() {
    let [_, mut apart] = both("fixture-faulty", "");
    for _ in 0..1_000 {
        apart.observe(&SEEN).expect("it does not panic");
    }
    assert_eq!(apart.stats(), Ok(vec![("observed".to_owned(), 1_000)]));
}

#[test]
fn a_panic_in_each_function_is_a_fault_of_that_function() {
    for (index, function) in ["decide", "rank", "place", "observe", "stats"].into_iter().enumerate() {
        let [_, mut policy] = both("fixture-faulty", &format!("(panic_in: \"{function}\")"));
        for round in 0..3 {
            let mut expected = [Ok(()); 5];
            expected[index] = Err(PolicyFault::Panicked);
            if function == "observe" && round == 0 {
                // It is seen with the next question.
                expected[index] = Ok(());
            }
            assert_eq!(ask_all(&mut policy), expected, "{function}");
        }
    }
}

#[test]
fn garbage_comes_through_as_it_is() {
    for verdict in ["unknown", "never", "endless", "past", "greedy", "skip"] {
        let [mut here, mut apart] = both("fixture-faulty", &format!("(verdict: \"{verdict}\")"));
        let (request, view) = (
            interlock_policy_api::testing::request(Stage::COMPUTE),
            interlock_policy_api::testing::view(&[]),
        );
        assert_eq!(apart.decide(&request, &view), here.decide(&request, &view), "{verdict}");
    }
    let [_, mut apart] = both("fixture-faulty", "(device: 2)");
    let request = interlock_policy_api::testing::request(Stage::PREPARE);
    assert_eq!(apart.place(&request, &DEVICES), Err(PlaceError::NoSuchDevice { chosen: 2, devices: 2 }));
}
