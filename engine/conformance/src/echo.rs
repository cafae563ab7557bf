//! Asks another instance what a run asked: the same, or with what a later host may add.

use std::time::{Duration, Instant};

use interlock_arbiter::{Event, PolicyFault, PolicySource, SeatedPolicy};
use interlock_policy_api::{
    LockView, Observation, ObservationKind, Request, RequestFlags, Stage, Strided, Verdict, VerdictKind, View,
};

use crate::law::{Break, Law};
use crate::record::{Call, Entry};
use crate::trace::Said;

/// How a run is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The same calls, each decision twice.
    Same,
    /// The same, once it has been there for a while: whoever looks at a clock sees another time.
    Later,
    /// Between the calls it is told of events of kinds that there are not.
    Kinds,
    /// Requests have flags that there are not.
    Flags,
    /// The records of locks are longer than they are.
    Records,
    /// Tasks stand at gates, and events are of stages, that there are not.
    Stages,
}

impl Echo {
    /// Those with what a later host may add.
    pub const STRANGE: [Echo; 4] = [Echo::Kinds, Echo::Flags, Echo::Records, Echo::Stages];

    fn law(self) -> Law {
        if matches!(self, Echo::Same | Echo::Later) { Law::Determinism } else { Law::Strangers }
    }

    fn how(self) -> &'static str {
        match self {
            Echo::Same => "by another instance, on another thread",
            Echo::Later => "later",
            Echo::Kinds => "with events of unknown kinds in between",
            Echo::Flags => "with unknown flags",
            Echo::Records => "with longer records of locks",
            Echo::Stages => "with unknown stages in between",
        }
    }
}

/// How long an instance of [`Echo::Later`] has been there when it is asked.
const LATER: Duration = Duration::from_millis(25);
/// Numbers that no version of the boundary has yet.
const UNKNOWN: [u32; 3] = [4, 77, u32::MAX];
/// Flags that no version has yet.
const UNKNOWN_FLAGS: RequestFlags = RequestFlags(0xffff_0000);

/// Asks what `entries` have asked again, on a thread of its own, to the last one or until `ends`. Returns the first law that is broken
/// by that.
pub(crate) fn ask_again(
    source: &dyn PolicySource,
    entries: &[Entry],
    echo: Echo,
    ends: Option<Instant>,
) -> Option<Break> {
    let time_is_left = || ends.is_none_or(|ends| Instant::now() < ends);
    let ask = || again(source, entries, echo, &time_is_left);
    std::thread::scope(|threads| threads.spawn(ask).join().expect("a policy's panics are caught"))
}

fn again(
    source: &dyn PolicySource,
    entries: &[Entry],
    echo: Echo,
    time_is_left: &dyn Fn() -> bool,
) -> Option<Break> {
    let mut policy = None;
    let (mut now_ns, mut events) = (0, 0);
    for entry in entries.iter().take_while(|_| time_is_left()) {
        let judged = match (entry, &mut policy) {
            (Entry::Seated, seat) => match source.seat() {
                Ok(instance) => {
                    *seat = Some(instance);
                    if echo == Echo::Later {
                        std::thread::sleep(LATER);
                    }
                    Ok(())
                }
                Err(reason) => Err((Law::Answers, format!("another instance could not be made: {reason}"))),
            },
            (Entry::Event { at_ns, event }, _) => {
                now_ns = *at_ns;
                events += usize::from(*event != Event::Tick);
                Ok(())
            }
            (Entry::Call(call), Some(policy)) if call.fault().is_none() => ask(&mut **policy, call, echo),
            (Entry::Call(_) | Entry::Did(_), _) => Ok(()),
        };
        if let Err((law, what)) = judged {
            return Some(Break { law, at_ns: now_ns, events, what });
        }
    }
    None
}

type Judged = Result<(), (Law, String)>;

fn ask(policy: &mut dyn SeatedPolicy, call: &Call, echo: Echo) -> Judged {
    match echo {
        Echo::Kinds => tell_of_kinds(policy, call)?,
        Echo::Stages => ask_of_stages(policy, call)?,
        Echo::Same | Echo::Later | Echo::Flags | Echo::Records => {}
    }
    match call {
        Call::Decide { request, shown, answer } => {
            let locks = Locks::of(shown.locks(), echo);
            let (request, view) = (flagged(request, echo), View { locks: locks.strided(), ..shown.view() });
            let first = policy.decide(&request, &view);
            same(echo, &request, *answer, first)?;
            if echo.law() == Law::Determinism {
                let second = policy.decide(&request, &view);
                same_twice(&request, first, second)?;
            }
            Ok(())
        }
        Call::Rank { request, shown, answer } => {
            let locks = Locks::of(shown.locks(), echo);
            let (request, view) = (flagged(request, echo), View { locks: locks.strided(), ..shown.view() });
            same(echo, &request, *answer, policy.rank(&request, &view))
        }
        Call::Place { request, devices, answer } => {
            let request = flagged(request, echo);
            same(echo, &request, *answer, policy.place(&request, devices))
        }
        Call::Observe { seen, .. } => answered(echo, policy.observe(seen)),
        Call::Stats { .. } => answered(echo, policy.stats().map(drop)),
    }
}

/// The locks of a view, as they are or in longer records.
enum Locks<'a> {
    AsTheyAre(&'a [LockView]),
    Longer(Vec<LongerLock>),
}

/// What a lock may look like to a later host.
#[repr(C)]
struct LongerLock {
    lock: LockView,
    later: [u32; 5],
}

impl<'a> Locks<'a> {
    fn of(locks: &'a [LockView], echo: Echo) -> Locks<'a> {
        if echo != Echo::Records {
            return Locks::AsTheyAre(locks);
        }
        Locks::Longer(locks.iter().map(|lock| LongerLock { lock: *lock, later: UNKNOWN_LATER }).collect())
    }

    fn strided(&self) -> Strided<'_, LockView> {
        match self {
            Locks::AsTheyAre(locks) => Strided::new(locks),
            Locks::Longer(locks) => {
                let longer: Strided<'_, LongerLock> = Strided::new(locks);
                // SAFETY: `Strided` is `repr(C)` and the same for each `T`; its stride says how long the records are, which begin with
                // those of `LockView`.
                unsafe { std::mem::transmute::<Strided<'_, LongerLock>, Strided<'_, LockView>>(longer) }
            }
        }
    }
}

/// What stands in fields that there are not: neither a number of permits nor none.
const UNKNOWN_LATER: [u32; 5] = [0xa5a5_a5a5; 5];

fn flagged(request: &Request, echo: Echo) -> Request {
    let more = if echo == Echo::Flags { UNKNOWN_FLAGS } else { RequestFlags::default() };
    Request { flags: request.flags.with(more), ..*request }
}

/// Kinds of events that there are not, before a call.
fn tell_of_kinds(policy: &mut dyn SeatedPolicy, call: &Call) -> Judged {
    let (task, now_ns) = match call {
        Call::Decide { request, shown, .. } => (request.task, shown.view().now_ns),
        Call::Observe { seen, .. } => (seen.task, seen.now_ns),
        _ => return Ok(()),
    };
    for kind in UNKNOWN {
        let kind = ObservationKind(kind.max(8));
        let seen = Observation { kind, stage: Stage::STAGE, task, now_ns, duration_ns: 1, bytes: 1 };
        answered(Echo::Kinds, policy.observe(&seen))?;
    }
    Ok(())
}

/// The same question at gates that there are not, and events of a task in stages that there are not.
fn ask_of_stages(policy: &mut dyn SeatedPolicy, call: &Call) -> Judged {
    let Call::Decide { request, shown, .. } = call else { return Ok(()) };
    for stage in UNKNOWN.map(Stage) {
        for kind in [ObservationKind::ENTERED, ObservationKind::STAGE_ENDED, ObservationKind::TASK_LEFT] {
            let now_ns = shown.view().now_ns;
            let seen = Observation { kind, stage, task: u64::MAX, now_ns, duration_ns: 0, bytes: 0 };
            answered(Echo::Stages, policy.observe(&seen))?;
        }
        let request = Request { gate: stage, ..*request };
        answered(Echo::Stages, policy.rank(&request, &shown.view()).map(drop))?;
        match policy.decide(&request, &shown.view()) {
            Ok(Verdict { kind: VerdictKind::ENTER | VerdictKind::WAIT, .. }) => {}
            Ok(verdict) => {
                let what = format!(
                    "at a gate it cannot know ({stage}) it gave {}, not Enter or Wait",
                    verdict.said()
                );
                return Err((Law::Strangers, what));
            }
            Err(fault) => answered(Echo::Stages, Err(fault))?,
        }
    }
    Ok(())
}

fn same<A: PartialEq + Said, E: PartialEq + Said>(
    echo: Echo,
    request: &Request,
    first: Result<A, E>,
    again: Result<A, E>,
) -> Judged {
    // What comes between the calls may have been taken to heart where it is of a stage: that it was taken is enough.
    let may_differ = echo == Echo::Stages && again.is_ok();
    if first == again || may_differ {
        return Ok(());
    }
    let law = if again.is_err() && echo.law() == Law::Determinism { Law::Answers } else { echo.law() };
    let (task, gate) = (request.task, request.gate);
    Err((
        law,
        format!(
            "about task {task} at {gate} it gave {}, and, asked {}, {}",
            first.said(),
            echo.how(),
            again.said()
        ),
    ))
}

fn same_twice(
    request: &Request,
    first: Result<Verdict, PolicyFault>,
    second: Result<Verdict, PolicyFault>,
) -> Judged {
    if first == second {
        return Ok(());
    }
    let law = if second.is_err() { Law::Answers } else { Law::Determinism };
    let (task, gate) = (request.task, request.gate);
    Err((
        law,
        format!(
            "asked twice in a row about task {task} at {gate} it gave {}, then {}",
            first.said(),
            second.said()
        ),
    ))
}

fn answered(echo: Echo, answer: Result<(), PolicyFault>) -> Judged {
    let law = if echo.law() == Law::Determinism { Law::Answers } else { Law::Strangers };
    answer.map_err(|fault| (law, format!("asked {}, {fault}", echo.how())))
}
