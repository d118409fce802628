//! Processes as Linux's `/proc` shows them: who a pid is, and who belongs to an attempt.

use std::fs;
use std::os::unix::ffi::OsStrExt;

/// One line of `/proc/<pid>/stat`, the parts that matter.
struct Stat {
    state: u8,
    group: i32,
    started: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command name is in parentheses and may hold anything, `)` included.
    let end = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn ended(stat: &Stat) -> bool {
    matches!(stat.state, b'Z' | b'X')
}

/// When the process started, in clock ticks after boot; `None` if it is not there or has ended and only
/// waits to be reaped. A pid and its start time together are never used twice.
pub fn start_time(pid: i32) -> Option<u64> {
    stat(pid).filter(|s| !ended(s)).map(|s| s.started)
}

/// Highest resident set of a process so far, in bytes.
pub fn peak_rss_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| std::str::from_utf8(e.file_name().as_bytes()).ok()?.parse().ok())
}

/// Live members of a process group.
pub fn in_group(group: i32) -> Vec<i32> {
    // Most often it is gone, which one call tells.
    if nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), None) == Err(nix::errno::Errno::ESRCH) {
        return Vec::new();
    }
    all().filter(|&pid| stat(pid).is_some_and(|s| s.group == group && !ended(&s))).collect()
}

/// Live processes that were started with `variable=value`. A process in the midst of its `exec` shows no
/// environment yet and is found a moment later.
pub fn with_variable(variable: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{variable}={value}");
    let has = |pid: i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|&b| b == 0).any(|entry| entry == wanted.as_bytes())
    };
    all().filter(|&pid| has(pid) && start_time(pid).is_some()).collect()
}

/// This machine's name.
pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".into(), |h| h.trim().to_owned())
}

/// Changes at every boot.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |s| s.trim().to_owned())
}

/// Two processes see the same pids exactly if they have this in common.
pub fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map_or_else(|_| String::new(), |p| p.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_seen_until_it_ends() {
        use std::os::unix::process::CommandExt;
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("STORE_TEST", "yes 1")
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(start_time(pid).is_some());
        assert_eq!(in_group(pid), [pid]);
        while with_variable("STORE_TEST", "yes 1") != [pid] {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        while start_time(pid).is_some() {
            std::thread::yield_now();
        }
        assert!(in_group(pid).is_empty(), "a zombie does not count");
        child.wait().unwrap();
        assert!(start_time(std::process::id() as i32).is_some());
        assert!(peak_rss_bytes(std::process::id() as i32).unwrap() > 100_000);
    }
}
