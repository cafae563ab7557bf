//! Bad scenarios: one clear error at the place of the value, never a panic.

use std::path::{Path, PathBuf};

use interlock_settings::Position;
use interlock_simulator::{Scenario, ScenarioError, ScenarioFault};

const DEVICES: &str = "devices: [(vram: \"16GiB\")]";
const CLASS: &str = "name: \"a\", staged: \"4GiB\", prepare: (time: Constant(\"1s\")), stage: Constant(\"1s\"),\n   \
                     compute: Constant(\"1s\"), finish: (time: Constant(\"1s\"))";
const ARRIVALS: &str = "arrivals: [Closed(class: \"a\", jobs: 2, in_flight: 1)]";

/// Reads a text in which `@` stands before the value that is wrong; the error has to be there, and to have these words.
#[track_caller]
fn refused(marked: &str, words: &[&str]) -> ScenarioError {
    let offset = marked.find('@').unwrap_or_else(|| panic!("no mark in {marked}"));
    let text = marked.replacen('@', "", 1);
    let error = Scenario::parse(&text, Some(PathBuf::from("a.ron"))).expect_err(&text);
    let message = error.to_string();
    let place = Position::at_offset(&text, offset);
    assert_eq!(error.position, Some(place), "{message}\n{text}");
    assert!(message.starts_with(&format!("a.ron:{place}: ")), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    error
}

fn with_device(device: &str) -> String {
    format!("(\n devices: [({device})],\n classes: [({CLASS})],\n {ARRIVALS})")
}

fn with_class(class: &str) -> String {
    format!("(\n {DEVICES},\n classes: [(\n   {class})],\n {ARRIVALS})")
}

fn with_arrivals(arrivals: &str) -> String {
    format!("(\n {DEVICES},\n classes: [({CLASS})],\n arrivals: {arrivals})")
}

fn with_more(more: &str) -> String {
    format!("(\n {DEVICES},\n classes: [({CLASS})],\n {ARRIVALS},\n {more})")
}

#[test]
fn the_pieces_are_good_by_themselves() {
    for text in [
        with_device("vram: \"16GiB\""),
        with_class(CLASS),
        with_arrivals("[Closed(class: \"a\", jobs: 2, in_flight: 1)]"),
    ] {
        Scenario::parse(&text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

#[test]
fn times_that_are_none() {
    for (time, words) in [
        ("@\"-1s\"", ["negative", "zero or more"]),
        ("@\"1m\"", ["no time", "1.82s"]),
        ("@\"NaNs\"", ["no time", "1.82s"]),
        ("@\"99999999999999999999s\"", ["too long", "hundred years"]),
        ("@1.5", ["a time such as \"1.8s\"", "in quotes"]),
        ("@1s", ["a time such as \"1.8s\"", "in quotes"]),
    ] {
        let class = CLASS.replace("stage: Constant(\"1s\")", &format!("stage: Constant({time})"));
        refused(&with_class(&class), &words);
    }
}

#[test]
fn devices_that_are_none() {
    for (device, words) in [
        ("vram: @\"0\"", vec!["vram", "at least 1"]),
        ("vram: \"16GiB\", count: @0", vec!["count", "at least 1"]),
        ("vram: \"16GiB\", copy_engines: @0", vec!["copy_engines"]),
        ("vram: \"16GiB\", compute_engines: @0", vec!["compute_engines"]),
        ("vram: \"16GiB\", kernels: Shared(throughput: @0.0)", vec!["throughput"]),
        ("vram: \"16GiB\", kernels: Shared(throughput: @NaN)", vec!["NaN", "throughput"]),
        ("vram: \"16GiB\", kernels: Shared(throughput: @inf)", vec!["inf"]),
    ] {
        refused(&with_device(device), &words);
    }
    let many = with_device("vram: \"16GiB\", count: 1025").replace("devices: [", "devices: @[");
    refused(&many, &["1025", "1024"]);
    let none = format!("(devices: @[], classes: [({CLASS})], {ARRIVALS})");
    assert!(matches!(refused(&none, &["no devices"]).fault, ScenarioFault::Empty("devices")));
}

#[test]
fn tasks_that_fit_nowhere_or_are_no_tasks() {
    let sized = |sizes: &str| with_class(&CLASS.replace("staged: \"4GiB\"", sizes));
    refused(&sized("staged: @\"17GiB\""), &["\"a\"", "17.00 GiB (18253611008 bytes)", "16.00 GiB", "larger"]);
    refused(&sized("staged: \"12GiB\", extra: @\"5GiB\""), &["\"a\""]);
    // The sum is more than a u64 holds.
    refused(&sized("staged: \"1GiB\", extra: @\"16777215TiB\""), &["larger"]);
    refused(&with_class(&format!("{CLASS}, partitions: @0")), &["partitions"]);
    let distributions = [
        ("@Uniform(min: \"2s\", max: \"1s\")", "longer"),
        ("@Samples([])", "at least one"),
        ("@LogNormal(mean: \"0s\", sd: \"1s\")", "Constant"),
    ];
    for (distribution, word) in distributions {
        let class = CLASS.replace("compute: Constant(\"1s\")", &format!("compute: {distribution}"));
        refused(&with_class(&class), &[word]);
        let class =
            CLASS.replace("prepare: (time: Constant(\"1s\"))", &format!("prepare: (time: {distribution})"));
        refused(&with_class(&class), &[word]);
    }
    for cores in ["0.0", "-1.0", "NaN", "1e300"] {
        let prepare = format!("prepare: (time: Constant(\"1s\"), cores: @{cores})");
        refused(&with_class(&CLASS.replace("prepare: (time: Constant(\"1s\"))", &prepare)), &["cores"]);
    }
    let twice = format!("({DEVICES}, classes: [({CLASS}), (@{CLASS})], {ARRIVALS})")
        .replace("(@name: \"a\"", "(name: @\"a\"");
    refused(&twice, &["another class", "\"a\""]);
    refused(&format!("({DEVICES}, classes: @[], {ARRIVALS})"), &["no classes"]);
    for name in ["\"\"", "\"  \""] {
        refused(
            &with_class(&CLASS.replace("name: \"a\"", &format!("name: @{name}"))),
            &["class", "empty name"],
        );
        let job = format!("[Trace(jobs: [(at: \"0s\", class: \"a\", name: @{name})])]");
        refused(&with_arrivals(&job), &["job", "empty name"]);
    }
}

#[test]
fn work_that_asks_for_more_than_the_host_has() {
    let text = with_class(
        &CLASS.replace("finish: (time: Constant(\"1s\"))", "finish: (time: Constant(\"1s\"), cores: @8)"),
    );
    refused(&text.replace("devices", "host: (cores: 4), devices"), &["8 cores", "host has 4"]);
    let text = with_class(&CLASS.replace(
        "finish: (time: Constant(\"1s\"))",
        "finish: (time: Constant(\"1s\"), bandwidth: @\"2GiB\")",
    ));
    refused(&text.replace("devices", "host: (bandwidth: \"1GiB\"), devices"), &["bandwidth"]);
    refused(&with_more("host: (cores: @NaN)"), &["NaN"]);
    refused(&with_more("host: (bandwidth: @\"0\")"), &["bandwidth"]);
}

#[test]
fn arrivals_that_never_come_or_are_too_many() {
    for (arrivals, words) in [
        ("@[]", vec!["no arrivals"]),
        ("[Closed(class: @\"b\", jobs: 2, in_flight: 1)]", vec!["\"b\"", "there are: a"]),
        ("[Closed(class: \"a\", jobs: @0, in_flight: 1)]", vec!["jobs"]),
        ("[Closed(class: \"a\", jobs: 1, in_flight: @0)]", vec!["in_flight"]),
        ("[@Closed(class: \"a\", jobs: 18446744073709551615, in_flight: 1)]", vec!["tasks", "10000000"]),
        ("[Poisson(class: \"a\", jobs: @0, every: \"1s\")]", vec!["jobs"]),
        ("[Poisson(class: \"a\", jobs: 1, every: @\"-1s\")]", vec!["negative"]),
        ("[Trace(jobs: @[])]", vec!["no jobs"]),
        (
            "[Trace(jobs: [(at: \"2s\", class: \"a\"),\n (at: @\"1s\", class: \"a\")])]",
            vec!["1s", "2s", "order"],
        ),
        ("[Trace(jobs: [(at: \"2s\", class: @\"c\")])]", vec!["\"c\""]),
        ("[Trace(jobs: [(at: \"0s\", class: \"a\", after: [@\"x\"])])]", vec!["no job", "\"x\""]),
        (
            "[Trace(jobs: [(at: \"0s\", class: \"a\", name: \"x\"), (at: \"0s\", class: \"a\", name: @\"x\")])]",
            vec!["another job"],
        ),
    ] {
        refused(&with_arrivals(arrivals), &words);
    }
}

#[test]
fn jobs_that_wait_for_each_other() {
    let jobs = "[Trace(jobs: [(at: \"0s\", class: \"a\", name: \"free\"),\n (at: \"0s\", class: \"a\", name: \"x\", after: @[\"free\", \"z\"]),\n \
                (at: \"0s\", class: \"a\", name: \"y\", after: [\"x\"]),\n (at: \"0s\", class: \"a\", name: \"z\", after: [\"y\"])])]";
    let error = refused(&with_arrivals(jobs), &["x after z after y after x", "`after`"]);
    assert!(matches!(error.fault, ScenarioFault::Cycle { .. }));
    let own = "[Trace(jobs: [(at: \"0s\", class: \"a\", name: \"x\", after: @[\"x\"])])]";
    refused(&with_arrivals(own), &["x after x"]);
    // A long chain is none.
    let link = |index: usize| {
        let after = if index == 0 { String::new() } else { format!(", after: [\"{}\"]", index - 1) };
        format!("(at: \"0s\", class: \"a\", name: \"{index}\"{after})")
    };
    let chain: Vec<String> = (0..20_000).map(link).collect();
    let chain = with_arrivals(&format!("[Trace(jobs: [{}])]", chain.join(",")));
    assert!(Scenario::parse(&chain, None).is_ok());
}

#[test]
fn everything_else_that_is_out_of_range() {
    for (more, words) in [
        ("workers: @0", vec!["workers"]),
        ("workers: @1025", vec!["1025", "1024"]),
        ("synthesis: (workers: @0)", vec!["workers"]),
        ("synthesis: (ahead: @0)", vec!["ahead"]),
        ("limits: (refusals: @0)", vec!["refusals"]),
        ("limits: (stall: @\"0s\")", vec!["stall"]),
        ("faults: [DeviceLoss(device: @1, at: \"1s\")]", vec!["no device", "there are: 0"]),
        ("faults: [AllocationFailure(class: \"a\", probability: @1.5)]", vec!["1.5", "from 0 to 1"]),
        ("faults: [AllocationFailure(class: \"a\", probability: @NaN)]", vec!["NaN"]),
        ("faults: [AllocationFailure(class: @\"b\", probability: 0.5)]", vec!["\"b\""]),
        ("faults: [SlowTask(class: \"a\", probability: 0.5, factor: @-2.0)]", vec!["factor"]),
        ("faults: [SlowTask(class: @\"b\", probability: 0.5, factor: 2.0)]", vec!["\"b\""]),
    ] {
        refused(&with_more(more), &words);
    }
}

#[test]
fn what_is_no_scenario_says_where_it_stops_being_one() {
    for (text, line, word) in [
        (with_more("\n  sed: 1"), 7, "sed"),
        (with_class(&format!("{CLASS},\n\n  colour: 1")), 7, "colour"),
        (with_more("seed: -1"), 6, ""),
        ("(devices:".to_owned(), 1, ""),
        (String::new(), 1, ""),
        ("[]".to_owned(), 1, ""),
        (with_more("seed: 1, seed: 2"), 6, "seed"),
    ] {
        let error = Scenario::parse(&text, None).expect_err(&text);
        let message = error.to_string();
        assert_eq!(error.position.map(|position| position.line), Some(line), "{message}\n{text}");
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = Scenario::read("no/such/file.ron".as_ref()).expect_err("there is none");
    assert!(matches!(missing.fault, ScenarioFault::Unreadable(_)));
    assert!(missing.to_string().starts_with("no/such/file.ron: "), "{missing}");
}

#[test]
fn a_scenario_that_a_program_made_is_checked_too() {
    let mut scenario = Scenario::parse(&with_class(CLASS), None).expect("it is good");
    scenario.host.cores = Some(f64::NAN);
    let error = scenario.check().expect_err("no number of cores");
    assert!(
        error.position.is_none() && error.to_string().starts_with("NaN is no number of cores"),
        "{error}"
    );
}

#[test]
fn what_is_written_reads_back() {
    let everything = with_more(
        "seed: 7, host: (cores: 16, bandwidth: \"100GiB\"), workers: 3, synthesis: (workers: 4, ahead: 9), \
         faults: [SlowTask(class: \"a\", probability: 0.5, factor: 2.0), DeviceLoss(device: 0, at: \"1h\")], \
         limits: (refusals: 3, stall: \"2s\", starve: \"1min\")",
    )
    .replace("finish: (time: Constant(\"1s\"))", "finish: (time: Samples([\"1s\", \"2ms\"]), cores: 2, bandwidth: \"1KiB\"), \
         actual: (staged: \"5GiB\", extra: \"1\"), synthesis: (time: Normal(mean: \"1s\", sd: \"0.1s\")), inline: Uniform(min: \"1s\", max: \"2s\"), \
         verify: (time: Exponential(mean: \"3ms\")), fallback: (time: LogNormal(mean: \"9s\", sd: \"1s\")), \
         device_wide: (at: [Stage, Inline, Free], time: \"1ms\")");
    for text in [with_class(CLASS), everything] {
        let scenario = Scenario::parse(&text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let written = scenario.to_ron();
        let read = Scenario::parse(&written, None).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(read, scenario, "{written}");
    }
}

/// Whatever is done to a good scenario: an error or another scenario, never a panic.
#[test]
fn damaged_scenarios_are_errors_or_scenarios() {
    let good = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/two-lock-crash.ron"));
    let good = good.expect("it ships");
    let mut errors = 0;
    for (offset, letter) in good.char_indices() {
        let (before, after) = (&good[..offset], &good[offset + letter.len_utf8()..]);
        let damaged = [")", "\"", "-", "9", "x", "é", ""].map(|instead| format!("{before}{instead}{after}"));
        for text in damaged.iter().map(String::as_str).chain([before]) {
            if let Err(error) = Scenario::parse(text, None) {
                errors += 1;
                let place = error.position.unwrap_or_else(|| panic!("no place: {error}"));
                assert!(place.line <= text.lines().count().max(1) + 1, "{error}");
            }
        }
    }
    assert!(errors > 1_000, "{errors}");
}

#[test]
fn a_file_without_an_end_is_read_no_further_than_a_scenario_goes() {
    let error = Scenario::read(Path::new("/dev/zero")).expect_err("it is none");
    assert!(matches!(error.fault, ScenarioFault::TooLong), "{error}");
    assert_eq!(error.to_string(), "/dev/zero: longer than 16 MiB, which is the most that is read");
}
