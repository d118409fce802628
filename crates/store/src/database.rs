//! Opening the state folder: the database with its schema, and this process as a possible owner.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::ConnectOptions;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use crate::error::StoreError;
use crate::layout::Layout;
use crate::network::{self, check_locks, is_writable, network_file_system};
use crate::owner::{self, Me};
use crate::writer::{Transition, Writer};

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations");

/// How long a transition waits for another program's lock on the database.
const PATIENCE: Duration = Duration::from_secs(120);

/// A state folder. Cheap to clone; all clones are one owner.
#[derive(Debug, Clone)]
pub struct Store {
    layout: Layout,
    writer: Writer,
    readers: SqlitePool,
    me: Option<Arc<Me>>,
}

impl Store {
    /// Opens the state folder at `root` for writing, made and migrated as needed. Any number of processes
    /// may do so at once. `command` is what the user typed; it is shown to others that find a run taken.
    pub async fn open(root: &Path, command: &str) -> Result<Self, StoreError> {
        let layout = layout(root)?;
        fs::create_dir_all(layout.root()).map_err(StoreError::io(layout.root()))?;
        if network_file_system(layout.root()).is_some() {
            check_locks(layout.root())?;
        }
        let lock = lock_for_opening(&layout).await?;
        check_header(&layout)?;
        let mut readers = pool(options(&layout).create_if_missing(true));
        if migrate(&readers, &layout).await? {
            // A connection from before knows the old tables, and the driver panics at a column that is new to it.
            readers.close().await;
            readers = pool(options(&layout));
        }
        for folder in [layout.attempts(), layout.artifacts()] {
            fs::create_dir_all(&folder).map_err(StoreError::io(folder))?;
        }
        owner::sweep(&layout.owners());
        let me = Me::register(&layout.owners(), command).map_err(StoreError::io(layout.owners()))?;
        drop(lock);
        let writer = Writer::new(layout.clone(), options(&layout));
        Ok(Self { layout, writer, readers, me: Some(Arc::new(me)) })
    }

    /// Opens an existing state folder to look at it: makes nothing, migrates nothing, owns nothing.
    pub async fn open_existing(root: &Path) -> Result<Self, StoreError> {
        let layout = layout(root)?;
        if !layout.database().exists() {
            return Err(StoreError::NoState(layout.root().to_owned()));
        }
        check_header(&layout)?;
        let writable = is_writable(layout.root());
        let options = if writable { options(&layout) } else { read_only_options(&layout) };
        let readers = pool(options.clone());
        let writer = Writer::new(layout.clone(), options);
        let store = Self { layout, writer, readers, me: None };
        let version = applied(&store.readers, &store.layout).await?;
        match version.cmp(&Some(newest())) {
            std::cmp::Ordering::Equal => Ok(store),
            std::cmp::Ordering::Greater => Err(newer(&store.layout, version.unwrap_or(0))),
            // An older schema, or one that another process is making just now: migrate it like a writer.
            std::cmp::Ordering::Less => Self::open(root, "").await,
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    pub(crate) fn me(&self) -> Option<&Me> {
        self.me.as_deref()
    }

    /// Starts a transition; see [`Writer::begin`].
    pub(crate) async fn begin(&self) -> Result<Transition, StoreError> {
        self.writer.begin().await
    }

    /// Maps what SQLite reports about the file itself.
    pub(crate) fn classify(&self, error: impl Into<Arc<sqlx::Error>>) -> StoreError {
        classify(&self.layout, error.into())
    }

    /// Closes the connections; the last process to do so tidies the write-ahead log away.
    pub async fn close(self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// Neither SQLite nor a worker's request takes a path that is not text.
fn layout(root: &Path) -> Result<Layout, StoreError> {
    let layout = Layout::new(root).map_err(StoreError::io(root))?;
    match layout.root().to_str() {
        Some(_) => Ok(layout),
        None => Err(StoreError::OddPath(layout.root().to_owned())),
    }
}

fn options(layout: &Layout) -> SqliteConnectOptions {
    // On a network file system a journal that is cut short at commit: deleting it instead would rely on other
    // machines' view of the folder, and one that stays long would be read each time.
    let journal = match network_file_system(layout.root()) {
        Some(_) => SqliteJournalMode::Truncate,
        None => SqliteJournalMode::Wal,
    };
    basic_options(layout).journal_mode(journal)
}

/// Where nothing can be written there is no lock to take and no log to join: without a log beside it, the
/// database is all there is.
fn read_only_options(layout: &Layout) -> SqliteConnectOptions {
    let alone = network::is_empty(&layout.database().with_extension("db-wal"));
    basic_options(layout).read_only(true).immutable(alone)
}

fn basic_options(layout: &Layout) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(layout.database())
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .disable_statement_logging()
        .busy_timeout(Duration::from_secs(10))
}

fn pool(options: SqliteConnectOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(4)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

/// One process at a time creates, migrates and registers. The lock goes with the process that holds it.
async fn lock_for_opening(layout: &Layout) -> Result<File, StoreError> {
    let path = layout.open_lock();
    let file = File::options().create(true).append(true).open(&path).map_err(StoreError::io(&path))?;
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    locked.unwrap_or_else(|e| Err(std::io::Error::other(e))).map_err(StoreError::io(path))
}

/// SQLite takes an empty file for a new database; when results lie beside it, it is a lost one.
fn check_header(layout: &Layout) -> Result<(), StoreError> {
    let path = layout.database();
    let damaged = |detail: &str| Err(StoreError::Damaged { path: path.clone(), detail: detail.into() });
    let mut head = Vec::new();
    let mut bytes = 0;
    match File::open(&path) {
        Ok(file) => {
            bytes = file.metadata().map_err(StoreError::io(&path))?.len();
            file.take(100).read_to_end(&mut head).map_err(StoreError::io(&path))?;
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(StoreError::io(&path)(e)),
    };
    let used = fs::read_dir(layout.attempts()).is_ok_and(|mut d| d.next().is_some());
    let (wal, journal) = (path.with_extension("db-wal"), path.with_extension("db-journal"));
    // With a log or a journal beside it, the file alone need not be whole.
    let alone = network::is_empty(&wal) && network::is_empty(&journal);
    match head.as_slice() {
        [] if used && !wal.exists() => damaged("it is empty or gone, but attempts lie beside it"),
        [] => Ok(()),
        head if !head.starts_with(b"SQLite format 3\0") => damaged("it is not an SQLite database"),
        head if alone && bytes < wanted_size(head).unwrap_or(u64::MAX) => damaged("it is cut short"),
        _ => Ok(()),
    }
}

/// Bytes of a database, by its header (sqlite.org/fileformat2.html): pages times their size, or just one page
/// when the count is not to be trusted. `None`: the header is cut short.
fn wanted_size(head: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u32::from_be_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let page = match u16::from_be_bytes(head.get(16..18)?.try_into().ok()?) {
        1 => 65_536,
        size => u64::from(size),
    };
    let trusted = number(24)? == number(92)?;
    Some(page * if trusted { u64::from(number(28)?) } else { 1 })
}

fn newest() -> i64 {
    MIGRATOR.iter().map(|m| m.version).max().unwrap_or(0)
}

fn newer(layout: &Layout, found: i64) -> StoreError {
    StoreError::NewerSchema { path: layout.database(), found, known: newest() }
}

/// The newest migration applied, `None` in an empty database.
async fn applied(pool: &SqlitePool, layout: &Layout) -> Result<Option<i64>, StoreError> {
    let there = "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
    let start = Instant::now();
    loop {
        match sqlx::query_scalar::<_, i64>(there).fetch_one(pool).await {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(e) => wait_if_busy(layout, start, e).await?,
        }
    }
    let newest = sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations").fetch_one(pool).await;
    newest.map_err(|e| classify(layout, e.into()))
}

/// Tells whether there was anything to do.
async fn migrate(pool: &SqlitePool, layout: &Layout) -> Result<bool, StoreError> {
    match applied(pool, layout).await? {
        Some(version) if version > newest() => return Err(newer(layout, version)),
        Some(version) if version == newest() => return Ok(false),
        _ => {}
    }
    let start = Instant::now();
    loop {
        match MIGRATOR.run(pool).await {
            Ok(()) => return Ok(true),
            Err(e) => wait_if_busy(layout, start, e.into()).await?,
        }
    }
}

/// Returns after a short wait if `error` only says that someone else has the database locked, and that
/// for less than [`PATIENCE`].
pub(crate) async fn wait_if_busy(
    layout: &Layout,
    start: Instant,
    error: sqlx::Error,
) -> Result<(), StoreError> {
    if !is_busy(&error) || start.elapsed() > PATIENCE {
        return Err(classify(layout, error.into()));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// SQLite's primary result code: the low byte of the extended one.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let error = match error {
        sqlx::Error::Migrate(e) => match &**e {
            sqlx::migrate::MigrateError::Execute(e) | sqlx::migrate::MigrateError::ExecuteMigration(e, _) => {
                e
            }
            _ => return None,
        },
        e => e,
    };
    let code = error.as_database_error()?.code()?;
    code.parse::<i32>().ok().map(|c| c & 0xff)
}

fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(5 | 6 | 15))
}

/// SQLite finds its file malformed, or not a database.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(11 | 26))
}

pub(crate) fn classify(layout: &Layout, source: Arc<sqlx::Error>) -> StoreError {
    let path = layout.database();
    match primary_code(&source) {
        Some(5 | 6 | 15) => StoreError::Busy { path, seconds: PATIENCE.as_secs() },
        _ if is_damage(&source) => StoreError::Damaged { path, detail: source.to_string() },
        _ => StoreError::Database { source },
    }
}
