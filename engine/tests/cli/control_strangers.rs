//! Clients that mean no good, or do not know better: the engine goes on, and others are served.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use serde_json::Value;

use super::running::{Running, bench, json};

const ABOUT: &[u8] = b"{\"interlock\":1,\"ask\":\"about\"}\n";
const STATS: &[u8] = b"{\"interlock\":1,\"ask\":\"stats\"}\n";

/// Sends bytes and reads what comes back, as far as the other side lets it.
fn say(engine: &Running<'_>, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(engine.socket()).expect("it listens");
    // It may have hung up before the last byte.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

fn code(answer: &str) -> Value {
    serde_json::from_str::<Value>(answer).expect("one line")["answer"]["refused"]["code"].clone()
}

#[test]
fn garbage_is_told_so_and_costs_nothing() {
    const PARTITIONS: usize = 1_500;
    let bench = bench("", "");
    let engine = Running::listening(&bench, "run", PARTITIONS, &[]);
    for line in ["\n", "{}\n", "[1,2]\n", "hello\n", "{\"interlock\":1,\"ask\":\"halt\"}\n", "\u{fffd}\0\n"] {
        assert_eq!(code(&say(&engine, line.as_bytes())), "malformed", "{line}");
    }
    assert_eq!(code(&say(&engine, b"{\"interlock\":99,\"ask\":\"about\"}\n")), "version");
    assert_eq!(say(&engine, &[b'['; 4_000]), "", "half a line is no request");
    assert_eq!(code(&say(&engine, &[b'['; 4_096 * 100])), "malformed");
    let deep = ["{\"interlock\":1,\"ask\":", &"[".repeat(3_000), "\n"].concat();
    assert_eq!(code(&say(&engine, deep.as_bytes())), "malformed");
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    for length in [1, 10, 100, 1_000, 4_097, 100_000] {
        let mut bytes = vec![0; length];
        rng.fill_bytes(&mut bytes);
        say(&engine, &bytes);
    }
    assert!(bench.run(&["policy", "stats"]).status.success(), "it still serves");
    let report = engine.ended();
    assert_eq!((&report["proofs"], &report["failed"]), (&PARTITIONS.into(), &0.into()));
}

#[test]
fn many_clients_at_once_are_told_to_come_again() {
    let bench = bench("", "");
    let engine = Running::listening(&bench, "run", super::running::MANY, &[]);
    // They say nothing and take all places.
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(engine.socket()).expect("it listens")).collect();
    let mut busy = 0;
    for stream in &idle[16..] {
        let mut line = String::new();
        match BufReader::new(stream).read_line(&mut line) {
            Ok(read) if read > 0 && code(&line) == "busy" => busy += 1,
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert!(busy > 0, "some were turned away");
    drop(idle);
    let mut engine = engine;
    engine.until(|_| bench.run(&["policy", "stats"]).status.success());
    engine.stop();
}

#[test]
fn a_flood_of_connections_leaves_every_proof() {
    const PARTITIONS: usize = 600;
    let bench = bench("", "");
    let mut engine = Running::listening(&bench, "run", PARTITIONS, &[]);
    for _ in 0..500 {
        // The line of those who wait may be full.
        drop(UnixStream::connect(engine.socket()));
    }
    engine.until(|engine| say(engine, ABOUT).contains("\"about\""));
    assert_eq!(engine.ended()["proofs"], PARTITIONS);
}

#[test]
fn clients_that_do_not_read_or_stay_silent_do_not_hold_up_the_end() {
    let bench = bench("", "");
    let engine = Running::listening(&bench, "run", super::running::MANY, &[]);
    let mut clients: Vec<_> =
        (0..8).map(|_| UnixStream::connect(engine.socket()).expect("it listens")).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        match index % 3 {
            // Asks and does not read.
            0 => client.write_all(STATS).expect("it fits"),
            // Half a line.
            1 => client.write_all(&STATS[..10]).expect("it fits"),
            _ => {}
        }
    }
    let report = engine.stop();
    assert!(report["proofs"].as_u64() > Some(0));
    // Whoever asked finds the answer.
    let mut line = String::new();
    BufReader::new(&clients[0]).read_line(&mut line).expect("it was written");
    assert!(line.contains("\"stats\""), "{line}");
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_a_switch_leaves_the_switch() {
    let bench = bench("trial_decisions: 30,", "");
    let mut engine = Running::listening(&bench, "run", super::running::MANY, &[]);
    let mut client = UnixStream::connect(engine.socket()).expect("it listens");
    client
        .write_all(b"{\"interlock\":1,\"ask\":{\"use\":{\"policy\":\"single-lock\",\"wait_ms\":600000}}}\n")
        .expect("it fits");
    drop(client);
    let last = || json(&bench.run(&["policy", "stats", "--json"]))["last_switch"].clone();
    engine.until(|_| last()["phase"]["phase"] == "passed");
    assert_eq!(engine.stop()["devices"][0]["policy"], "single-lock");
}

#[test]
fn clients_that_ask_at_once_are_served_one_after_the_other() {
    let bench = bench("", "");
    let engine = Running::listening(&bench, "run", super::running::MANY, &[]);
    let clients: Vec<_> = (0..8)
        .map(|index| {
            let policy = ["single-lock", "vram-token"][index % 2];
            let mut client = bench.command(&["policy", "use", policy, "--wait", "0", "--json"]);
            client.stdout(std::process::Stdio::piped()).spawn().expect("starts")
        })
        .collect();
    let mut numbers: Vec<_> = clients
        .into_iter()
        .map(|client| json(&client.wait_with_output().expect("ends"))["switch"]["number"].as_u64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8).map(Some).collect::<Vec<_>>(), "each has a switch of its own");
    let report = engine.stop();
    assert_eq!(report["devices"][0]["counters"]["failed"], 0);
}
