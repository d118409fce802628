-- Times are milliseconds since 1970, UTC. `plan`, `parts`, `files`, `summary`, `reasons` and `handle` are JSON.

CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    pipeline    TEXT NOT NULL,
    source      TEXT NOT NULL,             -- the pipeline file as it was named
    spec_hash   TEXT NOT NULL,
    plan        TEXT NOT NULL,             -- frozen: what `resume` goes on with
    cwd         BLOB NOT NULL,             -- what relative paths in the plan are relative to
    command     TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'refused', 'stopped')),
    created_at  INTEGER NOT NULL,
    finished_at INTEGER
) STRICT;
CREATE INDEX runs_created ON runs (created_at);

CREATE TABLE stages (
    run_id      TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN
                    ('pending', 'running', 'succeeded', 'cached', 'failed', 'refused', 'skipped', 'stopped')),
    reasons     TEXT NOT NULL,             -- why it was to run; [] when it was not
    forced      INTEGER NOT NULL,          -- must run in this run even if its artifact is there
    message     TEXT NOT NULL DEFAULT '',
    started_at  INTEGER,
    finished_at INTEGER,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX stages_position ON stages (run_id, position);

CREATE TABLE attempts (
    id             TEXT PRIMARY KEY,
    run_id         TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    stage          TEXT NOT NULL,
    fingerprint    TEXT NOT NULL,
    number         INTEGER NOT NULL,
    nonce          TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN
                       ('starting', 'running', 'succeeded', 'failed', 'refused', 'stopped', 'dead')),
    executor       TEXT NOT NULL,
    handle         TEXT,                   -- what the executor finds its process or job by
    resume_step    INTEGER,                -- the checkpoint it went on from
    class          TEXT,
    code           TEXT,
    message        TEXT,
    help           TEXT,
    seconds        REAL NOT NULL DEFAULT 0,
    peak_rss_bytes INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    finished_at    INTEGER,
    UNIQUE (run_id, stage, number)
) STRICT;
CREATE INDEX attempts_fingerprint ON attempts (fingerprint, created_at);

CREATE TABLE artifacts (
    fingerprint    TEXT PRIMARY KEY,       -- one current artifact for each
    kind           TEXT NOT NULL,
    path           TEXT NOT NULL,          -- relative to the state folder
    pipeline       TEXT NOT NULL,
    stage          TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    attempt_id     TEXT NOT NULL,
    parts          TEXT NOT NULL,
    files          TEXT NOT NULL,
    summary        TEXT NOT NULL,
    bytes          INTEGER NOT NULL,
    seconds        REAL NOT NULL,          -- over all attempts
    peak_rss_bytes INTEGER NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX artifacts_stage ON artifacts (pipeline, stage, created_at);

CREATE TABLE checkpoints (
    attempt_id  TEXT NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    step        INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    path        TEXT NOT NULL,             -- relative to the state folder
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_fingerprint ON checkpoints (fingerprint, step);

-- Transitions, in order: what happened when.
CREATE TABLE events (
    id         INTEGER PRIMARY KEY,
    run_id     TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    stage      TEXT,
    attempt_id TEXT,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;
CREATE INDEX events_run ON events (run_id, id);

-- Who owns a run (`run:<id>`) or the making of an artifact (`stage:<fingerprint>`).
CREATE TABLE leases (
    resource TEXT PRIMARY KEY,
    epoch    INTEGER NOT NULL,             -- one more at each change of owner
    owner    TEXT NOT NULL,                -- a random id, never a pid
    host     TEXT NOT NULL,
    boot     TEXT NOT NULL,
    pid_ns   TEXT NOT NULL,
    pid      INTEGER NOT NULL,
    started  INTEGER NOT NULL,             -- the process's start, clock ticks after boot
    command  TEXT NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_owner ON leases (owner);

-- Content hashes of input files, good as long as everything `stat` says is the same.
CREATE TABLE file_memo (
    path     BLOB PRIMARY KEY,
    dev      INTEGER NOT NULL,
    inode    INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    blake3   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
