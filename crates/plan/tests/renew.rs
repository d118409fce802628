//! A run that goes on takes from the file what changes no result, and nothing else.

mod common;

use common::{parse, plan};
use spec::StageConfig;

const BEFORE: &str = r#"
[pipeline]
name = "t"
[stages.base]
kind = "pretrain"
format = "synthetic-qa"
[stages.data]
kind = "prepare"
format = "synthetic-qa"
model = "base"
[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"
[stages.ppo]
kind = "ppo"
model = "sft"
data = "data"
kl_coef = 0.02
save_steps = 10
"#;

#[test]
fn e14_execution_keys_are_those_of_the_file_as_it_is_now() {
    let mut planned = plan(&parse(BEFORE));
    let after = BEFORE
        .replace("kl_coef = 0.02", "kl_coef = 0.5\nmax_retries = 7\ntimeout = \"2 h\"")
        .replace("save_steps = 10", "save_steps = 3");
    let after = format!("{after}\n[executor]\nmax_parallel = 2\n").replace("[stages.base]", "[stages.other]");
    let after = after.replace("\"base\"", "\"other\"");
    let (before, now) = (planned.clone(), plan(&parse(&after)));
    planned.take_execution_keys(&now);

    let ppo = planned.stage("ppo").expect("the stage");
    assert_eq!((ppo.max_retries, ppo.timeout), (7, 7200.0));
    let StageConfig::Ppo(config) = &ppo.config else { panic!("of kind ppo") };
    assert_eq!((config.save_steps, config.kl_coef), (3, 0.02));
    assert_eq!(planned.executor.max_parallel, 2);
    for (stage, old) in planned.stages.iter().zip(&before.stages) {
        assert_eq!((&stage.fingerprint, &stage.parts), (&old.fingerprint, &old.parts), "{}", stage.name);
    }
    assert_eq!(planned.stage("base"), before.stage("base"), "what is not in the file stays");
}
