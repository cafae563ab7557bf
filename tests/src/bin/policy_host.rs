//! Hosts policies for the tests of isolation, as a program that embeds the engine does. `engine LIBRARY` makes it such a program:
//! it seats the policy in a process of its own, says which, and waits to be killed.

use std::path::Path;
use std::process::ExitCode;
use std::{env, io, thread};

use interlock_engine::host::{Config, LoadedPolicy, PolicyLibrary, inspect, isolation};
use interlock_engine::interlock::PolicyPort;
use interlock_policy_api::Stage;
use interlock_policy_api::testing::{request, view};

fn main() -> ExitCode {
    if let Some(exit) = isolation::serve_if_asked() {
        return exit;
    }
    let arguments: Vec<String> = env::args().collect();
    let [_, engine, library] = &arguments[..] else { return ExitCode::FAILURE };
    assert_eq!(engine, "engine");
    let name = inspect(Path::new(library), &Config::default()).expect("a policy's library").manifest.name;
    let text = format!("(policies: [(name: {name:?}, library: {library:?}, isolation: Process)])");
    let config = Config::parse(&text, Path::new("/plugins.ron")).expect("it is good");
    // The thread that starts the process ends before the first question.
    let made = thread::spawn(move || -> LoadedPolicy {
        let library = PolicyLibrary::configured(&config, &name).expect("this program hosts policies");
        library.instantiate().expect("it starts")
    });
    let mut policy = made.join().expect("it does not panic");
    policy.decide(&request(Stage::FINISH), &view(&[])).expect("it answers");
    println!("answers: {}", policy.process_id().expect("it has a process"));
    let _ = io::stdin().read_line(&mut String::new());
    ExitCode::SUCCESS
}
