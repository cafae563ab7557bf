//! `interlock ab`: figures, verdicts, exit codes.

use interlock_test_browser::{Browser, text_of};
use serde_json::Value;

use super::running::{entry, write_config};
use super::support::{MULTIPLIER, POLICIES, Workbench, stderr};

fn bench(faulty: &str) -> Workbench {
    let bench = Workbench::new().with_multiplier();
    let mut entries: Vec<_> = POLICIES.iter().map(|name| entry(name, "")).collect();
    entries.push(entry("faulty", faulty));
    write_config(&bench, "", &entries);
    bench
}

/// Enough jobs for runs that are long enough, on any machine that is not far faster than today's.
const LOAD: [&str; 4] = ["-c", "120", "--rounds", "2"];

fn ab<'a>(policies: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["ab", "--policies", policies], &MULTIPLIER[..], &LOAD, more].concat()
}

#[test]
fn the_report_has_the_figures_of_each_arm_and_what_they_come_to() {
    let bench = bench("");
    let arms = "two-lock,vram-token(compute_permits: 1)";
    let output = bench.succeed(&ab(arms, &["--json", "--csv", "runs.csv", "--workers", "1,2"]));
    let report: Value = serde_json::from_str(&output).expect("it is JSON");
    assert_eq!(report["schema"], 1);
    let arms = report["arms"].as_array().expect("a list");
    let told: Vec<_> = arms
        .iter()
        .map(|arm| (arm["arm"].as_str(), arm["policy"].as_str(), arm["workers"].as_u64()))
        .collect();
    let expected =
        [("A", "two-lock", 1), ("B", "vram-token", 1), ("C", "two-lock", 2), ("D", "vram-token", 2)];
    assert_eq!(told, expected.map(|(arm, policy, workers)| (Some(arm), Some(policy), Some(workers))));
    assert_eq!(arms[1]["options"], "(compute_permits: 1)");
    for arm in arms {
        assert_eq!(arm["failed"], Value::Null);
        let rounds = arm["rounds"].as_array().expect("a list");
        assert_eq!(rounds.len(), 2);
        let mean: f64 = rounds.iter().filter_map(|round| round["proofs_per_s"].as_f64()).sum::<f64>() / 2.0;
        assert!((mean / arm["figures"]["proofs_per_s"].as_f64().expect("a number") - 1.0).abs() < 1e-9);
    }
    let comparisons = report["comparisons"].as_array().expect("a list");
    assert_eq!(comparisons.len(), 9, "three arms against A, by three figures");
    for comparison in comparisons {
        assert_eq!(comparison["baseline"], "A");
        assert!(
            ["better", "worse", "no_difference"].contains(&comparison["verdict"].as_str().expect("a word"))
        );
    }
    assert_eq!(report["verdict"], comparisons[0]["verdict"]);
    let lines = std::fs::read_to_string(bench.path("runs.csv")).expect("it was written");
    assert_eq!(lines.lines().count(), 1 + 4 * 2);
}

#[test]
fn conditions_decide_the_exit_code() {
    let bench = bench("");
    let holds = bench
        .run(&ab("two-lock,two-lock", &["--fail-if", "B.proofs_per_s > 0.0", "--fail-if", "B.skips > 1e9"]));
    assert_eq!(holds.status.code(), Some(7), "{}", stderr(&holds));
    let text = String::from_utf8_lossy(&holds.stdout).into_owned();
    assert!(text.contains("fail if B.proofs_per_s > 0.0: holds"), "{text}");
    assert!(text.contains("fail if B.skips > 1e9: does not hold"), "{text}");
}

#[test]
fn an_arm_that_fails_is_told_and_the_others_are_kept() {
    let bench = bench("(verdict: \"unknown\")");
    let output = bench.run(&ab("two-lock,faulty,single-lock", &["--json"]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(report["arms"][1]["failed"].as_str().expect("why").contains("quarantined"));
    assert_eq!(report["comparisons"][0]["candidate"], "C");
    assert_eq!(report["comparisons"][0]["rounds"], 2);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let bench = bench("");
    for (policies, more, code, says) in [
        ("two-lock", &[][..], 2, "one arm only"),
        ("two-lock,none", &[], 4, "no policy is named \"none\""),
        ("two-lock,vram-token(permits: 1)", &[], 4, "unknown option `permits`"),
        ("two-lock,vram-token(", &[], 2, "parentheses"),
        ("two-lock,", &[], 2, "a name is missing"),
        ("two-lock,two-lock", &["--fail-if", "C.proofs_per_s < 1.0"], 2, "C"),
        ("two-lock,two-lock", &["--fail-if", "B.proofs_per_s <"], 2, "no condition"),
        ("two-lock,two-lock", &["--detect", "0"], 2, "percentage"),
        ("two-lock,two-lock", &["--rate=-1"], 2, "rate"),
        ("two-lock,two-lock", &["--vram-limit", "1potato"], 2, "no size"),
        ("two-lock,single-lock", &["--workers", "1,1"], 2, "--workers: 1 is given twice"),
        ("two-lock,single-lock", &["--html", "mul.r1cs"], 2, "an input too"),
        ("two-lock,single-lock", &["--csv", "mul.zkey"], 2, "an input too"),
        ("two-lock,single-lock", &["--html", "plugins.ron"], 2, "an input too"),
        ("two-lock,single-lock", &["--html", "out", "--csv", "./out"], 2, "another output too"),
        ("two-lock,single-lock", &["--html", "/proc/page.html"], 5, "/proc/page.html"),
        ("two-lock,single-lock", &["--budget", "1ms"], 2, "the time was over in round 1"),
    ] {
        let output = bench.run(&ab(policies, more));
        assert_eq!(output.status.code(), Some(code), "{policies} {more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{policies} {more:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_limit_that_no_task_fits_takes_its_arms_out() {
    let bench = bench("");
    let output = bench.run(&ab("two-lock,single-lock", &["--vram-limit", "1KiB"]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the engine took no job"), "{}", stderr(&output));
}

/// Three significant digits, as the page has them.
fn close(shown: &str, exact: &Value) -> bool {
    let (shown, exact): (f64, f64) = (shown.parse().expect(shown), exact.as_f64().expect("a number"));
    (shown / exact - 1.0).abs() < 6e-3
}

#[test]
fn the_page_shows_the_numbers_of_the_json() {
    let Some(browser) = Browser::find() else { return };
    let bench = bench("");
    let output = bench.succeed(&ab("two-lock,single-lock", &["--json", "--html", "page.html"]));
    let report: Value = serde_json::from_str(&output).expect("it is JSON");
    let html = std::fs::read(bench.path("page.html")).expect("it was written");
    // The browser itself would refuse to load anything, and say so on the console.
    assert!(String::from_utf8_lossy(&html).contains("default-src 'none'"), "it needs no network");
    let dom = browser.open("page.html", &html);
    let embedded: Value = serde_json::from_str(text_of(&dom, "experiment")).expect("it is JSON");
    assert_eq!(embedded, report);
    for (letter, arm) in ["A", "B"].into_iter().zip(report["arms"].as_array().expect("a list")) {
        assert!(close(text_of(&dom, &format!("{letter}-proofs_per_s")), &arm["figures"]["proofs_per_s"]));
    }
    let comparison = &report["comparisons"][0];
    assert!(close(text_of(&dom, "proofs_per_s-B-A"), &comparison["ratio"]["estimate"]));
    let words = [
        ("better", "B is better than A"),
        ("worse", "B is worse than A"),
        ("no_difference", "No difference seen"),
    ];
    for (verdict, word) in words {
        assert_eq!(dom.contains(word), comparison["verdict"] == verdict, "{word}");
    }
}

#[test]
fn saved_reports_are_compared_unless_they_are_about_something_else() {
    let bench = bench("");
    let first = bench.succeed(&ab("two-lock,single-lock", &["--json"]));
    bench.write("first.json", &first);
    let compared = bench.succeed(&["report", "--compare", "first.json", "first.json", "--json"]);
    let compared: Value = serde_json::from_str(&compared).expect("it is JSON");
    let comparisons = compared["comparisons"].as_array().expect("a list");
    assert_eq!(comparisons.len(), 6, "two arms by three figures");
    for comparison in comparisons {
        assert_eq!(
            (&comparison["verdict"], comparison["ratio"]["estimate"].as_f64()),
            (&Value::from("no_difference"), Some(1.0))
        );
    }
    for (field, value) in [("machine", "processor"), ("work", "fingerprint")] {
        let mut other: Value = serde_json::from_str(&first).expect("it is JSON");
        other[field][value] = "another".into();
        bench.write("other.json", other.to_string());
        let refused = bench.run(&["report", "--compare", "first.json", "other.json"]);
        assert_eq!(refused.status.code(), Some(3), "{field}");
        assert!(
            stderr(&refused).contains("another") && stderr(&refused).contains("--anyway"),
            "{}",
            stderr(&refused)
        );
        let anyway = bench.succeed(&["report", "--compare", "first.json", "other.json", "--anyway"]);
        assert!(anyway.contains("NOT THE SAME"), "{anyway}");
    }
    let mut other: Value = serde_json::from_str(&first).expect("it is JSON");
    other["arms"][1]["workers"] = 9.into();
    bench.write("other.json", other.to_string());
    let text = bench.succeed(&["report", "--compare", "first.json", "other.json"]);
    assert!(
        text.contains("B of the first: single-lock") && text.contains("B of the second: single-lock"),
        "{text}"
    );
    bench.write("bad.json", "{}");
    for bad in ["bad.json", "none.json"] {
        let refused = bench.run(&["report", "--compare", "first.json", bad]);
        assert_eq!(refused.status.code(), Some(3), "{bad}");
        assert!(stderr(&refused).contains(bad), "{}", stderr(&refused));
    }
}

#[test]
fn a_bad_witness_is_named() {
    let bench = bench("");
    bench.write("bad.wtns", "wtns");
    let policies = ["ab", "--policies", "two-lock,single-lock"];
    let output = bench.run(&[&policies[..], &MULTIPLIER, &["bad.wtns"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("bad has no proof") && stderr(&output).contains("bad.wtns"),
        "{}",
        stderr(&output)
    );
}
