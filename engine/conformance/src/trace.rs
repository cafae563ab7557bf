//! A run in words: events, questions, verdicts, and what the arbiter did.

use std::fmt::Write;

use interlock_arbiter::{Command, Event, Outcome, PlaceError, PolicyFault};
use interlock_policy_api::{
    Observation, ObservationKind, Request, RequestFlags, Verdict, VerdictKind, View, WakeSet,
};
use interlock_settings::units::exact_bytes;

use crate::record::{Call, Entry};
use crate::run::time;

/// An answer in words.
pub(crate) trait Said {
    fn said(&self) -> String;
}

impl Said for Verdict {
    fn said(&self) -> String {
        match self.kind {
            VerdictKind::ENTER => format!("Enter, {}", exact_bytes(self.reserve_bytes)),
            VerdictKind::SKIP => "Skip".to_owned(),
            VerdictKind::WAIT if self.deadline_ns == Verdict::NO_DEADLINE => {
                format!("Wait for {}", events(self.wake))
            }
            VerdictKind::WAIT => {
                format!("Wait for {} or until {}", events(self.wake), time(self.deadline_ns))
            }
            VerdictKind(kind) => format!("a verdict of kind {kind}"),
        }
    }
}

impl Said for i64 {
    fn said(&self) -> String {
        format!("rank {self}")
    }
}

impl Said for u32 {
    fn said(&self) -> String {
        format!("device {self}")
    }
}

impl Said for () {
    fn said(&self) -> String {
        "taken".to_owned()
    }
}

impl Said for PolicyFault {
    fn said(&self) -> String {
        self.to_string()
    }
}

impl Said for PlaceError {
    fn said(&self) -> String {
        match self {
            PlaceError::Fault(fault) => fault.said(),
            error => error.to_string(),
        }
    }
}

impl<A: Said, E: Said> Said for Result<A, E> {
    fn said(&self) -> String {
        match self {
            Ok(answer) => answer.said(),
            Err(error) => error.said(),
        }
    }
}

/// All lines of a run. Ticks at which nobody was asked are left out.
pub(crate) fn text(entries: &[Entry]) -> String {
    let mut text = String::new();
    for (at, entry) in entries.iter().enumerate() {
        let quiet = matches!(entry, Entry::Event { event: Event::Tick, .. })
            && !matches!(entries.get(at + 1), Some(Entry::Call(_) | Entry::Did(_)));
        if !quiet {
            writeln!(text, "{}", line(entry)).expect("a string takes everything");
        }
    }
    text
}

fn line(entry: &Entry) -> String {
    match entry {
        Entry::Seated => "  a new instance takes the seat".to_owned(),
        Entry::Event { at_ns, event } => format!("{:>12}  {}", time(*at_ns), event_text(event)),
        Entry::Call(call) => format!("                asked: {}", call_text(call)),
        Entry::Did(command) => format!("                done:  {}", command_text(command)),
    }
}

fn event_text(event: &Event) -> String {
    match event {
        Event::Arrived(spec) => format!(
            "task {} comes, priority {}, {} staged, {} at its peak{}",
            spec.task.0,
            spec.priority,
            exact_bytes(spec.staged_bytes),
            exact_bytes(spec.peak_bytes),
            if spec.retry { ", again after a failure" } else { "" }
        ),
        Event::StageEnded { task, outcome } => {
            let how = match outcome {
                Outcome::Done => "ends",
                Outcome::Failed => "fails",
                Outcome::AllocationFailed => "fails: no memory",
            };
            format!("the stage of task {} {how}", task.0)
        }
        Event::Cancelled { task } => format!("task {} is given up", task.0),
        Event::Tick => "a deadline".to_owned(),
        Event::Drain => "the policy is drained".to_owned(),
        Event::Installed(_) => "the seat is taken".to_owned(),
    }
}

fn call_text(call: &Call) -> String {
    match call {
        Call::Decide { request, shown, answer } => {
            format!(
                "task {} at {}, {} -> {}",
                request.task,
                request.gate,
                facts(request, &shown.view()),
                answer.said()
            )
        }
        Call::Rank { request, answer, .. } => {
            format!("the rank of task {} at {} -> {}", request.task, request.gate, answer.said())
        }
        Call::Place { request, devices, answer } => {
            format!("one of {} devices for task {} -> {}", devices.len(), request.task, answer.said())
        }
        Call::Observe { seen, answer } => format!("(told: {}) -> {}", seen_text(seen), answer.said()),
        Call::Stats { answer } => format!("its counters -> {}", answer.said()),
    }
}

fn facts(request: &Request, view: &View<'_>) -> String {
    let known = [
        (RequestFlags::STAGED, "staged"),
        (RequestFlags::LOCKS_FREE, "locks free"),
        (RequestFlags::BYTES_FREE, "bytes free"),
        (RequestFlags::DEADLINE_PASSED, "deadline passed"),
        (RequestFlags::RETRY, "retry"),
    ];
    let flags: Vec<_> =
        known.iter().filter(|(flag, _)| request.flags.contains(*flag)).map(|(_, name)| *name).collect();
    let (need, free) = (exact_bytes(request.need_bytes), exact_bytes(view.free_bytes));
    format!(
        "needs {need}, {free} free [{}], waiting {:?}, inside {:?}",
        flags.join(", "),
        view.waiting,
        view.running
    )
}

fn seen_text(seen: &Observation) -> String {
    let what = match seen.kind {
        ObservationKind::ENTERED => "entered",
        ObservationKind::STAGE_ENDED => "ended",
        ObservationKind::SKIPPED => "skipped",
        ObservationKind::STAGE_FAILED => "failed",
        ObservationKind::ALLOCATION_FAILED => "failed, no memory",
        ObservationKind::REFUSED => "verdict refused",
        ObservationKind::TASK_LEFT => "left",
        ObservationKind(_) => "something",
    };
    format!("task {}, {}: {what}, {}", seen.task, seen.stage, exact_bytes(seen.bytes))
}

fn command_text(command: &Command) -> String {
    match command {
        Command::Run { task, stage, inline, held_bytes, .. } => {
            let inline = if *inline { ", staged inline" } else { "" };
            let held = exact_bytes(*held_bytes);
            format!("task {} is let into {stage} and holds {held}{inline}", task.0)
        }
        Command::Skipped { task, .. } => format!("task {} skips Stage", task.0),
        Command::Freed { task, locks, bytes: freed } => {
            format!("task {} gives back {} and the locks [{}]", task.0, exact_bytes(*freed), locks.join(", "))
        }
        Command::Refused { task, refusal, .. } => format!("refused, task {}: {refusal}", task.0),
        Command::Slow { task, .. } => format!("too slow about task {}", task.0),
        Command::Left { task } => format!("task {} leaves", task.0),
        Command::Quarantined(why) => format!("quarantine: {why}"),
        Command::Drained => "drained".to_owned(),
    }
}

fn events(wake: WakeSet) -> String {
    if wake == WakeSet::ANY {
        return "anything".to_owned();
    }
    let known = [
        (WakeSet::LOCK_FREED, "a lock"),
        (WakeSet::BYTES_FREED, "bytes"),
        (WakeSet::STAGE_ENDED, "the end of a stage"),
        (WakeSet::TASK_ARRIVED, "an arrival"),
        (WakeSet::STAGE_ENTERED, "an entry"),
    ];
    let names: Vec<_> =
        known.iter().filter(|(event, _)| wake.intersects(*event)).map(|(_, name)| *name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
