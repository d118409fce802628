//! Running Slurm's commands: not too often, not for ever, and not as if from inside a job.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::Mutex;

/// What a command said.
#[derive(Debug)]
pub(super) struct Said {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// Its messages on one line, without banners' empty lines.
    pub fn message(&self) -> String {
        let plain = |line: &'_ str| line.trim().trim_start_matches("sbatch: error: ").to_owned();
        let lines: Vec<String> = self.stderr.lines().map(plain).filter(|line| !line.is_empty()).collect();
        lines.join("; ")
    }
}

/// Runs commands for one run.
#[derive(Debug)]
pub(super) struct Commands {
    cwd: PathBuf,
    timeout: Duration,
    /// Between the starts of two commands.
    gap: Duration,
    next: Mutex<Instant>,
}

impl Commands {
    pub fn new(cwd: PathBuf, config: &spec::Executor) -> Self {
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or_default();
        let (timeout, gap) = (seconds(config.command_timeout), seconds(1.0 / config.submit_rate));
        Self { cwd, timeout, gap, next: Mutex::new(Instant::now()) }
    }

    /// Runs one to its end, whatever that is. An error: it did not start, or took too long.
    pub async fn run(&self, program: &str, arguments: &[OsString]) -> Result<Said, Error> {
        self.turn().await;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.cwd).stdin(Stdio::null()).kill_on_drop(true);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_foreign(name)) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C");
        let output = match tokio::time::timeout(self.timeout, command.output()).await {
            Ok(output) => output?,
            Err(_) => return Err(Error::new(ErrorKind::TimedOut, "no answer")),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said =
            Said { ok: output.status.success(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
        tracing::debug!(program, ?arguments, ?said, "slurm");
        Ok(said)
    }

    async fn turn(&self) {
        let mut next = self.next.lock().await;
        tokio::time::sleep_until((*next).into()).await;
        *next = Instant::now() + self.gap;
    }
}

/// Variables of a job or session that the driver runs in, which would bend what its own commands mean. Those
/// that say where the cluster is, and who we are to it, stay.
fn is_foreign(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let prefixes = ["SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "XDG_", "DBUS_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && !["SLURM_CONF", "SLURM_JWT"].contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e125_what_a_surrounding_job_says_is_not_passed_on() {
        for name in ["SLURM_JOB_ID", "SLURM_CPUS_PER_TASK", "SBATCH_EXPORT", "XDG_RUNTIME_DIR", "DBUS_X"] {
            assert!(is_foreign(OsStr::new(name)), "{name}");
        }
        for name in ["SLURM_CONF", "SLURM_JWT", "PATH", "HOME", "OPENAI_API_KEY"] {
            assert!(!is_foreign(OsStr::new(name)), "{name}");
        }
    }
}
