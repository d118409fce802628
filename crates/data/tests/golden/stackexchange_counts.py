#!/usr/bin/env python3
"""Counts posts, scores and answer pairs of Stack Exchange dumps, independently of the Rust reader.

    python3 stackexchange_counts.py FOLDER > stackexchange_counts.json

FOLDER holds NAME-Posts.xml files. Only the standard library is used: xml.etree reads the file, and the score
rule is written out again from the description of HuggingFaceH4/stack-exchange-preferences.
"""

import collections
import itertools
import json
import math
import pathlib
import sys
import xml.etree.ElementTree

PAIRS_PER_QUESTION = 10


def rule(votes, accepted):
    base = -1 if votes < 0 else round(math.log2(1 + votes))
    return base + 1 if accepted else base


def counts(path):
    questions, answers = {}, []
    for _, row in xml.etree.ElementTree.iterparse(path):
        if row.get("PostTypeId") == "1":
            questions[row.get("Id")] = row.get("AcceptedAnswerId")
        elif row.get("PostTypeId") == "2":
            answers.append((row.get("ParentId"), row.get("Id"), int(row.get("Score"))))
    votes, scores = collections.defaultdict(list), collections.defaultdict(list)
    for parent, identity, score in answers:
        if parent in questions:
            votes[parent].append(score)
            scores[parent].append(rule(score, questions[parent] == identity))
    unequal = lambda values: sum(a != b for a, b in itertools.combinations(values, 2))
    histogram = collections.Counter(score for values in scores.values() for score in values)
    return {
        "questions": len(questions),
        "answers": len(answers),
        "orphans": sum(parent not in questions for parent, _, _ in answers),
        "pairs_with_unequal_votes": sum(map(unequal, votes.values())),
        "pairs_with_unequal_scores": sum(map(unequal, scores.values())),
        "pairs_within_limit": sum(min(PAIRS_PER_QUESTION, unequal(v)) for v in scores.values()),
        "score_histogram": {str(score): histogram[score] for score in sorted(histogram)},
    }


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    files = sorted(folder.glob("*-Posts.xml"))
    json.dump({path.name: counts(path) for path in files}, sys.stdout, indent=2)
    print()
