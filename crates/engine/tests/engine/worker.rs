//! A worker for tests: it computes a chain of hashes, one link a step, with a checkpoint after each, and
//! misbehaves as its script says.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::protocol::{Event, FailureClass, Manifest, PROTOCOL, Request, Usage, exit, file};
use serde::{Deserialize, Serialize};
use store::fault;
use tokio::signal::unix::{SignalKind, signal};

/// What a stage of a test does. Travels in the planned stage's `base_model`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    pub steps: u64,
    /// Before each step.
    pub sleep_ms: u64,
    /// The only part of a script that is in the fingerprint.
    pub salt: String,
    /// SIGKILL itself after this step…
    pub die_after: Option<u64>,
    /// …in this many first attempts.
    pub deaths: u32,
    /// SIGKILL itself after every step.
    pub die_each: bool,
    /// Fail instead of finishing: `user`, `infra`, `gate`.
    pub fail: Option<FailureClass>,
    /// Fail only in the first attempt.
    pub fail_once: bool,
    /// …because an input is damaged.
    pub bad_input: bool,
    /// Start sh → sleep, in a session of its own, and leave it.
    pub grandchild: bool,
    /// Pay no attention to USR1 and TERM.
    pub stubborn: bool,
    /// Change a byte of the result after the manifest is written.
    pub corrupt: bool,
    /// Write no manifest, exit 0.
    pub silent: bool,
}

struct Worker {
    folder: PathBuf,
    request: Request,
    script: Script,
    events: File,
}

/// Plays the worker of the attempt in `folder`; never returns.
pub async fn main(folder: PathBuf) -> ! {
    let text = fs::read(folder.join(file::REQUEST)).unwrap();
    let mut request: Request = serde_json::from_slice(&text).unwrap();
    request.go_on_in(&folder);
    let script = serde_json::from_str(&request.stage.base_model).unwrap();
    let events = File::options().create(true).append(true).open(folder.join(file::EVENTS)).unwrap();
    let code = Worker { folder, request, script, events }.work().await;
    std::process::exit(code)
}

impl Worker {
    fn say(&mut self, event: Event) {
        let line = serde_json::to_string(&event).unwrap() + "\n";
        self.events.write_all(line.as_bytes()).unwrap();
    }

    async fn work(&mut self) -> i32 {
        let (request, script) = (self.request.clone(), self.script.clone());
        let mut usr1 = signal(SignalKind::user_defined1()).unwrap();
        let _term = script.stubborn.then(|| signal(SignalKind::terminate()).unwrap());
        self.say(Event::Started { nonce: request.nonce.clone(), pid: std::process::id() });
        fault::point("worker.started");
        if script.grandchild {
            let trap = if script.stubborn { "trap \"\" TERM; " } else { "" };
            let leave = format!("setsid sh -c '{trap}sleep 600; true' &");
            std::process::Command::new("sh").args(["-c", &leave]).status().unwrap();
        }
        let mut state = String::new();
        for input in request.inputs.values() {
            state += &fs::read_to_string(input.path.join("result.txt")).unwrap();
        }
        let mut step = 0;
        if let Some(checkpoint) = &request.resume_from {
            state = fs::read_to_string(checkpoint.join("state")).unwrap();
            step = checkpoint.file_name().unwrap().to_str().unwrap()[5..].parse().unwrap();
        }
        while step < script.steps {
            tokio::select! {
                _ = usr1.recv(), if !script.stubborn => {
                    self.say(Event::Interrupted { nonce: request.nonce.clone(), step });
                    return exit::INTERRUPTED;
                }
                () = tokio::time::sleep(Duration::from_millis(script.sleep_ms)) => {}
            }
            step += 1;
            state = blake3::hash(format!("{} {step} {state}", request.stage.name).as_bytes())
                .to_hex()
                .to_string();
            note(&format!("{} {step}\n", request.stage.name));
            self.checkpoint(step, &state);
            let (total, unit, message) = (script.steps, "steps".into(), String::new());
            self.say(Event::Progress { step, total, unit, message });
            let dies = script.die_after == Some(step) && request.attempt <= script.deaths;
            if dies || script.die_each {
                nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL).unwrap();
            }
        }
        self.end(&state)
    }

    fn checkpoint(&mut self, step: u64, state: &str) {
        let path = Path::new(file::CHECKPOINTS).join(format!("step-{step:08}"));
        let unfinished = self.folder.join(file::CHECKPOINTS).join("unfinished");
        let _ = fs::remove_dir_all(&unfinished);
        fs::create_dir_all(&unfinished).unwrap();
        fs::write(unfinished.join("state"), state).unwrap();
        store::files::seal(&unfinished).unwrap();
        fault::point("checkpoint.written");
        fs::rename(unfinished, self.folder.join(&path)).unwrap();
        fault::point("checkpoint.renamed");
        self.say(Event::Checkpoint { step, path });
    }

    fn end(&mut self, state: &str) -> i32 {
        let (nonce, script) = (self.request.nonce.clone(), self.script.clone());
        let out = self.folder.join(file::OUT);
        let _ = fs::remove_dir_all(&out);
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("result.txt"), state).unwrap();
        if let Some(class) = script.fail.filter(|_| !script.fail_once || self.request.attempt == 1) {
            let code = if script.bad_input { engine::protocol::DAMAGED_INPUT } else { "E9999" };
            let (code, message) = (code.to_owned(), format!("as asked: {}", class.as_str()));
            self.say(Event::Failed { nonce, class, code, message, help: "stop asking".into() });
            return if class == FailureClass::Gate { exit::GATE } else { exit::FAILED };
        }
        if script.silent {
            return exit::FINISHED;
        }
        fault::point("worker.finished");
        let manifest = Manifest {
            protocol: PROTOCOL,
            nonce: nonce.clone(),
            fingerprint: self.request.stage.fingerprint.0.clone(),
            files: store::files::inventory(&out).unwrap(),
            summary: serde_json::json!({ "steps": script.steps }),
            usage: Usage { seconds: 0.25, peak_rss_bytes: 1000 },
        };
        let text = serde_json::to_vec(&manifest).unwrap();
        store::files::write_atomic(&self.folder.join(file::MANIFEST), &text).unwrap();
        fault::point("worker.sealed");
        if script.corrupt {
            fs::write(out.join("result.txt"), state.to_uppercase()).unwrap();
        }
        self.say(Event::Finished { nonce, summary: manifest.summary });
        exit::FINISHED
    }
}

/// One line for every step that was computed, by whatever process: `steps.log` in the current folder.
fn note(line: &str) {
    let mut log = File::options().create(true).append(true).open("steps.log").unwrap();
    log.write_all(line.as_bytes()).unwrap();
}
