-- A state database of schema 0001: its driver was killed while stage `b` was about to start; `a` is done.
BEGIN TRANSACTION;
CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
INSERT INTO _sqlx_migrations VALUES(1,'initial','2026-12-01 04:36:39',1,X'fe2682e8df3b2144eafbce9526d812e3c23029a0456740ef29a8e3b9c78d7a96607409a045c2567baf16282306d05d39',4566902);
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
INSERT INTO runs VALUES('p-47f455a5','p','p.toml','h','{"name":"p","executor":{"kind":"local","cpus":0,"max_parallel":1,"infra_retries":3,"retry_delay":0.01,"min_free_disk":0},"stages":[{"name":"a","kind":"ppo","config":{"kind":"report","stages":[]},"lora":{"r":128,"lora_alpha":128.0,"target_modules":"all-linear"},"base_model":"{\"steps\":2,\"sleep_ms\":0,\"salt\":\"\",\"die_after\":null,\"deaths\":0,\"die_each\":false,\"fail\":null,\"fail_once\":false,\"grandchild\":false,\"stubborn\":false,\"corrupt\":false,\"silent\":false}","dtype":"f32","device":"cpu","seed":0,"max_retries":0,"deps":[],"ancestors":[],"fingerprint":"c941568e52db31e65309dc95ec230b416294abde9bf9d688f157a5b7ee3fcd2e","parts":{"config.salt":"","name":"a"}},{"name":"b","kind":"ppo","config":{"kind":"report","stages":[]},"lora":{"r":128,"lora_alpha":128.0,"target_modules":"all-linear"},"base_model":"{\"steps\":1,\"sleep_ms\":0,\"salt\":\"\",\"die_after\":null,\"deaths\":0,\"die_each\":false,\"fail\":null,\"fail_once\":false,\"grandchild\":false,\"stubborn\":false,\"corrupt\":false,\"silent\":false}","dtype":"f32","device":"cpu","seed":0,"max_retries":0,"deps":["a"],"ancestors":["a"],"fingerprint":"807c24aa949bd77a31a2b5f6856ecaf64df5aab8b693fc02183975dabbf296ef","parts":{"config.salt":"","input.a":"c941568e52db31e65309dc95ec230b416294abde9bf9d688f157a5b7ee3fcd2e","name":"b"}}],"spec_hash":"h"}',X'2f','pipeline run p.toml','running',1796099799388,NULL);
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
INSERT INTO stages VALUES('p-47f455a5',0,'a','ppo','c941568e52db31e65309dc95ec230b416294abde9bf9d688f157a5b7ee3fcd2e','succeeded','[{"reason":"never-ran"}]',0,'',1796099799398,1796099799466);
INSERT INTO stages VALUES('p-47f455a5',1,'b','ppo','807c24aa949bd77a31a2b5f6856ecaf64df5aab8b693fc02183975dabbf296ef','running','[{"reason":"never-ran"},{"reason":"input-reruns","stage":"a"}]',0,'',1796099799471,NULL);
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
INSERT INTO attempts VALUES('a-b15a9ff9fb','p-47f455a5','a','c941568e52db31e65309dc95ec230b416294abde9bf9d688f157a5b7ee3fcd2e',1,'1be8aaf9ce0578609ebf9679854af068','succeeded','local','{"pid":17715,"started":2138575,"boot":"an-earlier-boot","pid_ns":"pid:[4026531836]"}',NULL,NULL,'','','',0.25,1000,1796099799398,1796099799433,1796099799463);
INSERT INTO attempts VALUES('b-e06452b032','p-47f455a5','b','807c24aa949bd77a31a2b5f6856ecaf64df5aab8b693fc02183975dabbf296ef',1,'437554406c49642a71ed4686870497ab','starting','local',NULL,NULL,NULL,NULL,NULL,NULL,0.0,0,1796099799471,NULL,NULL);
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
INSERT INTO artifacts VALUES('c941568e52db31e65309dc95ec230b416294abde9bf9d688f157a5b7ee3fcd2e','ppo','artifacts/ppo-c941568e52db31e6','p','a','p-47f455a5','a-b15a9ff9fb','{"config.salt":"","name":"a"}','[{"path":"result.txt","bytes":64,"blake3":"0bf0d5bcb71bd855b1d11f8c5f0fb16307b4e62921e112d82d0066ad793272d4"}]','{"steps":2}',64,0.25,1000,1796099799466);
CREATE TABLE checkpoints (
    attempt_id  TEXT NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    step        INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    path        TEXT NOT NULL,             -- relative to the state folder
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    id         INTEGER PRIMARY KEY,
    run_id     TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    stage      TEXT,
    attempt_id TEXT,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;
INSERT INTO events VALUES(1,'p-47f455a5',NULL,NULL,1796099799388,'created','pipeline run p.toml');
INSERT INTO events VALUES(2,'p-47f455a5','a',NULL,1796099799399,'running','');
INSERT INTO events VALUES(3,'p-47f455a5','a','a-b15a9ff9fb',1796099799399,'attempt','');
INSERT INTO events VALUES(4,'p-47f455a5','a','a-b15a9ff9fb',1796099799435,'started','{"pid":17715,"started":2138575,"boot":"an-earlier-boot","pid_ns":"pid:[4026531836]"}');
INSERT INTO events VALUES(5,'p-47f455a5','a','a-b15a9ff9fb',1796099799465,'succeeded','');
INSERT INTO events VALUES(6,'p-47f455a5','a',NULL,1796099799466,'succeeded','');
INSERT INTO events VALUES(7,'p-47f455a5','b',NULL,1796099799471,'running','');
INSERT INTO events VALUES(8,'p-47f455a5','b','b-e06452b032',1796099799471,'attempt','');
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
INSERT INTO leases VALUES('run:p-47f455a5',1,'c37d4be3e6527e54fea591c26e95a11b','@HOST@','an-earlier-boot','pid:[4026531836]',17677,2138568,'pipeline test',1796099799388);
INSERT INTO leases VALUES('stage:807c24aa949bd77a31a2b5f6856ecaf64df5aab8b693fc02183975dabbf296ef',1,'c37d4be3e6527e54fea591c26e95a11b','@HOST@','an-earlier-boot','pid:[4026531836]',17677,2138568,'pipeline test',1796099799470);
CREATE TABLE file_memo (
    path     BLOB PRIMARY KEY,
    dev      INTEGER NOT NULL,
    inode    INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    blake3   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_created ON runs (created_at);
CREATE INDEX stages_position ON stages (run_id, position);
CREATE INDEX attempts_fingerprint ON attempts (fingerprint, created_at);
CREATE INDEX artifacts_stage ON artifacts (pipeline, stage, created_at);
CREATE INDEX checkpoints_fingerprint ON checkpoints (fingerprint, step);
CREATE INDEX events_run ON events (run_id, id);
CREATE INDEX leases_owner ON leases (owner);
COMMIT;
