//! Pages in a real browser: what stands on them after their scripts have run.

use std::fs;
use std::process::{Command, Stdio};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser without a window.
pub struct Browser {
    program: &'static str,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Finds one, or says on standard output why the test is skipped.
    ///
    /// # Panics
    /// When there is no folder for temporary files.
    pub fn find() -> Option<Self> {
        let runs = |program: &&str| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let Some(program) = BROWSERS.into_iter().find(runs) else {
            println!("skipped: none of {} is installed", BROWSERS.join(", "));
            return None;
        };
        Some(Self { program, folder: tempfile::tempdir().expect("a folder") })
    }

    /// The document after its scripts have run.
    ///
    /// # Panics
    /// When they wrote anything to the console, or the browser fails.
    pub fn open(&self, name: &str, html: &[u8]) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, html).expect("written");
        let output = Command::new(self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
            .args(["--window-size=1280,1000", "--virtual-time-budget=10000", "--dump-dom"])
            .arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()))
            .arg(format!("file://{}", path.display()))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(output.status.success() && console.is_empty(), "{console:?}\n{said}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// What stands in the element with this id of a document.
///
/// # Panics
/// When there is no such element.
pub fn text_of<'a>(dom: &'a str, id: &str) -> &'a str {
    let from = dom.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
    let text = &dom[from..];
    let text = &text[text.find('>').expect("an end") + 1..];
    &text[..text.find('<').expect("an end")]
}
