"""What Snakemake and DVC take for the work of `cargo bench -p engine`: stages that do next to nothing.

    python3 -m venv venv && venv/bin/pip install snakemake dvc
    venv/bin/python crates/engine/benches/compare.py [STAGES]

Chains of four stages, each writing one small file. Prints seconds for a first run and for one with nothing to do.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
ENV = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "DVC_NO_ANALYTICS": "1"}


def run(folder, *command):
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=ENV, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def chains(stages):
    for chain in range(stages // 4):
        for link in range(4):
            source = f"out/{chain}_{link - 1}" if link else None
            yield f"s{chain}_{link}", source, f"out/{chain}_{link}"


def snakemake(folder, stages):
    rules = [f"rule all:\n    input: {[target for _, _, target in chains(stages)]!r}\n"]
    for name, source, target in chains(stages):
        given = f"    input: {source!r}\n" if source else ""
        rules.append(f"rule {name}:\n{given}    output: {target!r}\n    shell: 'echo {name} > {{output}}'\n")
    (folder / "Snakefile").write_text("\n".join(rules))
    command = ("snakemake", "--cores", str(os.cpu_count()), "--quiet", "all")
    return run(folder, *command), run(folder, *command)


def dvc(folder, stages):
    run(folder, "git", "init", "-q")
    run(folder, "dvc", "init", "-q")
    text = ["stages:"]
    for name, source, target in chains(stages):
        text.append(f"  {name}:\n    cmd: mkdir -p out && echo {name} > {target}")
        if source:
            text.append(f"    deps: [{source}]")
        text.append(f"    outs: [{target}]")
    (folder / "dvc.yaml").write_text("\n".join(text) + "\n")
    command = ("dvc", "repro", "-q")
    return run(folder, *command), run(folder, *command)


def main():
    stages = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for tool, count in ((snakemake, stages), (dvc, min(stages, 200))):
        with tempfile.TemporaryDirectory() as folder:
            first, again = tool(Path(folder), count)
        print(f"{tool.__name__:<10} {count} stages: {count / first:8.1f} /s, nothing to do {again * 1000:9.0f} ms", flush=True)


if __name__ == "__main__":
    main()
