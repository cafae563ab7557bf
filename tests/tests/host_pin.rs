//! `interlock policy pin`: only the pin changes, whatever the file looks like; and the file is never in between.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use interlock_engine::host::{
    Config, LoadFault, OptionsText, Pin, PinError, Sha256, inspect, pins, with_pins, write_pins,
};
use interlock_tests::libraries::{changed, library};
use proptest::prelude::*;

const FILE: &str = "plugins.ron";

fn parse(text: &str) -> Config {
    Config::parse(text, Path::new(FILE)).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// What a configuration says, wherever it says it: each policy without its place and its pin.
fn says(config: &Config) -> String {
    let mut config = config.clone();
    let policies: Vec<String> = config
        .policies
        .drain(..)
        .map(|policy| {
            let (name, library, signature) = (policy.name, policy.library, policy.signature);
            format!("{name} {library:?} {signature:?} {} {}", policy.options.as_str(), policy.isolation)
        })
        .collect();
    format!("{policies:?} {config:?}")
}

/// The text without its pins and what separates them, to see that no other letter changed.
fn letters(text: &str, pins: &[Sha256]) -> String {
    let mut text = text.to_owned();
    for pin in pins {
        text = text.replace(&pin.to_string(), "").replace("sha256", "");
    }
    text.chars().filter(|letter| !letter.is_whitespace() && !matches!(letter, '"' | ':' | ',')).collect()
}

/// Blanks and comments of every kind, some that look like what they are not.
fn trivia() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just("/* a, (name: \"two\") */".to_owned()),
        1 => Just("/* é /* nested \" */ ) */".to_owned()),
        1 => Just("// sha256: \"x\", */ (\n".to_owned()),
        1 => Just("/**/".to_owned()),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// A string of RON, written in one of its ways.
fn string(text: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        Just(format!("{text:?}")),
        Just(format!("r#\"{text}\"#")),
        Just(format!("r\"{text}\"")),
        Just(text.chars().map(|letter| format!("\\u{{{:x}}}", u32::from(letter))).collect::<String>())
            .prop_map(|escaped| format!("\"{escaped}\"")),
    ]
}

/// An entry with its keys in any order, trivia anywhere, and perhaps an old pin.
fn entry(name: &'static str) -> impl Strategy<Value = String> {
    let old = Sha256::of(b"old").to_string();
    let pin = prop_oneof![
        Just(None),
        Just(Some(format!("\"{old}\""))),
        Just(Some(format!("Some(\"{}\")", old.to_uppercase()))),
        Just(Some(format!("r##\"{old}\"##"))),
    ];
    let optional = |value: &'static str| prop_oneof![Just(None), Just(Some(value.to_owned()))];
    let keys = (
        string(name),
        pin,
        optional("( // sha256: 1,\n x: \"(sha256: \\\"y\\\")\" )"),
        optional("\"a,)b.so\""),
        optional("Process"),
    );
    let keys = keys.prop_map(|(name, sha256, options, library, isolation)| {
        let keys = [
            ("name", Some(name)),
            ("sha256", sha256),
            ("options", options),
            ("library", library),
            ("isolation", isolation),
        ];
        keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect::<Vec<_>>()
    });
    let blanks = prop::collection::vec(trivia(), 24);
    (keys.prop_shuffle(), blanks, any::<bool>(), any::<bool>()).prop_map(|(keys, blanks, named, trailing)| {
        let mut blanks = blanks.into_iter();
        let mut blank = || blanks.next().unwrap_or_default();
        let mut text = format!("{}{}({}", if named { "Policy" } else { "" }, blank(), blank());
        let last = keys.len() - 1;
        for (index, (key, value)) in keys.into_iter().enumerate() {
            let comma = if index < last || trailing { "," } else { "" };
            text += &format!("{key}{}:{}{value}{}{comma}{}", blank(), blank(), blank(), blank());
        }
        text + ")"
    })
}

fn file() -> impl Strategy<Value = String> {
    let around = prop::collection::vec(trivia(), 8);
    let settings =
        prop_oneof![Just(""), Just("workers_per_device: 3, // (\n"), Just("limits: (refusals: 2),")];
    (entry("one"), entry("two"), entry("three"), around, settings, any::<bool>()).prop_map(
        |(one, two, three, blanks, settings, first)| {
            let [a, b, c, d, e, f, g, h] = &blanks[..] else { unreachable!("eight") };
            let (before, after) = if first { (settings, "") } else { ("", settings) };
            format!("{a}({b}{before}policies{c}:{d}[{one}{e},{two},{f}{three}{g}],{after}{h})")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_pin_changes_the_pin_alone(text in file(), which in prop::sample::subsequence(vec!["one", "two", "three"], 1..=3)) {
        let before = parse(&text);
        let wanted: Vec<(&str, Sha256)> = which.iter().map(|name| (*name, Sha256::of(name.as_bytes()))).collect();
        let after_text = with_pins(&text, Path::new(FILE), &wanted).expect(&text);
        let after = parse(&after_text);
        prop_assert_eq!(says(&before), says(&after));
        for (old, new) in before.policies.iter().zip(&after.policies) {
            let pinned = wanted.iter().find(|(name, _)| *name == old.name).map(|(_, sha256)| *sha256);
            prop_assert_eq!(new.sha256, pinned.or(old.sha256), "{}", after_text);
        }
        let all: Vec<Sha256> = wanted.iter().map(|(_, sha256)| *sha256).chain([Sha256::of(b"old")]).collect();
        let blind = |text: &str| letters(&text.replace(&all[all.len() - 1].to_string().to_uppercase(), &all[all.len() - 1].to_string()), &all);
        // A raw or wrapped old pin becomes a plain one.
        let plain = |text: &str| text.replace("Some()", "").replace("r####", "").replace("r##", "");
        prop_assert_eq!(plain(&blind(&text)), plain(&blind(&after_text)));
        // Once more changes nothing.
        prop_assert_eq!(with_pins(&after_text, Path::new(FILE), &wanted).expect("as before"), after_text);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ -~\n]{0,200}", at in 0_usize..200) {
        let _ = with_pins(&text, Path::new(FILE), &[("one", Sha256::of(b""))]);
        let good = "(policies: [(name: \"one\", /* x */ options: (a: r#\"b\"#)), (name: \"two\")])";
        let cut = &good[..at.min(good.len())];
        let _ = with_pins(&format!("{cut}{text}"), Path::new(FILE), &[("one", Sha256::of(b""))]);
    }
}

/// A folder with a configuration and two libraries beside it.
struct Bench {
    folder: tempfile::TempDir,
}

const TEXT: &str = "// Ours.\n(\n  policies: [\n    (\n      name: \"two-lock\", // fast\n    ),\n    (name: \"single-lock\"), /* slow */\n  ],\n)\n";

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for policy in ["two-lock", "single-lock"] {
            changed(policy, folder.path(), |_| ());
        }
        fs::write(folder.path().join(FILE), TEXT).expect("written");
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    fn config(&self) -> Config {
        Config::read(&self.file()).expect("it is good")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).expect("it is there")
    }

    fn pins(&self) -> Vec<Pin> {
        pins(&self.config(), None).expect("the libraries are good")
    }

    /// Nothing was written, and nothing is left beside the file.
    #[track_caller]
    fn assert_untouched(&self, text: &str) {
        assert_eq!(self.text(), text);
        let left = fs::read_dir(self.folder.path()).expect("a folder").count();
        assert_eq!(left, 3, "a configuration and two libraries");
    }
}

#[test]
fn pins_are_the_hashes_of_the_libraries_and_bind() {
    let bench = Bench::new();
    fs::set_permissions(bench.file(), fs::Permissions::from_mode(0o640)).expect("ours");
    let pins = bench.pins();
    for (pin, name) in pins.iter().zip(["two-lock", "single-lock"]) {
        let by_inspect = inspect(&library(name), &Config::default()).expect("it is good").sha256;
        assert_eq!((pin.policy.as_str(), pin.new, pin.old), (name, by_inspect, None));
    }
    write_pins(&bench.config(), &pins).expect("it can be written");
    let (two, single) = (pins[0].line(), pins[1].line());
    assert_eq!(
        bench.text(),
        TEXT.replace("// fast\n", &format!("// fast\n      {two},\n"))
            .replace("\"single-lock\")", &format!("\"single-lock\", {single})"))
    );
    assert_eq!(fs::metadata(bench.file()).expect("there").permissions().mode() & 0o7777, 0o640);
    // Another library is refused from now on, until it is pinned itself.
    changed("two-lock", bench.folder.path(), |bytes| bytes.extend_from_slice(b"more"));
    let status = format!("{:?}", interlock_engine::host::list(&bench.config())[0].status);
    assert!(status.contains("plugins.ron pins"), "{status}");
    let again = bench.pins();
    assert_eq!((again[0].old, again[1].old), (Some(pins[0].new), Some(pins[1].new)));
    assert_ne!(again[0].new, pins[0].new);
    write_pins(&bench.config(), &again).expect("it can be written");
    assert_eq!(bench.text().matches("sha256").count(), 2);
    assert_eq!(bench.config().policies[0].sha256, Some(again[0].new));
    // What is right already is not written again.
    let inode = || fs::metadata(bench.file()).expect("there").ino();
    let before = inode();
    write_pins(&bench.config(), &bench.pins()).expect("nothing to do");
    assert_eq!(inode(), before);
}

#[test]
fn a_link_to_the_file_is_followed() {
    let bench = Bench::new();
    let real = bench.folder.path().join("real.ron");
    fs::rename(bench.file(), &real).expect("moved");
    symlink("real.ron", bench.file()).expect("a link");
    write_pins(&bench.config(), &bench.pins()).expect("it can be written");
    assert!(fs::symlink_metadata(bench.file()).expect("there").is_symlink());
    assert_eq!(fs::read_to_string(&real).expect("there").matches("sha256").count(), 2);
}

#[test]
fn what_cannot_be_pinned_is_an_error() {
    let bench = Bench::new();
    let asked = |name: &str| pins(&bench.config(), Some(&[name.to_owned()])).expect_err(name);
    assert!(
        matches!(asked("three-lock"), PinError::Library(error) if matches!(error.fault, LoadFault::UnknownPolicy { .. }))
    );
    assert!(matches!(asked("serialized-fallback"), PinError::Linked { .. }));
    assert!(matches!(pins(&Config::default(), None), Err(PinError::NoConfig)));
    fs::set_permissions(
        bench.folder.path().join("libinterlock_two_lock.so"),
        fs::Permissions::from_mode(0o777),
    )
    .expect("ours");
    assert!(
        matches!(asked("two-lock"), PinError::Library(error) if matches!(error.fault, LoadFault::File(_))),
        "a pin makes no untrusted file a trusted one"
    );
    fs::remove_file(bench.folder.path().join("libinterlock_two_lock.so")).expect("there");
    let elsewhere = bench.folder.path().join("none/libinterlock_two_lock.so");
    let text = TEXT.replace("two-lock\",", &format!("two-lock\", library: {elsewhere:?},"));
    fs::write(bench.file(), text).expect("written");
    assert!(
        matches!(asked("two-lock"), PinError::Library(error) if matches!(error.fault, LoadFault::NotFound { .. }))
    );
    // One bad one, and none is pinned.
    assert!(pins(&bench.config(), None).is_err());
}

#[test]
fn a_pin_is_no_way_around_a_missing_signature_but_may_stand_in_for_one() {
    let bench = Bench::new();
    let with = |require: &str| {
        let text = TEXT.replace("(\n  policies", &format!("(\n  trust: (require: {require}),\n  policies"));
        fs::write(bench.file(), text).expect("written");
        pins(&bench.config(), None)
    };
    assert!(with("Signature").is_err());
    let pinned = with("PinOrSignature").expect("a pin will do");
    write_pins(&bench.config(), &pinned).expect("written");
    let list = interlock_engine::host::list(&bench.config());
    assert!(!format!("{list:?}").contains("Refused"), "{list:?}");
}

#[test]
fn a_file_that_was_changed_meanwhile_is_left_alone() {
    let bench = Bench::new();
    let (config, pins) = (bench.config(), bench.pins());
    let other = TEXT.replace("fast", "fast (a colleague's note)").replace("]", "], workers_per_device: 3");
    fs::write(bench.file(), &other).expect("written");
    assert!(matches!(write_pins(&config, &pins), Err(PinError::Changed { .. })));
    bench.assert_untouched(&other);
    fs::write(bench.file(), "(policies: [").expect("written");
    assert!(matches!(write_pins(&config, &pins), Err(PinError::Changed { .. })));
    bench.assert_untouched("(policies: [");
    fs::remove_file(bench.file()).expect("there");
    assert!(matches!(write_pins(&config, &pins), Err(PinError::Unwritable { .. })));
}

#[test]
fn a_file_that_is_read_only_is_left_alone() {
    let bench = Bench::new();
    fs::set_permissions(bench.file(), fs::Permissions::from_mode(0o444)).expect("ours");
    assert!(matches!(
        write_pins(&bench.config(), &bench.pins()),
        Err(PinError::ReadOnly { mode: 0o444, .. })
    ));
    bench.assert_untouched(TEXT);
}

#[test]
fn a_text_that_only_a_person_should_edit_is_left_alone() {
    let bench = Bench::new();
    let text = TEXT.replace("\"single-lock\"", "\"single-lock\", sha256: None");
    fs::write(bench.file(), &text).expect("written");
    assert!(
        matches!(write_pins(&bench.config(), &bench.pins()), Err(PinError::Text { policy, .. }) if policy == "single-lock")
    );
    bench.assert_untouched(&text);
}

/// Several at once: each either writes or says that somebody else does, and the file is whole at every moment.
#[test]
fn several_at_once_never_leave_half_a_file() {
    let bench = Bench::new();
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let config = bench.config();
                    match pins(&config, None).and_then(|pins| write_pins(&config, &pins)) {
                        Ok(()) => true,
                        Err(PinError::Changed { .. }) => false,
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        writers.into_iter().filter_map(|writer| writer.join().expect("no panic").then_some(())).count()
    });
    assert!(written > 0);
    assert_eq!(bench.text().matches("sha256").count(), 2);
    assert_eq!(bench.config().policies[0].options, OptionsText::default());
    assert_eq!(fs::read_dir(bench.folder.path()).expect("a folder").count(), 3);
}
