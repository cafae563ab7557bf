//! `trust: (…)`: what libraries have to show, each way to be refused, and what it takes to pass.
//!
//! Signatures are made by the `minisign` crate, verified by the engine's own.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use interlock_engine::host::{
    Config, CoreConfig, CoreLibraryError, EvidenceError, FileError, KeyFileError, LoadError, LoadFault,
    PolicyStatus, SignatureError, SignatureStatus, Verified, inspect, list, open_cuda_core,
};
use interlock_tests::libraries::changed;
use minisign::KeyPair;

const COMMENT: &str = "two-lock 0.1.0, reviewed";

/// A folder with a copy of two-lock and a key.
struct Bench {
    folder: tempfile::TempDir,
    library: PathBuf,
    key: KeyPair,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let library = changed("two-lock", folder.path(), |_| ());
        Self { folder, library, key: key() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signature(&self) -> PathBuf {
        let mut name = self.library.clone().into_os_string();
        name.push(".minisig");
        name.into()
    }

    fn sign(&self) {
        fs::write(self.signature(), signed(&self.key, &self.library)).expect("written");
    }

    /// A configuration with these parts of `trust` and of the policy's entry.
    fn config(&self, trust: &str, entry: &str) -> Config {
        let text = format!(
            "(trust: ({trust}), policies: [(name: \"two-lock\", library: {:?}, {entry})])",
            self.library
        );
        Config::parse(&text, &self.path("plugins.ron")).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn verified(&self, trust: &str, entry: &str) -> Result<Verified, LoadError> {
        let config = self.config(trust, entry);
        Verified::configured(&config, &config.policies[0])
    }

    #[track_caller]
    fn refused(&self, trust: &str, entry: &str) -> LoadFault {
        let error = self.verified(trust, entry).err().expect("it must be refused");
        assert!(error.to_string().contains("libinterlock_two_lock.so"), "{error}");
        error.fault
    }

    #[track_caller]
    fn refused_signature(&self, trust: &str, entry: &str) -> SignatureError {
        match self.refused(trust, entry) {
            LoadFault::Evidence(EvidenceError::Signature(error)) => error,
            other => panic!("{other}"),
        }
    }

    fn keys(&self) -> String {
        format!("keys: [{:?}]", self.key.pk.to_base64())
    }

    fn pin(&self) -> String {
        let sha256 = inspect(&self.library, &Config::default()).expect("it is good").sha256;
        format!("sha256: \"{sha256}\"")
    }
}

fn key() -> KeyPair {
    KeyPair::generate_unencrypted_keypair().expect("a key")
}

fn signed(key: &KeyPair, file: &Path) -> String {
    let bytes = fs::read(file).expect("it is there");
    minisign::sign(None, &key.sk, Cursor::new(bytes), Some(COMMENT), None).expect("signed").into_string()
}

#[test]
fn a_signed_library_passes_and_its_comment_is_told() {
    let bench = Bench::new();
    bench.sign();
    let verified = bench.verified(&bench.keys(), "").expect("it is signed");
    assert_eq!(verified.signed().expect("it was checked").comment, COMMENT);
    let config = bench.config(&bench.keys(), &bench.pin());
    let PolicyStatus::Ready { signed: Some(signed), pinned: true, .. } = &list(&config)[0].status else {
        panic!("{:?}", list(&config)[0]);
    };
    assert_eq!(signed.comment, COMMENT);
    let SignatureStatus::Holds(by_inspect) = inspect(&bench.library, &config).expect("it is good").signature
    else {
        panic!("it holds");
    };
    assert_eq!(&by_inspect, signed);
}

#[test]
fn a_signature_may_be_elsewhere_and_a_key_in_a_file() {
    let bench = Bench::new();
    fs::create_dir(bench.path("conf")).expect("a folder");
    fs::write(bench.path("conf/two.sig"), signed(&bench.key, &bench.library)).expect("written");
    let key = bench.key.pk.to_box().expect("a key").into_string();
    fs::write(bench.path("conf/ops.pub"), key).expect("written");
    let (keys, entry) = ("keys: [\"conf/ops.pub\"]", "signature: \"conf/two.sig\"");
    assert!(bench.verified(keys, entry).is_ok(), "{:?}", bench.verified(keys, entry).err());
    let gone = bench.refused_signature(keys, "signature: \"conf/gone.sig\"");
    assert!(matches!(&gone, SignatureError::Missing { file } if file.ends_with("conf/gone.sig")), "{gone}");
    // Whoever may write the key may sign.
    fs::set_permissions(bench.path("conf/ops.pub"), fs::Permissions::from_mode(0o666)).expect("ours");
    let refused = bench.refused_signature(keys, entry);
    let fault = KeyFileError::File(FileError::WritableByOthers { mode: 0o666 });
    assert!(
        matches!(&refused, SignatureError::KeyFile { fault: found, .. } if found.to_string() == fault.to_string()),
        "{refused}"
    );
    for text in ["", "untrusted comment: x\nRWnothing\n", "RW"] {
        fs::write(bench.path("conf/bad.pub"), text).expect("written");
        let refused = bench.refused_signature("keys: [\"conf/bad.pub\"]", entry);
        assert!(
            matches!(refused, SignatureError::KeyFile { fault: KeyFileError::Malformed, .. }),
            "{text}: {refused}"
        );
    }
    let refused = bench.refused_signature("keys: [\"gone.pub\"]", entry);
    assert!(matches!(
        refused,
        SignatureError::KeyFile { fault: KeyFileError::File(FileError::Unreadable(_)), .. }
    ));
}

#[test]
fn a_library_that_is_not_signed() {
    let bench = Bench::new();
    let refused = bench.refused_signature(&bench.keys(), "");
    assert!(
        matches!(&refused, SignatureError::Missing { file } if *file == fs::canonicalize(bench.folder.path()).expect("there").join("libinterlock_two_lock.so.minisig")),
        "{refused}"
    );
    // A pin alone is not what was asked for.
    assert!(matches!(bench.refused_signature(&bench.keys(), &bench.pin()), SignatureError::Missing { .. }));
    assert!(bench.verified(&format!("{}, require: Nothing", bench.keys()), "").is_ok());
}

#[test]
fn a_signature_by_another_key() {
    let bench = Bench::new();
    fs::write(bench.signature(), signed(&key(), &bench.library)).expect("written");
    let refused = bench.refused_signature(&bench.keys(), "");
    assert!(matches!(refused, SignatureError::UnknownKey { .. }), "{refused}");
    let own = key();
    let both = format!("keys: [{:?}, {:?}]", own.pk.to_base64(), bench.key.pk.to_base64());
    assert!(matches!(bench.refused_signature(&both, ""), SignatureError::UnknownKey { .. }));
    bench.sign();
    assert!(bench.verified(&both, "").is_ok(), "one of the keys is enough");
}

#[test]
fn a_library_or_a_comment_that_was_changed_after_signing() {
    let bench = Bench::new();
    bench.sign();
    let signature = fs::read_to_string(bench.signature()).expect("written");
    fs::write(bench.signature(), signature.replace("reviewed", "rejected")).expect("written");
    assert!(matches!(bench.refused_signature(&bench.keys(), ""), SignatureError::Altered { .. }));
    bench.sign();
    let mut bytes = fs::read(&bench.library).expect("there");
    *bytes.last_mut().expect("it has bytes") ^= 1;
    fs::write(&bench.library, bytes).expect("written");
    let refused = bench.refused_signature(&bench.keys(), "");
    assert!(matches!(refused, SignatureError::Altered { .. }), "{refused}");
    // What is there is checked, whether it has to be or not.
    let not_required = format!("{}, require: Nothing", bench.keys());
    assert!(matches!(bench.refused_signature(&not_required, ""), SignatureError::Altered { .. }));
    let status =
        inspect(&bench.library, &bench.config(&bench.keys(), "")).expect("still a library").signature;
    assert!(matches!(status, SignatureStatus::Refused { .. }), "{status:?}");
}

#[test]
fn a_signature_that_is_none() {
    let bench = Bench::new();
    for text in
        [&b""[..], b"untrusted comment: x\nRUQ\ntrusted comment: y\nz\n", b"\xff\xfe", &[b'x'; 20_000]]
    {
        fs::write(bench.signature(), text).expect("written");
        let refused = bench.refused_signature(&bench.keys(), "");
        assert!(matches!(refused, SignatureError::Malformed { .. }), "{refused}");
    }
    fs::remove_file(bench.signature()).expect("there");
    fs::create_dir(bench.signature()).expect("a folder");
    assert!(matches!(bench.refused_signature(&bench.keys(), ""), SignatureError::Malformed { .. }));
}

#[test]
fn a_pin_and_a_signature_must_both_hold() {
    let bench = Bench::new();
    bench.sign();
    assert!(bench.verified(&bench.keys(), &bench.pin()).is_ok());
    let wrong = format!("sha256: \"{}\"", "0".repeat(64));
    let fault = bench.refused(&bench.keys(), &wrong);
    assert!(matches!(fault, LoadFault::Evidence(EvidenceError::WrongHash { .. })), "{fault}");
    fs::write(bench.signature(), signed(&key(), &bench.library)).expect("written");
    assert!(matches!(
        bench.refused_signature(&bench.keys(), &bench.pin()),
        SignatureError::UnknownKey { .. }
    ));
}

#[test]
fn one_of_pin_and_signature_is_enough_where_that_is_asked() {
    let bench = Bench::new();
    let trust = format!("{}, require: PinOrSignature", bench.keys());
    let fault = bench.refused(&trust, "");
    assert!(matches!(fault, LoadFault::Evidence(EvidenceError::Nothing { .. })), "{fault}");
    assert!(bench.verified(&trust, &bench.pin()).is_ok());
    bench.sign();
    assert!(bench.verified(&trust, "").is_ok());
    // Without keys there is nobody to believe.
    let refused = bench.refused_signature("require: PinOrSignature", "");
    assert!(matches!(refused, SignatureError::NoKeys { .. }), "{refused}");
    assert!(bench.verified("require: PinOrSignature", &bench.pin()).is_ok());
    assert!(matches!(bench.refused_signature("require: Signature", ""), SignatureError::NoKeys { .. }));
    assert!(matches!(
        bench.refused_signature("", "signature: \"libinterlock_two_lock.so.minisig\""),
        SignatureError::NoKeys { .. }
    ));
    assert!(bench.verified("", "").is_ok(), "nobody asks, and nobody is believed");
}

/// What is verified is read once: the file may be another one by the time its library is opened.
#[test]
fn what_was_verified_is_what_is_loaded() {
    let bench = Bench::new();
    bench.sign();
    let verified = bench.verified(&bench.keys(), "").expect("it is signed");
    fs::write(&bench.library, b"something else").expect("written");
    let opened = interlock_engine::host::PolicyLibrary::open(verified).expect("the bytes that were verified");
    assert!(opened.instantiate().is_ok());
}

#[test]
fn a_library_outside_the_folders() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("allowed/below")).expect("folders");
    fs::create_dir_all(bench.path("allowed-not")).expect("a folder");
    let config = |library: &str, folders: &str| {
        let text = format!(
            "(trust: (folders: [{folders}]), policies: [(name: \"two-lock\", library: \"{library}\")])"
        );
        Config::parse(&text, &bench.path("plugins.ron")).expect("it is good")
    };
    let verified = |library: &str, folders: &str| {
        let config = config(library, folders);
        Verified::configured(&config, &config.policies[0]).map_err(|error| error.fault)
    };
    for place in ["allowed/a.so", "allowed/below/b.so", "allowed-not/c.so"] {
        fs::copy(&bench.library, bench.path(place)).expect("copied");
    }
    symlink("../allowed-not/c.so", bench.path("allowed/out.so")).expect("a link");
    symlink("../allowed/a.so", bench.path("allowed-not/in.so")).expect("a link");
    symlink("allowed", bench.path("alias")).expect("a link");
    let allowed = format!("\"/no/such\", {:?}", bench.path("allowed"));
    for good in [
        "allowed/a.so",
        "allowed/below/b.so",
        "allowed-not/../allowed/a.so",
        "allowed-not/in.so",
        "alias/a.so",
    ] {
        for folders in [&allowed[..], "\"allowed\"", "\"alias\""] {
            assert!(verified(good, folders).is_ok(), "{good} in {folders}");
        }
    }
    for bad in
        ["allowed-not/c.so", "allowed/out.so", "allowed/../allowed-not/c.so", "./libinterlock_two_lock.so"]
    {
        let fault = verified(bad, &allowed).err().expect(bad);
        let LoadFault::File(FileError::OutsideFolders { path, .. }) = &fault else {
            panic!("{bad}: {fault}")
        };
        assert_eq!(*path, fs::canonicalize(bench.path(bad)).expect("there"));
        assert!(inspect(&bench.path(bad), &config(bad, &allowed)).expect("a library").distrust.is_some());
    }
    let none =
        Config::parse("(trust: (folders: []))", Path::new("plugins.ron")).expect_err("none").to_string();
    assert!(none.contains("no folders"), "{none}");
}

#[test]
fn a_folder_far_above_that_others_may_write() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("open/a/b")).expect("folders");
    let library = changed("two-lock", &bench.path("open/a/b"), |_| ());
    let options = interlock_engine::host::OptionsText::default();
    let fault = || Verified::file(&library, None, None, &options).err().map(|error| error.fault);
    assert!(fault().is_none());
    for (mode, refused) in [(0o777, true), (0o757, true), (0o1777, false), (0o755, false)] {
        fs::set_permissions(bench.path("open"), fs::Permissions::from_mode(mode)).expect("ours");
        let fault = fault();
        let found = matches!(&fault, Some(LoadFault::File(FileError::FolderWritableByOthers { folder, mode: found }))
            if *found == mode && folder.ends_with("open"));
        assert_eq!(found, refused, "{mode:o}: {fault:?}");
        assert_eq!(fault.is_some(), refused, "{mode:o}");
    }
}

#[test]
fn folders_and_links_of_another_user() {
    const SOMEBODY: u32 = 4_242;
    let bench = Bench::new();
    fs::create_dir_all(bench.path("theirs/mine")).expect("folders");
    let library = changed("two-lock", &bench.path("theirs/mine"), |_| ());
    if chown(bench.path("theirs"), Some(SOMEBODY), None).is_err() {
        eprintln!("left out: only root can give a folder away");
        return;
    }
    let config = |library: &Path, trust: &str| {
        let text = format!("(trust: ({trust}), policies: [(name: \"two-lock\", library: {library:?})])");
        Config::parse(&text, &bench.path("plugins.ron")).expect("it is good")
    };
    let fault = |library: &Path, trust: &str| {
        let config = config(library, trust);
        Verified::configured(&config, &config.policies[0]).err().map(|error| error.fault)
    };
    let refused = fault(&library, "").expect("its folder can be replaced");
    assert!(
        matches!(&refused, LoadFault::File(FileError::ForeignStep { step, owner: SOMEBODY, .. }) if step.ends_with("theirs")),
        "{refused}"
    );
    assert!(refused.to_string().contains("owners: [4242]"), "it says what to do: {refused}");
    assert!(fault(&library, "owners: [7]").is_some());
    assert!(fault(&library, "owners: [7, 4242]").is_none());
    // A link that somebody put where everybody may.
    fs::create_dir(bench.path("common")).expect("a folder");
    fs::set_permissions(bench.path("common"), fs::Permissions::from_mode(0o1777)).expect("ours");
    let link = bench.path("common/link.so");
    symlink(&bench.library, &link).expect("a link");
    assert!(fault(&link, "").is_none());
    std::os::unix::fs::lchown(&link, Some(SOMEBODY), None).expect("given away");
    assert!(matches!(
        fault(&link, ""),
        Some(LoadFault::File(FileError::ForeignStep { step, .. })) if step.ends_with("link.so")
    ));
}

#[test]
fn the_library_of_a_core_has_to_show_the_same() {
    let bench = Bench::new();
    let opened = |trust: &str, core: &str| {
        let text = format!("(trust: ({trust}), core: Cuda(library: {:?}, {core}))", bench.library);
        let config = Config::parse(&text, &bench.path("plugins.ron")).expect("it is good");
        let CoreConfig::Cuda(cuda) = &config.core else { panic!("{:?}", config.core) };
        open_cuda_core(&config, cuda).err().expect("a policy is no core")
    };
    let error = opened(&bench.keys(), "");
    assert!(
        matches!(
            &error,
            CoreLibraryError::Evidence {
                fault: EvidenceError::Signature(SignatureError::Missing { .. }),
                ..
            }
        ),
        "{error}"
    );
    let error = opened("", &format!("sha256: \"{}\"", "0".repeat(64)));
    assert!(
        matches!(&error, CoreLibraryError::Evidence { fault: EvidenceError::WrongHash { .. }, .. }),
        "{error}"
    );
    let error = opened("folders: [\"/usr\"]", "");
    assert!(
        matches!(&error, CoreLibraryError::File { fault: FileError::OutsideFolders { .. }, .. }),
        "{error}"
    );
    bench.sign();
    let error = opened(&bench.keys(), &bench.pin());
    assert!(matches!(error, CoreLibraryError::Load(_)), "only loading it shows that it is none: {error}");
}

#[test]
fn trust_is_refused_where_it_makes_no_sense() {
    for (trust, words) in [
        ("keys: [\"RWQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ!!\"]", "no minisign key"),
        ("require: Sometimes", "Sometimes"),
        ("owners: [\"root\"]", "1:19: Expected integer"),
        ("key: []", "key"),
    ] {
        let text = format!("(trust: ({trust}))");
        let error = Config::parse(&text, Path::new("plugins.ron")).expect_err(trust).to_string();
        assert!(error.starts_with("plugins.ron:1:") && error.contains(words), "{trust}: {error}");
    }
}
