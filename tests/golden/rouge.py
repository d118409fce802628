"""Golden numbers of ROUGE and of its stemmer: writes rouge.json and porter.json beside this file.

    python -m venv venv && venv/bin/pip install rouge-score==0.1.2 nltk==3.10.4
    venv/bin/python tests/golden/rouge.py
"""

import itertools
import json
import pathlib
import pydoc_data.topics
import random
import re

from nltk.stem.porter import PorterStemmer
from rouge_score.rouge_scorer import RougeScorer

HERE = pathlib.Path(__file__).parent
TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
SEED = 20231117

BY_HAND = [
    ("police killed the gunman", "the gunman police killed"),
    ("café déjà vu", "cafe deja vu"),
    ("你好世界 再见", "你好世界 再见"),
    ("สวัสดีชาวโลก", "สวัสดีชาวโลก"),
    ("snake_case_name here", "snake case name here"),
    ("GPT-4 scored 3.14 in 2023", "gpt 4 scored 3 14 in 2023"),
    ("first line here\nsecond line there", "second line there\nfirst line here"),
    ("a a a b", "a b b b"),
    ("10 \u212a water", "10 k water"),
    ("\u0130stanbul", "istanbul"),
    ("ΟΔΥΣΣΕΥΣ and STRASSE ẞ ß", "οδυσσευς and strasse ss ss"),
    ("use <code>foo()</code> &amp; bar", "use foo & bar"),
    ("running runners ran quickly", "run runner run quick"),
    ("the reference", ""),
    ("", "the prediction"),
    ("", ""),
    ("?!… —", ".,;"),
    ("\n\n\n", "\n"),
    ("one\r\ntwo\r\n\r\nthree", "one\ntwo\n\nthree"),
    ("one\u2028two\u0085three\u00a0four", "one two\nthree four"),
    ("a\x00b\x1fc", "a b c"),
    ("word " * 300, "word"),
    ("x" * 500 + "ing", "x" * 500),
    ("yyyyyy yyyying syzygying", "yyyyyi syzygi"),
    ("１２３ ａｂｃ ² ⅷ", "123 abc 2 viii"),
    ("flies dies skies news innings", "fly die sky new inning"),
    ("😀 emoji 👩‍👩‍👧 family", "emoji family 😀"),
]


def words():
    """Real English words, and every suffix of the algorithm on stems of every shape."""
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    real = sorted(set(re.findall(r"[a-z]+", text)))
    suffixes = """ s es ies sses ss ed eed ied ing ings y ational tional enci anci izer bli alli entli eli
        ousli ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate ative
        alize iciti ical ful ness al ance ence er ic able ible ant ement ment ent ion sion tion ou ism ate
        iti ous ive ize e ll lly fully ology alally allli""".split()
    stems = """ b y by sk tr hop hopp fall fizz hiss fail fil siz conflat troubl tann plaster motor rel
        condit valenc hesit digit conform radic differ vile analog vietnam predic oper feud decis hope
        call form sensit electr tripl revi allow infer airlin gyroscop adjust defens irrit replac depend
        adopt homolog commun activ angular effect bowdler prob rat ceas control rol ow ax ay toy syzyg
        ee io u geo archaeo theo 3d x2 99 a1b b00k""".split()
    made = sorted({stem + suffix for stem, suffix in itertools.product(stems, suffixes)})
    rng = random.Random(SEED)
    letters = [
        "".join(rng.choice("aeiouybcdlstzngw19") for _ in range(rng.randint(1, 9))) for _ in range(1500)
    ]
    endings = [word + rng.choice(suffixes) for word in letters[:750]]
    pool = list(PorterStemmer().pool)
    return sorted(set(rng.sample(real, min(2500, len(real))) + made + letters + endings + pool))


def pairs():
    """Random texts over small and large vocabularies, edited copies, odd characters, many lines."""
    rng = random.Random(SEED)
    vocabulary = words()
    odd = ["é", "Ж", "中", "\u0301", "'", "’s", "-", "_", "...", "\t", "\u00a0", "İ", "K", "ﬁ", "Å"]
    yield from BY_HAND
    for index in range(300 - len(BY_HAND)):
        size = [3, 8, 40, len(vocabulary)][index % 4]
        pool = rng.sample(vocabulary, size)

        def text(limit):
            parts = []
            for _ in range(rng.randint(0, limit)):
                word = rng.choice(pool)
                word = rng.choice([word, word, word.upper(), word.capitalize(), word + rng.choice(odd)])
                parts.append(word + rng.choice([" "] * 6 + ["\n", "\n\n", ", "]))
            return "".join(parts)

        target = text(rng.choice([5, 20, 45]))
        if index % 3:
            prediction = text(rng.choice([5, 20, 45]))
        else:
            tokens = re.split(r"(\s)", target)
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(tokens))
                tokens[at] = rng.choice([rng.choice(pool), "", "\n", tokens[at] + tokens[at]])
            prediction = "".join(tokens)
        yield target, prediction


def main():
    scorers = {stem: RougeScorer(TYPES, use_stemmer=stem) for stem in (False, True)}
    rows = []
    for target, prediction in pairs():
        row = {"target": target, "prediction": prediction}
        for stem, scorer in scorers.items():
            scores = scorer.score(target, prediction)
            row["stemmed" if stem else "plain"] = [list(scores[name]) for name in TYPES]
        rows.append(row)
    dump = lambda name, lines: (HERE / name).write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")
    dump("rouge.json", rows)
    stemmer = PorterStemmer()
    stems = [[word, stemmer.stem(word)] for word in words()]
    dump("porter.json", [stems[at:at + 20] for at in range(0, len(stems), 20)])


main()
