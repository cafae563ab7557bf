//! `plugins.ron`: what is read, what is refused, and where the errors point.

use std::path::{Path, PathBuf};

use interlock_engine::host::{
    ByteSize, Config, ConfigError, ConfigFault, ControlSocket, CoreConfig, FALLBACK, Isolation, Limits,
    PolicyLibrary, Position, Verified,
};
use interlock_tests::libraries::library;

const FILE: &str = "conf/plugins.ron";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new(FILE))
}

/// The error, which must be at this line, between these columns.
fn refused(text: &str, line: usize, columns: std::ops::RangeInclusive<usize>) -> ConfigFault {
    let error = parse(text).expect_err(text);
    let position = error.position.expect("a text has places");
    assert!(position.line == line && columns.contains(&position.column), "{text}\n{error}");
    assert!(error.to_string().starts_with(&format!("{FILE}:{position}: ")), "{error}");
    error.fault
}

#[test]
fn everything_has_a_default() {
    for text in ["()", "Config()", "( /* nothing */ )"] {
        let config = parse(text).expect(text);
        assert_eq!(config, Config { file: Some(FILE.into()), ..Config::default() });
    }
    assert_eq!(Config::default().policy, FALLBACK);
    let config = parse("(policies: [(name: \"two-lock\")])").expect("a name is enough");
    assert_eq!(config.policy, "two-lock");
    assert_eq!(config.policies[0].library, PathBuf::from("libinterlock_two_lock.so"));
    assert_eq!(config.names(), ["two-lock", FALLBACK]);
}

#[test]
fn everything_can_be_said() {
    let pin = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let config = parse(&format!(
        r#"(
            policy: "mine",
            policies: [
                (name: "two-lock", library: "lib/two.so", options: (wait_ms: 5), isolation: Process),
                (name: "mine", sha256: "{pin}"),
                (name: "yours", sha256: Some("{pin}"), isolation: UnfilteredProcess),
            ],
            core: Cpu(memory: "4GiB", threads: 3),
            workers_per_device: 4,
            synthesis_workers: 2,
            verify_proofs: false,
            limits: (
                refusals: 1, stall_ms: 20, starve_ms: 30, decision_ms: 3, slow: 5, load_ms: 4, policy_memory: "1MiB",
            ),
            dumps: "state/dumps",
            policy_host: "bin/interlock",
            control: "run/engine.sock",
            trial_decisions: 7,
        )"#
    ))
    .expect("it is good");
    assert_eq!(config.policy, "mine");
    assert_eq!(config.policies[0].options.as_str(), "(wait_ms: 5)");
    assert_eq!(config.policies[0].position, Position { line: 4, column: 24 });
    assert_eq!(config.policies[1].sha256.map(|digest| digest.to_string()).as_deref(), Some(pin));
    assert_eq!(config.policies[2].sha256, config.policies[1].sha256);
    assert_eq!(config.core, CoreConfig::Cpu { memory: Some(ByteSize(4 << 30)), threads: 3 });
    assert_eq!((config.workers_per_device, config.synthesis_workers), (4, 2));
    let policy_memory = ByteSize(1 << 20);
    let limits = Limits {
        refusals: 1,
        stall_ms: 20,
        starve_ms: 30,
        decision_ms: 3,
        slow: 5,
        load_ms: 4,
        policy_memory,
    };
    assert_eq!((config.verify_proofs, config.limits), (false, limits));
    assert_eq!(
        config.policies.iter().map(|policy| policy.isolation).collect::<Vec<_>>(),
        [Isolation::Process, Isolation::InProcess, Isolation::UnfilteredProcess,]
    );
    assert_eq!(config.policy_host, Some("bin/interlock".into()));
    let socket = Path::new(FILE).parent().expect("it has one").join("run/engine.sock");
    assert_eq!((&config.control, config.trial_decisions), (&ControlSocket::At(socket), 7));
    assert_eq!(config.dumps, Some("state/dumps".into()));
    let folder = config.file.as_deref().and_then(Path::parent).expect("the file is in a folder");
    let dumps = config.dumps_folder().expect("it is configured");
    assert!(dumps.is_absolute() && dumps.ends_with(folder.join("state/dumps")), "{dumps:?}");
    assert_eq!(Config::default().dumps_folder(), None, "the usual one");
}

#[test]
fn the_control_socket_has_a_place_a_path_or_none() {
    for (text, expected) in [
        ("()", ControlSocket::Default),
        ("(control: None)", ControlSocket::Off),
        ("(control: \"/run/x.sock\")", ControlSocket::At("/run/x.sock".into())),
        ("(control: Some(\"/run/x.sock\"))", ControlSocket::At("/run/x.sock".into())),
    ] {
        assert_eq!(parse(text).expect(text).control, expected, "{text}");
    }
    for text in ["(control: \"\")", "(control: 5)", "(control: Auto)"] {
        parse(text).expect_err(text);
    }
}

#[test]
fn what_is_unknown_is_refused_where_it_stands() {
    let syntax = |fault| assert!(matches!(fault, ConfigFault::Syntax(_)), "{fault}");
    syntax(refused("(\n  polcy: \"x\")", 2, 3..=8));
    syntax(refused("(policies: [\n (name: \"a\", lib: \"b\")])", 2, 13..=16));
    syntax(refused("(limits: (\n refusal: 3))", 2, 2..=9));
    syntax(refused("(core: Cpu(\n memry: 1))", 2, 2..=7));
    syntax(refused("(core: Gpu())", 1, 8..=11));
    for (settings, words) in [
        ("devices: []", "no devices"),
        ("devices: [1, 0, 1]", "device 1 is there twice"),
        ("devices: [-1]", "out of bounds"),
        ("vram_limit: 0", "0 bytes"),
        ("key_memory: \"0GiB\"", "0 bytes"),
        ("srs: Streaming", "Streaming"),
        ("spare: 1", "spare"),
    ] {
        let error = parse(&format!("(core: Cuda({settings}))")).expect_err(settings).to_string();
        assert!(error.starts_with(FILE) && error.contains(words), "{settings}: {error}");
    }
}

#[test]
fn what_has_the_wrong_type_or_size_is_refused_where_it_stands() {
    for (text, columns) in [
        ("(workers_per_device: 0)", 21..=23),
        ("(workers_per_device: 1025)", 21..=26),
        ("(workers_per_device: -1)", 21..=24),
        ("(synthesis_workers: 0)", 20..=22),
        ("(synthesis_workers: 99999999999999999999)", 20..=41),
        ("(verify_proofs: 1)", 16..=18),
        ("(limits: (refusals: 0))", 20..=22),
        ("(limits: (stall_ms: 0))", 20..=22),
        ("(limits: (policy_memory: 0))", 25..=27),
        ("(dumps: \"\")", 9..=11),
        ("(core: Cpu(memory: \"4GB\"))", 19..=26),
        ("(core: Cpu(memory: -4))", 19..=23),
        ("(policy: two-lock)", 9..=18),
        ("(policy: 7)", 9..=11),
        ("(policies: [(library: \"x\")])", 13..=27),
        ("(policies: [(name: \"x\", sha256: \"abc\")])", 32..=39),
        ("(workers_per_device: 1, workers_per_device: 2)", 24..=44),
        ("(policies: [", 11..=13),
        ("(policy: \"x", 9..=12),
        ("() ()", 3..=5),
        ("", 1..=1),
    ] {
        assert!(matches!(refused(text, 1, columns), ConfigFault::Syntax(_)), "{text}");
    }
}

#[test]
fn a_name_stands_for_one_policy() {
    let text = "(policies: [\n  (name: \"a\"),\n  (name: \"b\"),\n  (name: \"a\"),\n])";
    let fault = refused(text, 4, 10..=10);
    let ConfigFault::DuplicatePolicy { name, first } = fault else { panic!("{fault}") };
    assert_eq!((name.as_str(), first), ("a", Position { line: 2, column: 10 }));
    for name in ["", "A", "a b", "../a", "é"] {
        let fault = refused(&format!("(policies: [(name: \"{name}\")])"), 1, 20..=20);
        assert!(matches!(fault, ConfigFault::BadName { .. }), "{fault}");
    }
}

#[test]
fn the_policy_in_use_must_be_there() {
    let fault = refused("(\n  policy: \"c\",\n  policies: [(name: \"a\"), (name: \"b\")],\n)", 2, 11..=11);
    let ConfigFault::UnknownPolicy { name, known } = fault else { panic!("{fault}") };
    assert_eq!((name.as_str(), known.as_slice()), ("c", &["a", "b", FALLBACK].map(String::from)[..]));
    assert!(parse(&format!("(policy: \"{FALLBACK}\", policies: [(name: \"a\")])")).is_ok());
}

#[test]
fn what_is_no_text_is_refused() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("plugins.ron");
    let read = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("the folder can be written");
        Config::read(&file).expect_err("it is no configuration").fault
    };
    assert!(matches!(read(b"\xff\xfe"), ConfigFault::NotText));
    assert!(matches!(read(&vec![b' '; (1 << 20) + 1]), ConfigFault::TooLong));
    assert!(matches!(read("(core: ".repeat(100_000).as_bytes()), ConfigFault::Syntax(_)));
    assert!(matches!(Config::read(folder.path()).expect_err("a folder").fault, ConfigFault::Unreadable(_)));
}

/// Options are looked at when the library is: errors still point into `plugins.ron`.
#[test]
fn options_are_refused_with_their_place_in_the_file() {
    let two_lock = library("two-lock");
    let config = |options: &str| {
        let text = format!(
            "(policies: [\n  (\n    name: \"two-lock\",\n    library: {two_lock:?},\n    options: {options},\n  ),\n])"
        );
        parse(&text).expect("options are not looked at yet")
    };
    let place = |options: &str| {
        let config = config(options);
        let error = Verified::configured(&config, &config.policies[0]).err().expect(options).to_string();
        let at = error.find(FILE).expect("the file is named");
        let place: Vec<usize> = error[at + FILE.len() + 1..]
            .splitn(3, ':')
            .take(2)
            .map(|n| n.parse().expect("a number"))
            .collect();
        (place[0], place[1])
    };
    assert!(Verified::configured(&config("(wait_ms: 7)"), &config("(wait_ms: 7)").policies[0]).is_ok());
    for (options, line, columns) in [
        ("(wait: 7)", 5, 14..=20),
        ("(wait_ms: -7)", 5, 23..=26),
        ("(\n      wait_ms: \"soon\",\n    )", 6, 15..=23),
        ("(\n      // no such thing\n      wait_ms: 7, tokens: 1,\n    )", 7, 18..=26),
    ] {
        let (found, column) = place(options);
        assert!(found == line && columns.contains(&column), "{options}: {found}:{column}");
    }
}

/// The repository's own `plugins.ron`: whole, every policy loads, and each option it shows has its default.
#[test]
fn the_repositorys_configuration_is_good() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins.ron");
    let config = Config::read(&file).expect("it is good");
    assert_eq!(config.policy, "two-lock");
    assert_eq!(config.names(), ["serialized-fallback", "single-lock", "two-lock", "vram-token"]);
    let built_in = Config::default();
    assert_eq!(config.core, built_in.core);
    assert_eq!(config.limits, built_in.limits);
    assert_eq!(config.workers_per_device, built_in.workers_per_device);
    for policy in &config.policies {
        let verified = Verified::file(&library(&policy.name), Some(&policy.name), None, &policy.options);
        let opened = PolicyLibrary::open(verified.expect("cargo built it")).expect("cargo built it");
        opened.instantiate().expect("its options are good");
        for option in &opened.manifest().options {
            let shown = format!("{}: {}", option.name, option.default);
            assert!(policy.options.as_str().contains(&shown), "plugins.ron should show `{shown}`");
        }
    }
}
