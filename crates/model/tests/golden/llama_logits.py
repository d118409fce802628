"""Writes llama_logits.json: logits, losses and gradients of tiny Llamas as transformers and PEFT compute them.

Run it with `pip install torch transformers peft` at hand: `python llama_logits.py > llama_logits.json`.
Weights come from a formula (`value`) that suite/tiny.rs has too, so that none has to be stored.
"""

import json
import sys
import zlib

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

MASK = 0xFFFFFFFF


def values(name, shape):
    """The i-th value of a tensor: a hash of (crc32(name), i), uniform in [-0.5, 0.5); norms lie around 1."""
    n = int(np.prod(shape))
    x = (np.arange(n, dtype=np.uint64) * 2654435761 + zlib.crc32(name.encode())) & MASK
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x45D9F3B)) & MASK
    x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x45D9F3B)) & MASK
    x = x ^ (x >> np.uint64(16))
    unit = (x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5
    if name.endswith("norm.weight"):
        unit = 1 + 0.4 * unit
    return torch.tensor(unit.astype(np.float32).reshape(shape))


def fill(model, rename=lambda name: name):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values(rename(name), tuple(parameter.shape)))
    return model.eval()


def config(tied, head_dim):
    return LlamaConfig(
        vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=head_dim, max_position_embeddings=64, rms_norm_eps=1e-5,
        rope_theta=10000.0, tie_word_embeddings=tied, attn_implementation="eager", pad_token_id=0,
    )


IDS = [5, 17, 2, 2, 21, 9, 14]


def lm_case(model):
    ids = torch.tensor([IDS])
    logits = model(ids).logits[0]
    logprobs = torch.log_softmax(logits, -1)[:-1].gather(1, ids[0, 1:, None])[:, 0]
    loss = -logprobs.mean()
    loss.backward()
    gradients = {
        name: {"sum": p.grad.sum().item(), "abs_sum": p.grad.abs().sum().item(), "first": p.grad.flatten()[0].item()}
        for name, p in model.named_parameters() if p.grad is not None
    }
    return {"logits": logits.flatten().tolist(), "logprobs": logprobs.tolist(), "loss": loss.item(), "gradients": gradients}


def main():
    torch.manual_seed(0)
    cases = {
        "tied": lm_case(fill(LlamaForCausalLM(config(True, 4)))),
        "untied_wide_heads": lm_case(fill(LlamaForCausalLM(config(False, 6)))),
    }
    lora = LoraConfig(r=3, lora_alpha=6, target_modules="all-linear", task_type="CAUSAL_LM")
    base = fill(LlamaForCausalLM(config(True, 4)))
    adapted = get_peft_model(base, lora)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                name = name.replace(".default", "")
                parameter.copy_(values(name, tuple(parameter.shape)))
    case = lm_case(adapted.eval())
    case["gradients"] = {k.replace(".default", ""): v for k, v in case["gradients"].items()}
    cases["lora"] = case

    scored = config(True, 4)
    scored.num_labels = 1
    classifier = fill(LlamaForSequenceClassification(scored))
    with torch.no_grad():
        cases["score"] = {"score": classifier(torch.tensor([IDS])).logits.item()}
    versions = {"torch": torch.__version__, "transformers": __import__("transformers").__version__, "peft": __import__("peft").__version__}
    json.dump({"versions": versions, "ids": IDS, "cases": cases}, sys.stdout, indent=None)
    print()


main()
