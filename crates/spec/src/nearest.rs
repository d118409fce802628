//! "Did you mean": the nearest valid name, and names that other tools use for the same thing.

/// The valid name most like `word`, when one is like enough to be meant.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &fold(name)), name))
        .filter(|(distance, name)| *distance <= 1.max(word.len().min(name.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Old or foreign names of keys, and ours.
const ALIASES: &[(&str, &str)] = &[
    ("alpha", "lora_alpha"),
    ("base_model", "base"),
    ("batch_size", "per_device_train_batch_size"),
    ("beta", "kl_coef"),
    ("clip_range", "cliprange"),
    ("clip_range_vf", "cliprange_value"),
    ("completion", "completions"),
    ("dataset", "data"),
    ("depends_on", "requires"),
    ("epochs", "num_train_epochs"),
    ("eval_size", "eval"),
    ("gae_lambda", "lam"),
    ("gamma", "reward_loss_coef"),
    ("grad_accum", "gradient_accumulation_steps"),
    ("init_kl_coef", "kl_coef"),
    ("lambda", "lam"),
    ("lora_r", "r"),
    ("lora_rank", "r"),
    ("lr", "learning_rate"),
    ("lr_scheduler", "lr_scheduler_type"),
    ("max_new_tokens", "response_length"),
    ("max_seq_length", "max_length"),
    ("micro_batch_size", "per_device_train_batch_size"),
    ("mini_batch_size", "num_mini_batches"),
    ("model_name_or_path", "base"),
    ("n_epochs", "num_train_epochs"),
    ("needs", "requires"),
    ("num_heads", "num_attention_heads"),
    ("num_layers", "num_hidden_layers"),
    ("ppo_epochs", "num_ppo_epochs"),
    ("rank", "r"),
    ("retries", "max_retries"),
    ("source", "path"),
    ("template", "prompt_template"),
    ("value_clip", "cliprange_value"),
    ("vf_coeff", "vf_coef"),
];

/// What another tool's key is called here, if this table has it; forgives a typo in it.
pub fn alias<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let here = ALIASES.iter().filter(|(_, ours)| names.contains(ours));
    let theirs = nearest(word, here.map(|(theirs, _)| *theirs))?;
    let ours: Vec<_> = ALIASES.iter().filter(|(name, _)| *name == theirs).map(|(_, ours)| *ours).collect();
    names.into_iter().find(|name| ours.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_only() {
        assert_eq!(nearest("lora_ranl", ["lora_rank", "r"]), Some("lora_rank"));
        assert_eq!(nearest("sfft", ["ppo", "sft"]), Some("sft"));
        assert_eq!(nearest("max-new-tokens", ["max_new_tokens"]), Some("max_new_tokens"));
        assert_eq!(nearest("banana", ["r", "sft", "kl_coef"]), None);
    }

    #[test]
    fn a98_names_of_other_tools() {
        assert_eq!(alias("lora_rank", ["r", "lora_alpha"]), Some("r"));
        assert_eq!(alias("lora_ranl", ["r", "lora_alpha"]), Some("r"));
        assert_eq!(alias("beta", ["r"]), None);
    }
}
