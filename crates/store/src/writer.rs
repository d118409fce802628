//! The one connection that writes, and group commit: transitions that wait at the same time share one SQLite
//! transaction, and so one fsync. Each has a savepoint of its own, so that one that fails takes nothing of the
//! others with it, and each is told of success only once the whole transaction is durable.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::database::wait_if_busy;
use crate::error::StoreError;
use crate::layout::Layout;

type Ended = Option<Result<(), Arc<sqlx::Error>>>;

/// Hands out transitions, one at a time and in the order in which they were asked for.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    layout: Layout,
    options: SqliteConnectOptions,
    /// Tokio's mutex is fair, which is what makes groups: whoever waits when the first transition of a
    /// transaction ends comes before the task that commits it.
    line: Arc<Mutex<Line>>,
}

#[derive(Debug, Default)]
struct Line {
    connection: Option<SqliteConnection>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// A transaction is open. `unfinished`: the savepoint of a transition that was dropped half-way is too.
    /// `closing`: its commit waits in line.
    Open { ended: watch::Sender<Ended>, unfinished: bool, closing: bool },
    /// Somebody was dropped between two of the above.
    Unknown,
}

/// One transition, dereferencing to the connection. Dropped without [`Transition::commit`] it leaves no trace.
pub(crate) struct Transition {
    line: OwnedMutexGuard<Line>,
    all: Arc<Mutex<Line>>,
}

impl Writer {
    pub fn new(layout: Layout, options: SqliteConnectOptions) -> Self {
        Self { layout, options, line: Arc::default() }
    }

    /// Starts a transition. SQLite's write lock is taken at once, so that nothing read inside can be
    /// overtaken; while another process has it, this waits.
    pub async fn begin(&self) -> Result<Transition, StoreError> {
        let mut line = Arc::clone(&self.line).lock_owned().await;
        if line.connection.is_none() {
            line.connection = Some(self.connect().await?);
        }
        line.tidy().await;
        if !matches!(line.state, State::Open { .. }) {
            self.open(&mut line).await?;
        }
        let mut transition = Transition { line, all: Arc::clone(&self.line) };
        let saved = transition.line.execute("SAVEPOINT transition").await;
        saved.map_err(|e| crate::database::classify(&self.layout, e.into()))?;
        transition.line.set_unfinished(true);
        Ok(transition)
    }

    async fn connect(&self) -> Result<SqliteConnection, StoreError> {
        let start = Instant::now();
        loop {
            match self.options.connect().await {
                Ok(connection) => return Ok(connection),
                Err(error) => wait_if_busy(&self.layout, start, error).await?,
            }
        }
    }

    async fn open(&self, line: &mut Line) -> Result<(), StoreError> {
        let start = Instant::now();
        line.state = State::Unknown;
        while let Err(error) = line.execute("BEGIN IMMEDIATE").await {
            wait_if_busy(&self.layout, start, error).await?;
        }
        line.state = State::Open { ended: watch::Sender::new(None), unfinished: false, closing: false };
        Ok(())
    }

    /// Commits what is open and closes the connection.
    pub async fn close(&self) {
        let mut line = self.line.lock().await;
        line.commit().await;
        if let Some(connection) = line.connection.take() {
            let _ = connection.close().await;
        }
    }
}

impl Line {
    async fn execute(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        let Some(connection) = &mut self.connection else { return Err(sqlx::Error::PoolClosed) };
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
    }

    fn set_unfinished(&mut self, now: bool) {
        if let State::Open { unfinished, .. } = &mut self.state {
            *unfinished = now;
        }
    }

    /// Takes back what a dropped transition did, or the whole transaction if SQLite has already done that
    /// (a full disk, an I/O error): then everyone in it is told.
    async fn tidy(&mut self) {
        match std::mem::replace(&mut self.state, State::Unknown) {
            State::Open { ended, unfinished: true, closing } => {
                match self.execute("ROLLBACK TO transition; RELEASE transition").await {
                    Ok(()) => self.state = State::Open { ended, unfinished: false, closing },
                    Err(error) => self.lose(ended, error).await,
                }
            }
            State::Unknown => {
                let _ = self.execute("ROLLBACK").await;
                self.state = State::Idle;
            }
            state => self.state = state,
        }
    }

    async fn commit(&mut self) {
        self.tidy().await;
        match std::mem::replace(&mut self.state, State::Unknown) {
            State::Open { ended, .. } => match self.execute("COMMIT").await {
                Ok(()) => {
                    ended.send_replace(Some(Ok(())));
                    self.state = State::Idle;
                }
                Err(error) => self.lose(ended, error).await,
            },
            state => self.state = state,
        }
    }

    async fn lose(&mut self, ended: watch::Sender<Ended>, error: sqlx::Error) {
        ended.send_replace(Some(Err(Arc::new(error))));
        let _ = self.execute("ROLLBACK").await;
        self.state = State::Idle;
    }
}

impl Transition {
    /// Returns once this transition is on disk.
    ///
    /// # Errors
    /// It is not, nor is anything that shared its transaction.
    pub async fn commit(mut self) -> Result<(), Arc<sqlx::Error>> {
        let State::Open { ended, .. } = &self.line.state else { return Err(lost()) };
        let mut ended = ended.subscribe();
        if let Err(error) = self.line.execute("RELEASE transition").await {
            return Err(Arc::new(error));
        }
        self.line.set_unfinished(false);
        drop(self);
        let result = match ended.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        result.unwrap_or_else(|| Err(lost()))
    }
}

impl Drop for Transition {
    /// Asks for the commit, behind everyone who is waiting by now.
    fn drop(&mut self) {
        let State::Open { closing, .. } = &mut self.line.state else { return };
        if !std::mem::replace(closing, true)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let all = Arc::clone(&self.all);
            runtime.spawn(async move { all.lock().await.commit().await });
        }
    }
}

/// The transaction ended and nobody said how: the runtime is going down.
fn lost() -> Arc<sqlx::Error> {
    Arc::new(sqlx::Error::WorkerCrashed)
}

/// Only handed out while there is a connection, which nothing takes away while it lives.
const CONNECTED: &str = "a transition has a connection";

impl Deref for Transition {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.line.connection.as_ref().expect(CONNECTED)
    }
}

impl DerefMut for Transition {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.line.connection.as_mut().expect(CONNECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Store;

    async fn note(store: &Store, key: i64) -> Transition {
        let mut tx = store.begin().await.unwrap();
        let insert = "INSERT INTO file_memo VALUES (?, 0, 0, 0, 0, 0, '')";
        sqlx::query(insert).bind(key.to_le_bytes().as_slice()).execute(&mut *tx).await.unwrap();
        tx
    }

    async fn noted(store: &Store) -> i64 {
        sqlx::query_scalar("SELECT COUNT(*) FROM file_memo").fetch_one(store.readers()).await.unwrap()
    }

    #[tokio::test]
    async fn transitions_that_wait_together_are_committed_together() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "x").await.unwrap();
        let first = note(&store, 0).await;
        let second = tokio::spawn({
            let store = store.clone();
            async move { note(&store, 1).await.commit().await }
        });
        // It waits in line for as long as the first one takes.
        tokio::task::yield_now().await;
        let committed = tokio::spawn(first.commit());
        second.await.unwrap().unwrap();
        assert!(committed.is_finished() || committed.await.unwrap().is_ok());
        assert_eq!(noted(&store).await, 2);
    }

    #[tokio::test]
    async fn what_fails_or_is_dropped_leaves_its_neighbours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "x").await.unwrap();
        let tasks: Vec<_> = (0..40)
            .map(|key| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut tx = note(&store, key).await;
                    match key % 4 {
                        0 => drop(tx),
                        1 => assert!(sqlx::query("nonsense").execute(&mut *tx).await.is_err()),
                        _ => tx.commit().await.unwrap(),
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(noted(&store).await, 20);
    }

    #[tokio::test]
    async fn e43_a_transaction_that_sqlite_gave_up_fails_everyone_in_it_and_no_one_after() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "x").await.unwrap();
        let mut second = {
            let first = note(&store, 0).await;
            let waiting = tokio::spawn({
                let store = store.clone();
                async move { note(&store, 1).await }
            });
            tokio::task::yield_now().await;
            let first = tokio::spawn(first.commit());
            let second = waiting.await.unwrap();
            assert!(!first.is_finished(), "not durable while its transaction is open");
            (first, second)
        };
        // As a full disk would.
        sqlx::raw_sql("ROLLBACK").execute(&mut *second.1).await.unwrap();
        assert!(second.1.commit().await.is_err());
        assert!(second.0.await.unwrap().is_err());
        assert_eq!(noted(&store).await, 0);
        note(&store, 2).await.commit().await.unwrap();
        assert_eq!(noted(&store).await, 1);
    }
}
