//! Rules of single kinds: keys that contradict each other, or that would be read by nobody.

use super::File;
use crate::mistake::{Mistakes, Problem};
use crate::node::Content;
use crate::pipeline::{Pipeline, Stage, TargetModules};
use crate::section::Section;
use crate::stage::{
    Architecture, Format, Judge, Method, Ppo, Prepare, Pretrain, Provider, Source, StageConfig,
};

pub(super) fn check(pipeline: &Pipeline, file: &File<'_>, out: &mut Mistakes) {
    for stage in &pipeline.stages {
        let mut check = Check { stage, pipeline, file, out };
        check.start_model();
        if let Some(source) = stage.config.source() {
            check.source(source);
        }
        match &stage.config {
            StageConfig::Pretrain(config) => check.pretrain(config),
            StageConfig::Prepare(config) => check.prepare(config),
            StageConfig::Ppo(config) => check.ppo(config),
            StageConfig::Judge(config) => check.judge(config),
            StageConfig::Generate(config) => {
                if config.models.is_empty() && check.file.has(&stage.name, "models") {
                    check.conflict(
                        "models",
                        "`models` is empty",
                        "name at least one stage whose model answers",
                    );
                }
                // Models that answer the same prompts share their positions nearly always: one message will do.
                if let Some(model) = config.models.first() {
                    check.positions(model, &config.data, "max_new_tokens", config.max_new_tokens);
                }
            }
            StageConfig::Sft(config) => check.training_rows(&config.model, &config.data),
            StageConfig::Reward(config) => check.training_rows(&config.model, &config.data),
            StageConfig::HydraSft(config) => check.training_rows(&config.model, &config.data),
            StageConfig::RewardEval(_) | StageConfig::Rouge(_) | StageConfig::Report(_) => {}
        }
    }
    lora(pipeline, file, out);
}

fn lora(pipeline: &Pipeline, file: &File<'_>, out: &mut Mistakes) {
    let Some(node) = file.root.get("lora") else { return };
    if matches!(&pipeline.lora.target_modules, TargetModules::Names(names) if names.is_empty()) {
        let at = node.get("target_modules").map_or(&node.at, |node| &node.at);
        let message = "`target_modules` is empty, so that nothing would be trained".into();
        out.note(
            at,
            Problem::Conflict { message, help: "write \"all-linear\" or names such as [\"q_proj\"]".into() },
        );
    }
}

struct Check<'a> {
    stage: &'a Stage,
    pipeline: &'a Pipeline,
    file: &'a File<'a>,
    out: &'a mut Mistakes,
}

impl Check<'_> {
    fn conflict(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        let problem = Problem::Conflict { message: message.into(), help: help.into() };
        self.out.note(&self.file.at(&self.stage.name, key), problem);
    }

    /// A key in the file that nothing would read.
    fn unread(&mut self, key: &str, why: &str) {
        if self.file.has(&self.stage.name, key) {
            let problem =
                Problem::NoEffect { key: format!("stages.{}.{key}", self.stage.name), why: why.into() };
            self.out.note(&self.file.at(&self.stage.name, key), problem);
        }
    }

    /// Whether a key is not in the file, or an empty string; what has the wrong type is a mistake already.
    fn absent(&self, key: &str) -> bool {
        self.file.find(&self.stage.name, key).is_none_or(|node| node.content == Content::Text(String::new()))
    }

    fn start_model(&mut self) {
        let scratch = matches!(self.stage.config, StageConfig::Pretrain(_));
        if self.stage.config.start_model() == Some("")
            && self.pipeline.model.base.is_empty()
            && !scratch
            && self.absent("model")
        {
            let message = format!("stage `{}` has no model to start from", self.stage.name);
            self.conflict(
                "model",
                message,
                "name a stage with `model`, or give a folder with `base` in [model]",
            );
        }
    }

    fn source(&mut self, source: &Source) {
        if source.format == Format::SyntheticQa {
            self.unread("path", "`synthetic-qa` is generated, not read");
        } else {
            self.unread("questions", "only `format = \"synthetic-qa\"` reads it");
            if source.path.is_empty() && self.absent("path") {
                let problem = Problem::MissingKey {
                    key: "path".into(),
                    table: format!("[stages.{}]", self.stage.name),
                    help: format!("format `{}` is read from a file or folder", source.format.as_str()),
                };
                self.out.note(&self.file.table(&self.stage.name), problem);
            }
        }
    }

    fn pretrain(&mut self, config: &Pretrain) {
        if !config.model.is_empty() || !self.pipeline.model.base.is_empty() {
            for key in Architecture::default().keys() {
                self.unread(key.name, "the model that is continued has its own shape");
            }
            return;
        }
        let shape = &config.architecture;
        let (hidden, heads, groups) =
            (shape.hidden_size, shape.num_attention_heads, shape.num_key_value_heads);
        if !hidden.is_multiple_of(2 * heads) {
            let message = format!("`hidden_size` {hidden} cannot be shared by {heads} attention heads");
            let help = "`hidden_size` must be `num_attention_heads` times an even number (rotary positions)";
            self.conflict("hidden_size", message, help);
        }
        if !heads.is_multiple_of(groups) {
            let message = format!("{heads} attention heads cannot share {groups} key-value heads");
            let help = "`num_attention_heads` must be a multiple of `num_key_value_heads`";
            self.conflict("num_key_value_heads", message, help);
        }
        if config.max_length > shape.max_position_embeddings {
            let message = format!(
                "rows of `max_length` {} do not fit into `max_position_embeddings` {}",
                config.max_length, shape.max_position_embeddings
            );
            self.conflict("max_length", message, "lower the one or raise the other");
        }
    }

    fn prepare(&mut self, config: &Prepare) {
        if config.split.contains_key("eval") && config.eval > 0 {
            let help = "remove `eval` from `split`, or set `eval = 0`";
            self.conflict("split", "both `split` and `eval` make a split `eval`", help);
        }
        if config.split.is_empty() && config.eval == 0 {
            self.conflict("split", "no split is made", "give `split` shares such as { sft = 6, ppo = 4 }");
        }
        if let Some(name) =
            config.split.keys().find(|name| name.is_empty() || name.contains(['/', '\\', '.']))
        {
            let message = format!("`{name}` cannot be the name of a split");
            self.conflict("split", message, "splits become files: use letters, digits, `-` and `_`");
        }
        if config.prompt_template.matches("{prompt}").count() != 1 {
            let message = "`prompt_template` must contain `{prompt}` exactly once";
            self.conflict("prompt_template", message, "such as \"Question: {prompt}\\nAnswer:\"");
        }
    }

    fn ppo(&mut self, config: &Ppo) {
        if config.method != Method::Hydra {
            let message =
                format!("`method = \"{}\"` is not available in this version", config.method.as_str());
            self.conflict("method", message, "use `method = \"hydra\"`");
        }
        if !config.batch_size.is_multiple_of(config.num_mini_batches) {
            let message = format!(
                "`batch_size` {} cannot be cut into {} equal mini-batches",
                config.batch_size, config.num_mini_batches
            );
            self.conflict(
                "num_mini_batches",
                message,
                "`batch_size` must be a multiple of `num_mini_batches`",
            );
        }
        if config.total_episodes < config.batch_size {
            let message = format!(
                "`total_episodes` {} is less than one update's `batch_size` {}",
                config.total_episodes, config.batch_size
            );
            self.conflict("total_episodes", message, "raise it, or lower `batch_size`");
        }
        self.positions(&config.model, &config.data, "response_length", config.response_length);
    }

    fn judge(&mut self, config: &Judge) {
        if config.provider == Provider::Openai {
            let authority = config.base_url.split_once("://").map_or("", |(_, rest)| rest);
            if authority.split(['/', '?', '#']).next().is_some_and(|host| host.contains('@')) {
                // Placed at the table, so that the message does not show the line with the secret.
                self.conflict(
                    "kind",
                    "`base_url` has a user name or password in it",
                    "a pipeline file is kept in the state folder: put the key into the variable of `api_key_env`",
                );
            }
            return;
        }
        let openai = "only `provider = \"openai\"` reads it";
        let keys = ["base_url", "api_key_env", "prompt", "max_concurrency", "timeout", "max_attempts"];
        for key in keys.into_iter().chain(["max_cost_usd", "input_price", "output_price"]) {
            self.unread(key, openai);
        }
    }

    fn training_rows(&mut self, model: &str, data: &str) {
        let Some(StageConfig::Prepare(prepare)) = self.file.stage(data).map(|stage| &stage.config) else {
            return;
        };
        self.positions(model, data, "data", prepare.max_response_length);
    }

    /// Prompt and response together must fit into the positions of a model that this pipeline makes.
    fn positions(&mut self, model: &str, data: &str, key: &str, response: usize) {
        let Some(StageConfig::Prepare(prepare)) = self.file.stage(data).map(|stage| &stage.config) else {
            return;
        };
        let Some(positions) = made_positions(self.pipeline, self.file, model) else { return };
        let prompt = prepare.max_prompt_length;
        if prompt + response > positions {
            let message = format!(
                "prompts of {prompt} tokens and responses of {response} do not fit into the model's {positions} positions"
            );
            let help = format!("lower a length, or raise `max_position_embeddings` to {}", prompt + response);
            self.conflict(key, message, help);
        }
    }
}

/// `max_position_embeddings` of the `pretrain` stage at the root of a model, if it is made from scratch here.
fn made_positions<'a>(pipeline: &'a Pipeline, file: &File<'a>, model: &'a str) -> Option<usize> {
    let mut name = model;
    // A chain longer than the pipeline is a cycle, which is reported elsewhere.
    for _ in 0..=pipeline.stages.len() {
        let stage = file.stage(name)?;
        name = match &stage.config {
            StageConfig::Pretrain(config) if config.model.is_empty() => {
                return pipeline.model.base.is_empty().then_some(config.architecture.max_position_embeddings);
            }
            StageConfig::Ppo(config) => &config.model,
            other => other.start_model()?,
        };
    }
    None
}
