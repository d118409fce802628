//! Artifacts: results that became current by one rename and one transaction.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::attempts::{AttemptEnd, end_attempt, remove};
use crate::database::Store;
use crate::error::StoreError;
use crate::files::{self, ManifestFile};
use crate::layout::Layout;
use crate::lease::stage_lease;
use crate::record::{Artifact, Attempt, AttemptState, StageState};
use crate::runs::set_stage;
use crate::{fault, id};

/// One look into the index for each stage.
const LAST_PARTS: &str = "SELECT wanted.value, artifacts.parts FROM json_each(?1) AS wanted
     JOIN artifacts ON artifacts.rowid =
         (SELECT rowid FROM artifacts WHERE pipeline = ?2 AND stage = wanted.value ORDER BY created_at DESC LIMIT 1)";

/// Name of the manifest inside an artifact.
const MANIFEST: &str = "manifest.json";

/// A whole result in an attempt's folder, about to become current.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    pub attempt: &'a Attempt,
    /// Name of the result's folder in the attempt's folder.
    pub out: &'a str,
    pub kind: &'a str,
    pub pipeline: &'a str,
    /// JSON object: what the fingerprint is made of.
    pub parts: &'a str,
    pub files: &'a [ManifestFile],
    /// JSON.
    pub summary: &'a str,
    /// Of this attempt.
    pub seconds: f64,
    pub peak_rss_bytes: u64,
}

impl Store {
    /// Verifies a result, moves it into place, and records attempt, artifact and stage in one transaction,
    /// which also gives the stage's lease back. Killed anywhere, it can be called again.
    pub async fn publish(&self, p: Publication<'_>) -> Result<Artifact, StoreError> {
        let path = Layout::artifact_name(p.kind, &p.attempt.fingerprint);
        self.move_into_place(&p, &path).await?;
        let (artifact, mut superfluous) = self.commit_artifact(&p, path).await?;
        fault::point("publish.committed");
        superfluous.push(replaced(&self.layout().attempt(&p.attempt.id)));
        superfluous.retain(|folder| folder.exists());
        if !superfluous.is_empty() {
            remove(superfluous).await;
        }
        Ok(artifact)
    }

    async fn move_into_place(&self, p: &Publication<'_>, path: &str) -> Result<(), StoreError> {
        let attempt = self.layout().attempt(&p.attempt.id);
        let (out, target) = (attempt.join(p.out), self.layout().resolve(path));
        let (manifest, files) =
            (manifest(p.kind, &p.attempt.fingerprint, p.parts, p.files, p.summary)?, p.files.to_vec());
        let work =
            tokio::task::spawn_blocking(move || move_into_place(&attempt, &out, &target, &manifest, &files));
        work.await.unwrap_or_else(|e| Err(StoreError::io(self.layout().root())(std::io::Error::other(e))))
    }

    /// Also forgets the stage's checkpoints; what is left of them on disk is returned.
    async fn commit_artifact(
        &self,
        p: &Publication<'_>,
        path: String,
    ) -> Result<(Artifact, Vec<PathBuf>), StoreError> {
        let attempt = p.attempt;
        let mut tx = self.begin().await?;
        let end = AttemptEnd {
            state: AttemptState::Succeeded,
            class: None,
            code: "",
            message: "",
            help: "",
            seconds: p.seconds,
            peak_rss_bytes: p.peak_rss_bytes,
        };
        end_attempt(&mut tx, attempt, &end).await?;
        // What it cost: all attempts since the result that this one replaces, if any.
        let (seconds, peak): (f64, i64) = sqlx::query_as(
            "SELECT TOTAL(seconds), COALESCE(MAX(peak_rss_bytes), 0) FROM attempts WHERE fingerprint = ?1
             AND created_at > COALESCE((SELECT created_at FROM artifacts WHERE fingerprint = ?1), 0)",
        )
        .bind(&attempt.fingerprint)
        .fetch_one(&mut *tx)
        .await?;
        let artifact: Artifact = sqlx::query_as(
            "INSERT OR REPLACE INTO artifacts (fingerprint, kind, path, pipeline, stage, run_id, attempt_id, parts,
                 files, summary, bytes, seconds, peak_rss_bytes, created_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *",
        )
        .bind(&attempt.fingerprint)
        .bind(p.kind)
        .bind(path)
        .bind(p.pipeline)
        .bind(&attempt.stage)
        .bind(&attempt.run_id)
        .bind(&attempt.id)
        .bind(p.parts)
        .bind(serde_json::to_string(p.files).map_err(|source| StoreError::Unreadable { what: "a file list", source })?)
        .bind(p.summary)
        .bind(p.files.iter().map(|f| f.bytes as i64).sum::<i64>())
        .bind(seconds)
        .bind(peak)
        .bind(id::now_ms())
        .fetch_one(&mut *tx)
        .await?;
        let checkpoints = self.forget_checkpoints_in(&mut tx, &attempt.fingerprint).await?;
        set_stage(&mut tx, &attempt.run_id, &attempt.stage, StageState::Succeeded, "").await?;
        self.release_in(&mut tx, &stage_lease(&attempt.fingerprint)).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        Ok((artifact, checkpoints))
    }

    /// The current artifact of each fingerprint that has one.
    pub async fn artifacts(&self, fingerprints: &[&str]) -> Result<Vec<Artifact>, StoreError> {
        let list = serde_json::to_string(fingerprints).unwrap_or_default();
        sqlx::query_as("SELECT * FROM artifacts WHERE fingerprint IN (SELECT value FROM json_each(?))")
            .bind(list)
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// The current artifact of a fingerprint.
    pub async fn artifact(&self, fingerprint: &str) -> Result<Option<Artifact>, StoreError> {
        Ok(self.artifacts(&[fingerprint]).await?.pop())
    }

    /// Stage and fingerprint parts (JSON) of the newest artifact that each of these stages made in a pipeline
    /// of this name.
    pub async fn last_parts(
        &self,
        pipeline: &str,
        stages: &[&str],
    ) -> Result<Vec<(String, String)>, StoreError> {
        if stages.is_empty() {
            return Ok(Vec::new());
        }
        sqlx::query_as(LAST_PARTS)
            .bind(serde_json::to_string(stages).unwrap_or_default())
            .bind(pipeline)
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// The newest artifact that a stage of this name made in a pipeline of this name.
    pub async fn last_artifact(&self, pipeline: &str, stage: &str) -> Result<Option<Artifact>, StoreError> {
        sqlx::query_as(
            "SELECT * FROM artifacts WHERE pipeline = ? AND stage = ? ORDER BY created_at DESC LIMIT 1",
        )
        .bind(pipeline)
        .bind(stage)
        .fetch_optional(self.readers())
        .await
        .map_err(|e| self.classify(e))
    }
}

impl Store {
    /// Checks an artifact's files and manifest, by content.
    pub fn check_artifact(&self, artifact: &Artifact) -> Result<(), StoreError> {
        let folder = self.layout().resolve(&artifact.path);
        let files = artifact.file_list()?;
        let manifest =
            manifest(&artifact.kind, &artifact.fingerprint, &artifact.parts, &files, &artifact.summary)?;
        if fs::read(folder.join(MANIFEST)).ok() != Some(manifest) {
            let detail = format!("{MANIFEST} is not what it was");
            return Err(StoreError::Mismatch { path: folder, detail });
        }
        files::check_content(&folder, &files)
    }

    /// Forgets an artifact that turned out to be damaged: its stage runs again. Its folder is replaced then.
    pub async fn forget_artifact(&self, fingerprint: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM artifacts WHERE fingerprint = ?")
            .bind(fingerprint)
            .execute(&mut *tx)
            .await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }
}

impl Artifact {
    /// The files it must have.
    pub fn file_list(&self) -> Result<Vec<ManifestFile>, StoreError> {
        serde_json::from_str(&self.files)
            .map_err(|source| StoreError::Unreadable { what: "a file list", source })
    }
}

/// What lies in an artifact as `manifest.json`. It says nothing of times, runs or attempts: the same stage
/// gives the same bytes whoever made it.
#[derive(Serialize)]
struct ArtifactManifest<'a> {
    kind: &'a str,
    fingerprint: &'a str,
    parts: &'a RawValue,
    files: &'a [ManifestFile],
    summary: &'a RawValue,
}

fn manifest(
    kind: &str,
    fingerprint: &str,
    parts: &str,
    files: &[ManifestFile],
    summary: &str,
) -> Result<Vec<u8>, StoreError> {
    let unreadable = |source| StoreError::Unreadable { what: "a manifest", source };
    let manifest = ArtifactManifest {
        kind,
        fingerprint,
        parts: serde_json::from_str(parts).map_err(unreadable)?,
        files,
        summary: serde_json::from_str(summary).map_err(unreadable)?,
    };
    serde_json::to_vec(&manifest).map_err(unreadable)
}

/// Where a result that is being replaced waits for the transaction.
fn replaced(attempt: &Path) -> PathBuf {
    attempt.join("replaced")
}

fn move_into_place(
    attempt: &Path,
    out: &Path,
    target: &Path,
    manifest: &[u8],
    list: &[ManifestFile],
) -> Result<(), StoreError> {
    if !out.exists() && fs::read(target.join(MANIFEST)).is_ok_and(|there| there == manifest) {
        // An earlier call died after the rename.
        return Ok(());
    }
    if out.join(MANIFEST).exists() {
        // Left by an earlier call that died after writing it.
        fs::remove_file(out.join(MANIFEST)).map_err(StoreError::io(out))?;
    }
    files::verify(out, list)?;
    fault::point("publish.verified");
    files::write_whole(&out.join(MANIFEST), manifest)?;
    files::sync_tree(out)?;
    fault::point("publish.manifest");
    if target.exists() {
        let aside = replaced(attempt);
        let _ = fs::remove_dir_all(&aside);
        fs::rename(target, &aside).map_err(StoreError::io(target))?;
    }
    fault::point("publish.replaced");
    fs::rename(out, target).map_err(StoreError::io(target))?;
    let artifacts = target.parent().unwrap_or(target);
    files::sync_dir(artifacts).map_err(StoreError::io(artifacts))?;
    fault::point("publish.renamed");
    Ok(())
}
