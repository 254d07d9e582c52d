"""Small files of SentEval in the layout and the encodings of its toolkit."""

from __future__ import annotations

from pathlib import Path

WORDS = ["one", "two words", "three more words", "four words are here"]
PARTS = ("train", "dev", "test")
# Tasks of two files, the positive one first.
TWO_FILES = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}


def write_toolkit(folder: Path) -> None:
    """Files of all tasks, with their odd bytes. A word of each text tells the classes apart."""
    folder = folder / "downstream"
    for name in (*TWO_FILES, "SST/binary", "SST/fine", "TREC", "MRPC", "SICK", "STS/STSBenchmark"):
        (folder / name).mkdir(parents=True)
    for task, names in TWO_FILES.items():
        for name, ending in zip(names, ("caf\xe9 good", "bad\x85"), strict=True):
            lines = [f"{text} {ending}\n" for text in WORDS * 5]
            (folder / task / name).write_bytes("".join(lines).encode("latin-1"))
    for part in PARTS:
        lines = [f"{text} {'good' if n % 2 else 'bad'}\t{n % 2}\n" for n, text in enumerate(WORDS)]
        (folder / "SST" / "binary" / f"sentiment-{part}").write_text("".join(lines * 5))
        lines = [f"{n % 5} {text} {'x' * (n % 5)}\n" for n, text in enumerate(WORDS * 5)]
        (folder / "SST" / "fine" / f"sentiment-{part}").write_text("".join(lines))
    for name in ("train_5500.label", "TREC_10.label"):
        lines = [f"{('LOC:city', 'NUM:dist')[n % 2]} {text} ?\n" for n, text in enumerate(WORDS)]
        (folder / "TREC" / name).write_bytes("".join(lines * 5).encode("latin-1"))
    for part in ("train", "test"):
        lines = [f'{n % 2}\t1\t2\t"{text}\t{WORDS[-n]} "x\r\n' for n, text in enumerate(WORDS)]
        text = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n" + "".join(lines * 5)
        (folder / "MRPC" / f"msr_paraphrase_{part}.txt").write_text(text, encoding="utf-8")
    write_pairs_with_scores(folder)


def write_pairs_with_scores(folder: Path) -> None:
    """SICK and STS-B: the more words of a pair are equal, the higher is its score."""
    classes = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
    of_sick = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"]
    of_benchmark = []
    for n in range(24):
        equal = n % 4
        first = f"the {'dog ' * equal}{WORDS[n % 3]} {n}"
        second = f"the {'dog ' * equal}{'cat' if equal < 2 else WORDS[n % 3]} {n}"
        of_sick.append(f"{n}\t{first}\t{second}\t{1.5 + equal}\t{classes[n % 3]}\n")
        of_benchmark.append(f"main\tfile\t2012\t{n}\t{equal + 0.4}\t{first}\t{second}\n")
    for ending in ("train", "trial", "test_annotated"):
        (folder / "SICK" / f"SICK_{ending}.txt").write_text("".join(of_sick))
    for part in PARTS:
        path = folder / "STS" / "STSBenchmark" / f"sts-{part}.csv"
        path.write_text("".join(of_benchmark))


def write_sts_folder(folder: Path) -> Path:
    """STS12-en-test with two subsets. One pair has no score, and ALL repeats the others."""
    folder = folder / "downstream" / "STS" / "STS12-en-test"
    folder.mkdir(parents=True)
    for name in ("MSRpar", "surprise.OnWN", "ALL"):
        pairs = [f"a dog {n}\ta {'dog' if n % 2 else 'cat'} {n}\n" for n in range(6)]
        scores = ["\n" if n == 3 else f"{n % 2 * 4 + n / 10}\n" for n in range(6)]
        (folder / f"STS.input.{name}.txt").write_text("".join(pairs))
        (folder / f"STS.gs.{name}.txt").write_text("".join(scores))
    return folder
