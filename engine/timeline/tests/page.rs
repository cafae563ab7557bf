//! The page in a real browser: its script runs without an error, and it shows the numbers that the file holds.
//!
//! It runs where Chromium or Chrome is installed; elsewhere the tests say that they were skipped, and pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use interlock_test_browser::{Browser, text_of};
use interlock_timeline::chart::{Chart, MOST_BARS};
use interlock_timeline::page::RunPage;
use interlock_timeline::{Activity, Actor, Timeline};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small.csv")
}

fn page(timeline: &Timeline) -> Vec<u8> {
    let mut html = Vec::new();
    RunPage::new(Path::new("small.csv"), timeline).write(&mut html).expect("written");
    html
}

/// The lines of a file, as the columns `at_ns`, `event`, `partition`, `stage`, `duration_ns`.
fn lines(text: &str) -> Vec<(u64, String, String, String, u64)> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let column = |name| header.iter().position(|field| field == name).expect("the column");
    let [at, event, partition, stage, duration] =
        ["at_ns", "event", "partition", "stage", "duration_ns"].map(column);
    let records = reader.records().map(|record| record.expect("a line"));
    let number = |text: &str| text.parse().unwrap_or(0);
    records
        .map(|line| {
            let text = |index: usize| line[index].to_owned();
            (number(&line[at]), text(event), text(partition), text(stage), number(&line[duration]))
        })
        .collect()
}

#[test]
fn the_page_shows_the_numbers_of_the_file() {
    let Some(browser) = Browser::find() else { return };
    let text = fs::read_to_string(fixture()).expect("it is there");
    let timeline = Timeline::open(&fixture()).expect("it is one");
    let dom = browser.open("page.html", &page(&timeline));

    // Counted here from the lines of the file.
    let lines = lines(&text);
    let of = |event: &'static str| lines.iter().filter(move |line| line.1 == event);
    let proofs = of("verified").count();
    assert_eq!(text_of(&dom, "proofs"), proofs.to_string());
    let begun = of("submitted").next().expect("a job").0;
    let ended = lines.iter().map(|line| line.0).max().expect("lines");
    assert_eq!(text_of(&dom, "rate"), format!("{:.2}", proofs as f64 / ((ended - begun) as f64 / 1e9)));
    let synthesis: BTreeMap<&str, u64> =
        of("synthesized").map(|line| (line.2.as_str(), line.0 - line.4)).collect();
    let mut latencies: Vec<u64> = of("verified").map(|line| line.0 - synthesis[line.2.as_str()]).collect();
    latencies.sort_unstable();
    // Of six, the sixth is the first that 95 of 100 do not exceed.
    assert_eq!(text_of(&dom, "latency"), format!("{:.2} s", *latencies.last().expect("some") as f64 / 1e9));
    // One at a time is in Compute: the sum of all is the union.
    let entered = of("entered").filter(|line| line.3 == "Compute").map(|line| line.0).sum::<u64>();
    let computed = of("ended").filter(|line| line.3 == "Compute").map(|line| line.0).sum::<u64>() - entered;
    let share = computed as f64 / (ended - begun) as f64;
    assert_eq!(text_of(&dom, "busy"), format!("{:.1} %", share * 100.0));

    let bars = Chart::of(&timeline).bars();
    assert!(dom.contains(&format!("data-bars=\"{bars}\"")), "not {bars} bars");
}

/// Text of a file that would like to be more than text.
#[test]
fn nothing_in_a_file_becomes_part_of_the_page() {
    let Some(browser) = Browser::find() else { return };
    let hostile =
        "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>";
    let text = fs::read_to_string(fixture()).expect("it is there");
    let text = text.replace("host memory", hostile).replace("two-lock", hostile).replace("mem", "<b>m</b>");
    let lost = format!("9999999999,device_lost,cpu,0,,,,,,,,,{hostile},,,,\n");
    let timeline = Timeline::read(Path::new("x.csv"), (text + &lost).as_bytes()).expect("it is one");
    assert_eq!(timeline.devices[0].policy.as_deref(), Some(hostile));
    let dom = browser.open("hostile.html", &page(&timeline));
    let title = &dom[dom.find("<title>").expect("a title")..];
    assert!(title.starts_with("<title>6 proofs under &lt;/script&gt;"), "{}", &title[..80]);
    assert!(!dom.contains("<img") && !dom.contains("<b>m"));
    assert!(dom.contains("data-bars="));
}

/// The page fits the width of a phone: tables scroll by themselves.
#[test]
fn the_page_is_as_wide_as_its_screen() {
    let Some(browser) = Browser::find() else { return };
    let html = String::from_utf8(page(&Timeline::open(&fixture()).expect("it is one"))).expect("text");
    let quoted = html.replace('&', "&amp;").replace('"', "&quot;");
    for width in [390, 1280] {
        let frame = format!(
            "<iframe id=\"f\" style=\"border:0\" width=\"{width}\" height=\"900\" srcdoc=\"{quoted}\"></iframe>
             <script>onload = () => setTimeout(() => {{
               const inner = document.getElementById('f').contentDocument;
               const over = inner.documentElement.scrollWidth - inner.documentElement.clientWidth, bars = inner.querySelector('.chart').dataset.bars;
               document.title = `over ${{over}}, bars ${{bars > 0}}`;
             }}, 500)</script>"
        );
        let dom = browser.open(&format!("frame-{width}.html"), frame.as_bytes());
        assert!(dom.contains("<title>over 0, bars true</title>"), "{width}: {}", &dom[..200]);
    }
}

/// Whoever cannot point at a span walks to it, and is told what it is.
#[test]
fn the_chart_is_walked_with_the_keyboard() {
    let Some(browser) = Browser::find() else { return };
    let timeline = Timeline::open(&fixture()).expect("it is one");
    let html = String::from_utf8(page(&timeline)).expect("text");
    let press = "<script>
        const chart = document.querySelector('.chart canvas[tabindex]');
        for (const key of ['ArrowRight', 'ArrowDown', 'ArrowRight', '+', '+', '-', '0'])
            chart.dispatchEvent(new KeyboardEvent('keydown', { key }));
        </script></body>";
    let dom = browser.open("keys.html", html.replace("</body>", press).as_bytes());
    let said = &dom[dom.find("class=\"said\"").expect("it is there")..];
    let said = &said[said.find('>').expect("an end") + 1..said.find('<').expect("an end")];

    // The first span of worker 0 after the first synthesis began, and then the next one.
    let worker = Actor::Device { device: 0, worker: 0 };
    let of_worker = timeline.spans.iter().filter(|span| span.actor == worker);
    let mut lane: Vec<_> = of_worker.filter(|span| !matches!(span.activity, Activity::Hold(_))).collect();
    lane.sort_by_key(|span| (span.begin_ns, span.end_ns));
    let name = match lane[1].activity {
        Activity::Wait(stage) => format!("waits for {stage}"),
        other => timeline.activity_name(other),
    };
    let took = interlock_settings::units::time(lane[1].length_ns());
    assert!(said.starts_with(&format!("worker 0: {name} – job 1, partition ")), "{said}");
    assert!(said.contains(&format!(" for {took}")), "{said}, not {took}");
}

/// A run of so many tasks that their spans are put together before they are written.
#[test]
fn a_long_run_keeps_its_page_small() {
    let mut text =
        "at_ns,event,core,device,worker,job,partition,task,stage,duration_ns,bytes,locks,detail\n".to_owned();
    let tasks = 80_000_u64;
    for task in 0..tasks {
        let mut at_ns = task * 1_000;
        let mut line = |event: &str, stage: &str, took: &str| {
            text += &format!("{at_ns},{event},cpu,0,0,1,{task},{task},{stage},{took},,,\n");
            at_ns += 100;
        };
        line("arrived", "", "");
        for stage in ["Prepare", "Stage", "Compute", "Finish"] {
            line("entered", stage, "0");
            line("ended", stage, "100");
        }
        line("left", "", "");
    }
    let timeline = Timeline::read(Path::new("long.csv"), text.as_bytes()).expect("it is one");
    assert!(timeline.spans.len() as u64 == 4 * tasks && timeline.spans.len() > MOST_BARS);
    let chart = Chart::of(&timeline);
    assert!(chart.bars() <= MOST_BARS);
    let together: u64 = chart.groups[0].lanes[0].bars.iter().map(|bar| u64::from(bar.count)).sum();
    assert_eq!(together, timeline.spans.len() as u64);
}
