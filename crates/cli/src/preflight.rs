//! What can be known to be wrong before any stage starts: the device, paths, data files, model folders.

use std::path::Path;

use miette::Diagnostic;
use serde_json::Value;
use spec::stage::{FileRole, InputFile};
use spec::{Device, ExecutorKind, Mistake, Pipeline, Stage, StageConfig};

use crate::failure::Failure;

/// What the files and folders named by a pipeline are not.
const NOT_THERE: &str = "E0118";

/// Checks everything that the pipeline names; all mistakes at once.
pub fn check(pipeline: &Pipeline) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    // Devices of other machines are for those to find.
    let here = pipeline.stages.iter().any(|s| pipeline.executor.place(&s.name).kind == ExecutorKind::Local);
    if here
        && let Device::Cuda(index) = pipeline.model.device
        && let Err(error) = cuda::probe(index)
    {
        mistakes.push(mistake(pipeline, "model.device", &error));
    }
    let mut base_checked = false;
    for stage in &pipeline.stages {
        for file in stage.files(&pipeline.model.base) {
            match file.role {
                FileRole::Data => data(pipeline, stage, &file, &mut mistakes),
                FileRole::Prompt => readable(pipeline, &file, &mut mistakes),
                FileRole::Model if base_checked => {}
                FileRole::Model => {
                    base_checked = true;
                    model_folder(pipeline, &file, &mut mistakes);
                }
            }
        }
        if stage.config.source().is_some() && stage.files("").is_empty() {
            generated(pipeline, stage, &mut mistakes);
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(Failure::Outside { mistakes }) }
}

/// A data file: there, readable, and with a first row of its format.
fn data(pipeline: &Pipeline, stage: &Stage, file: &InputFile, mistakes: &mut Vec<Mistake>) {
    let checked = match &stage.config {
        StageConfig::Prepare(config) => data::validate_prepare(config),
        other => other.source().map_or(Ok(()), data::validate_source),
    };
    if let Err(error) = checked {
        mistakes.push(mistake(pipeline, &file.key, &error));
    }
}

/// A generated data set: its numbers fit together.
fn generated(pipeline: &Pipeline, stage: &Stage, mistakes: &mut Vec<Mistake>) {
    if let StageConfig::Prepare(config) = &stage.config
        && let Err(error) = data::validate_prepare(config)
    {
        mistakes.push(mistake(pipeline, &format!("stages.{}.questions", stage.name), &error));
    }
}

fn mistake(pipeline: &Pipeline, key: &str, error: &dyn Diagnostic) -> Mistake {
    let code = error.code().map_or_else(|| NOT_THERE.to_owned(), |code| code.to_string());
    let help = error.help().map_or_else(String::new, |help| help.to_string());
    pipeline.mistake(key, code, error.to_string(), help)
}

fn readable(pipeline: &Pipeline, file: &InputFile, mistakes: &mut Vec<Mistake>) {
    if let Err(error) = std::fs::File::open(&file.path) {
        let message = format!("cannot read `{}`: {error}", file.path);
        mistakes.push(pipeline.mistake(
            &file.key,
            NOT_THERE,
            message,
            "relative paths start at the current directory",
        ));
    }
}

/// A model folder: the three files, a readable shape, and positions for the longest rows.
fn model_folder(pipeline: &Pipeline, file: &InputFile, mistakes: &mut Vec<Mistake>) {
    let folder = Path::new(&file.path);
    let mut note =
        |message: String, help: &str| mistakes.push(pipeline.mistake(&file.key, NOT_THERE, message, help));
    if !folder.is_dir() {
        return note(
            format!("`{}` is not a folder", file.path),
            "`base` names a local Hugging Face folder; relative paths start at the current directory",
        );
    }
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        if !folder.join(name).is_file() {
            note(
                format!("the model folder `{}` has no `{name}`", file.path),
                "a model folder holds `config.json`, `model.safetensors` and `tokenizer.json`",
            );
        }
    }
    let Ok(text) = std::fs::read_to_string(folder.join("config.json")) else { return };
    match serde_json::from_str::<Value>(&text) {
        Err(error) => note(format!("`config.json` of `{}` is not JSON: {error}", file.path), ""),
        Ok(config) => {
            if let Some(message) = too_long(pipeline, &config) {
                note(message, "lower `max_prompt_length` or the length of responses");
            }
        }
    }
}

/// Rows that do not fit into the positions of the base model.
fn too_long(pipeline: &Pipeline, config: &Value) -> Option<String> {
    let positions = config.get("max_position_embeddings")?.as_u64()?;
    let lengths = pipeline.stages.iter().filter_map(|stage| match &stage.config {
        StageConfig::Prepare(prepare) if prepare.model.is_empty() => {
            Some((stage, prepare.max_prompt_length + prepare.max_response_length))
        }
        _ => None,
    });
    let (stage, longest) = lengths.max_by_key(|(_, length)| *length)?;
    (longest as u64 > positions).then(|| {
        format!(
            "rows of stage `{}` have up to {longest} tokens, but the base model has {positions} positions",
            stage.name
        )
    })
}

/// Keys of remote judges that will be asked. Called for stages that will run only.
pub fn keys(pipeline: &Pipeline, will_run: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let mut mistakes = Vec::new();
    for stage in pipeline.stages.iter().filter(|stage| will_run(&stage.name)) {
        let StageConfig::Judge(judge) = &stage.config else { continue };
        let needed = judge.provider == spec::stage::Provider::Openai && !judge.api_key_env.is_empty();
        if needed && std::env::var_os(&judge.api_key_env).is_none_or(|key| key.is_empty()) {
            let key = format!("stages.{}.api_key_env", stage.name);
            let message = format!("the environment variable {} is not set or empty", judge.api_key_env);
            let help =
                "the endpoint's key is read from it; set it, or write `api_key_env = \"\"` to send no key";
            mistakes.push(pipeline.mistake(&key, NOT_THERE, message, help));
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(Failure::Outside { mistakes }) }
}
