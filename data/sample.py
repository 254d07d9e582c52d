"""The generator of the sample data set: English sentences whose labels follow from their meaning by rule.

It writes nine files in the course's own format, the same bytes each time. A reader can tell each label; counting words
is not enough. In its lists `/` joins words of one meaning, `,` separates meanings and `|` separates families.
"""

import argparse
import csv
import re
from collections import Counter
from pathlib import Path
from random import Random

from data.readers import COURSE_FILES, PARA, SST, STS

NUM_ROWS = {"train": 3000, "dev": 500, "test": 500}

# --- SST: a judgement is a score from -2 to 2, the label is the score of the main clause plus 2.
ADJECTIVES = {
    2: "superb, brilliant, magnificent, outstanding, extraordinary, wonderful, glorious, unforgettable",
    1: "good, pleasant, charming, clever, lively, fresh, graceful, amusing, touching, interesting",
    0: "average, ordinary, conventional, typical, middling, standard",
    -1: "bad, dull, weak, clumsy, boring, stale, awkward, silly, slow, annoying",
    -2: "dreadful, awful, terrible, horrible, appalling, disastrous, wretched, hideous",
}
BOOSTERS = "truly, remarkably, extremely, deeply, utterly"  # a mild word becomes a strong one
SOFTENERS = "only mildly, only faintly, only moderately"  # a mild word becomes neutral
NEGATIONS = "not, hardly, scarcely, never"  # what is not good is bad; what is not superb may still be anything else
NEGATED = {2: 0, 1: -1, 0: 0, -1: 1, -2: 0}
DENIALS = "far from, by no means, in no way"  # the same, but said of mild words only
OPPOSITES = (
    "anything but, the very opposite of"  # a mild word becomes a strong one of the other side
)
DOUBTS = "I do not think that this is, nobody would claim that this is, I cannot say that this is"  # negations too
ASPECTS = (
    "the plot, the script, the dialogue, the music, the camera work, the ending, the opening, the lead actor, "
    "the humour, the villain, the story, the editing, the direction, the cast, the acting, the pacing | "
    "the jokes, the songs, the costumes, the performances, the effects, the fight scenes, the dance numbers"
)
GENRES = "thriller, comedy, drama, western, musical, documentary, romance, cartoon, mystery, war film, fairy tale"
HEROES = "detective, soldier, widow, painter, thief, sailor, nurse, teacher, pianist, farmer, spy, judge, robot, king"
MAIN_CLAUSE_WINS = (
    "although {side}, {main}",
    "{main}, although {side}",
    "while {side}, {main}",
    "{main}, even though {side}",
    "{side}, but {main}",
    "{side}, yet {main}",
)
CLAUSES_AGREE = (
    "{side} and {main}",
    "I think that {side} and that {main}",
    "{side}, just as {main}",
)

# --- PARA: the templates of one entry ask the same; where they hold [this|that], the choice decides what they ask.
VALUES = {
    "city": "Paris, London, Berlin, Madrid, Rome, Moscow, Tokyo, Boston, Chicago, Toronto, Sydney, Dublin",
    "country": "France, Spain, Germany, Italy, Japan, China, India, Brazil, Mexico, Canada, Russia, Egypt",
    "sport": "football/soccer, hockey, tennis, chess, basketball, rugby",
    "item": "car/automobile, bicycle/bike, sofa/couch, television/TV, fridge/refrigerator, camera, piano, boat, tent",
    "job": "doctor/physician, lawyer/attorney, teacher, writer/author, policeman/police officer, nurse, pilot, judge",
    "relative": "brother, sister, cousin, neighbour, boss/manager, colleague/coworker, father/dad, mother/mum, uncle",
    "number": "two/2, three/3, four/4, five/5, six/6, seven/7, eight/8, nine/9, ten/10",
    "animal": "dogs, cats/felines, horses, cows/cattle, birds, rabbits/bunnies, mice, bears, pigs, monkeys",
    "food": "cheese, fish, rice, bread, honey, apples, eggs, nuts, pears, carrots, tomatoes, onions",
    "habit": "smoking, gambling, drinking coffee, eating meat, playing video games, skipping lunch, jogging, hunting",
}
QUESTIONS = (
    (
        "What is the [cheapest|fastest] way to travel from {city} to {city_2}?",
        "How can I get to {city_2} from {city} [for as little money|in as little time] as possible?",
    ),
    (
        "Where can I [buy/purchase|sell] a used {item} in {city}?",
        "In {city}, what is a good place to [get|offer] a second-hand {item}?",
    ),
    ("How do I [become|hire] a {job}?", "What does it take to [work as|employ] a {job}?"),
    (
        "When did {country} defeat {country_2} at {sport}?",
        "When did {country_2} lose to {country} at {sport}?",
    ),
    (
        "Should I [lend money to|borrow money from] my {relative}?",
        "Is it wise to [give my {relative} a loan|get a loan from my {relative}]?",
    ),
    (
        "How can I [lose|gain] {number} kilos in {number_2} weeks?",
        "Within {number_2} weeks, what makes me {number} kilos [lighter|heavier]?",
    ),
    ("Why do {animal} [like|not like] {food}?", "What makes {animal} [fond|sick] of {food}?"),
    ("How do I [stop/quit|start/begin] {habit}?", "What makes it easy to [give|take] up {habit}?"),
)

# --- STS: five points for what two scenes share; a related part (same family) or a part only one mentions counts half.
WEIGHTS = {"verb": 1.5, "object": 1.5, "person": 1.0, "quality": 0.5, "place": 0.5}
DEPENDS_ON = {
    "quality": "person",
    "place": "verb",
}  # a shared place means little when something else happens there
PEOPLE = (
    "man/guy, woman/lady | boy/lad, child/kid | doctor/physician, policeman/constable | "
    "chef/cook, butler/servant | painter/artist, singer/vocalist"
)
QUALITIES = (
    "happy/cheerful, sad/unhappy | rich/wealthy, poor/needy | tired/weary, famous/well-known"
)
PLACES = (
    "on a beach/at the seaside, in a forest/in the woods | in a hotel/in an inn, in a restaurant/in a diner | "
    "in the street/on the road, near a church/near a chapel"
)
OBJECTS = {
    "person": PEOPLE,
    "garment": "coat/jacket, jumper/sweater | hat/cap, purse/handbag",
    "food": "sweet/candy, biscuit/cookie | pie/tart, potato/spud",
    "vehicle": "car/automobile, truck/lorry | bicycle/bike, boat/ship",
    "text": "letter/note, poem/verse | newspaper/paper, novel/book",
}
ACTIONS = {  # what can be done to which objects ("any": to all but people); each verb as "active>passive"
    "person": "chasing>chased/pursuing>pursued, following>followed | greeting>greeted/welcoming>welcomed, "
    "hugging>hugged/embracing>embraced | helping>helped/assisting>assisted, teaching>taught",
    "garment": "wearing>worn/putting on>put on, mending>mended/sewing>sewn",
    "food": "eating>eaten/swallowing>swallowed, slicing>sliced/cutting>cut",
    "vehicle": "repairing>repaired/fixing>fixed, washing>washed/cleaning>cleaned",
    "text": "reading>read/studying>studied, writing>written/composing>composed",
    "any": "buying>bought/purchasing>purchased, finding>found/discovering>discovered",
}
SCENES = (
    "{person} is {active} {object} {place}.",
    "{object} is being {passive} by {person} {place}.",
    "There is {person} {active} {object} {place}.",
)


def read_meanings(text: str, table: str = "") -> list[tuple[str, tuple[str, ...]]]:
    """Word list -> (family, words of one meaning), as the marks `|`, `,` and `/` say."""
    return [
        (f"{table}{number}", tuple(word.strip() for word in meaning.split("/")))
        for number, family in enumerate(text.split("|"))
        for meaning in family.split(",")
    ]


def choose_word(random: Random, text: str) -> str:
    """One word of a list: a meaning at random, then one of its words."""
    return random.choice(random.choice(read_meanings(text))[1])


def correct_spelling(text: str) -> str:
    """No double spaces, `an` for `a` before a vowel (but not in "a used"), a capital at the start."""
    text = re.sub(r"\b([Aa]) (?=[aeio]|un)", r"\1n ", re.sub(" +", " ", text))
    return text[0].upper() + text[1:]


def make_clause(random: Random) -> tuple[str, int]:
    """A judgement of one side of a film, and its score."""
    family, (aspect,) = random.choice(read_meanings(ASPECTS))
    score = random.choice((-2, -1, -1, -1, 0, 1, 1, 1, 2))
    changes = {"": score} | ({NEGATIONS: NEGATED[score]} if score else {})
    if abs(score) == 1:
        changes |= {BOOSTERS: 2 * score, SOFTENERS: 0, DENIALS: -score, OPPOSITES: -2 * score}
    change = random.choice(list(changes))
    aspect += random.choice(("", "", f" of this {choose_word(random, GENRES)}"))
    verb, adjective = "is" if family == "0" else "are", choose_word(random, ADJECTIVES[score])
    return f"{aspect} {verb} {choose_word(random, change)} {adjective}", changes[change]


def make_review(random: Random) -> tuple[tuple[str, ...], int]:
    """A review sentence as the course writes them (a leading space, free-standing commas), and its label 0 to 4."""
    kind = random.random()
    (side, side_score), (text, score) = make_clause(random), make_clause(random)
    if side.split()[:2] == text.split()[:2]:  # the same thing cannot be good and bad
        return make_review(random)
    if kind < 0.7 and side_score != score:
        text = random.choice(MAIN_CLAUSE_WINS).format(side=side, main=text)
    elif kind < 0.8 and side_score == score:
        text = random.choice(CLAUSES_AGREE).format(side=side, main=text)
    elif kind < 0.95:
        score, genre, hero = (
            random.choice((-2, -1, 1, 2)),
            choose_word(random, GENRES),
            choose_word(random, HEROES),
        )
        verb = random.choice(
            ("this is", *(f"this is {word}" for word in NEGATIONS.split(", ")), *DOUBTS.split(", "))
        )
        text = f"{verb} a {choose_word(random, ADJECTIVES[score])} {genre} about a {hero}"
        score = score if verb == "this is" else NEGATED[score]
    return (" " + correct_spelling(text).replace(",", " ,") + " .",), score + 2


def make_questions(random: Random) -> tuple[tuple[str, ...], float]:
    """Two questions, and 1 where they ask the same; in both classes the wording may be close or far apart."""
    label, templates = random.randrange(2), random.choice(QUESTIONS)
    slots = sorted(set(re.findall(r"{(\w+)}", templates[0])))
    values = {"choice": random.choice("12")}
    for kind in sorted(set(VALUES) & set(slots)):  # two slots of one kind get different meanings
        values[kind], values[kind + "_2"] = random.sample(
            [words for _, words in read_meanings(VALUES[kind])], 2
        )
    # Mostly two templates: with one, any difference of words would tell that the answer is no.
    pair = random.sample(templates, 2) if random.random() < 0.75 else [random.choice(templates)] * 2
    changed, questions = (
        values if label else change_meaning(random, templates[0], slots, values),
        [],
    )
    for template, asked in zip(pair, (values, changed), strict=True):
        text = re.sub(r"\[(.*?)\|(.*?)\]", "\\" + asked["choice"], template)
        text = re.sub(r"(\w+)/(\w+)", random.choice((r"\1", r"\2")), text)
        questions.append(
            correct_spelling(text.format(**{slot: random.choice(asked[slot]) for slot in slots}))
        )
    return tuple(questions), float(label)


def change_meaning(random: Random, template: str, slots: list[str], values: dict) -> dict:
    """The meaning of another question, by one decisive difference: the choice, the direction, or one thing named."""
    twins = [slot for slot in slots if slot + "_2" in slots]
    way = random.choice(
        ["choice"] * 20 * ("[" in template) + ["direction"] * bool(twins) + ["thing"]
    )
    if way == "choice":
        return values | {"choice": "2" if values["choice"] == "1" else "1"}
    if way == "direction":
        return values | {twins[0]: values[twins[0] + "_2"], twins[0] + "_2": values[twins[0]]}
    slot = random.choice(slots)
    meanings = read_meanings(VALUES[slot.removesuffix("_2")])
    return values | {
        slot: random.choice([words for _, words in meanings if words not in values.values()])
    }


def make_scene(random: Random, kind: str) -> dict:
    """Who (of what quality) does what to what, and where; quality and place may be left unsaid (None)."""
    verb_kind = kind if kind == "person" or random.random() < 0.7 else "any"
    return {
        "person": random.choice(read_meanings(PEOPLE, "person")),
        "object": random.choice(read_meanings(OBJECTS[kind], kind)),
        "verb": random.choice(read_meanings(ACTIONS[verb_kind], verb_kind)),
        "quality": random.choice([None, *read_meanings(QUALITIES)]),
        "place": random.choice([None, None, *read_meanings(PLACES)]),
    }


def compare_scenes(first: dict, second: dict) -> float:
    """0 to 5: the weights of the parts that two scenes share."""
    credits = {}
    for part in WEIGHTS:
        one, other = first[part], second[part]
        credits[part] = 1.0 if one == other else 0.5 * (None in (one, other) or one[0] == other[0])
    return sum(
        WEIGHTS[part] * credit
        for part, credit in credits.items()
        if credits[DEPENDS_ON.get(part, part)]
    )


def make_scenes(random: Random) -> tuple[tuple[str, ...], float]:
    """Two sentences and their similarity; they may share words and not roles, or the meaning and few words."""
    kind = random.choice([*OBJECTS, "person"])
    first, other = make_scene(random, kind), make_scene(random, random.choice([kind, *OBJECTS]))
    second = first | {
        part: other[part] for part in random.sample(list(WEIGHTS), random.randrange(6))
    }
    if kind == "person" and random.random() < 0.5:
        second |= {"person": first["object"], "object": first["person"]}
    sentences = []
    for scene in (first, second):
        verb_kind, object_kind = scene["verb"][0][:-1], scene["object"][0][:-1]
        fits = verb_kind == object_kind or verb_kind == "any" and object_kind != "person"
        if not fits or scene["person"] == scene["object"]:
            return make_scenes(random)
        words = {
            part: random.choice(concept[1]) if concept else "" for part, concept in scene.items()
        }
        active, passive = words["verb"].split(">")
        text = random.choice(SCENES).format(
            person=f"a {words['quality']} {words['person']}",
            active=active,
            passive=passive,
            object=f"a {words['object']}",
            place=words["place"],
        )
        sentences.append(correct_spelling(text).replace(" .", "."))
    return tuple(sentences), compare_scenes(first, second)


def write_sample(folder: str | Path, seed: int = 0) -> None:
    """Write the nine files of the three tasks into `folder`; no sentence or pair stands in two of them."""
    num_rows = sum(NUM_ROWS.values())
    for format, make in ((SST, make_review), (PARA, make_questions), (STS, make_scenes)):
        random, row_of_texts, num_of_label = Random(f"{format.name} {seed}"), {}, Counter()
        while len(row_of_texts) < num_rows:
            texts, label = make(random)
            key, is_full = (
                frozenset(texts),
                num_of_label[round(label)] >= num_rows / (format.high + 1),
            )
            if key not in row_of_texts and len(key) == len(texts) and not is_full:
                num_of_label[round(label)] += 1
                row_of_texts[key] = (f"{random.getrandbits(100):025x}", *texts, label)
        rows = list(row_of_texts.values())
        random.shuffle(rows)  # the last rows made are those of the rarest label
        for split, size in NUM_ROWS.items():
            table = [["", "id", *format.text_columns, format.label_column]]
            table += [[number, *rows.pop()] for number in range(size)]
            table = [
                line[: len(line) - (split == "test")] for line in table
            ]  # test files have no label
            if split == "test" and format is SST:  # the course's file has one more index column
                table = [[number, *line] for number, line in enumerate(table)]
            with open(
                Path(folder) / COURSE_FILES[format.name][split], "w", newline="", encoding="utf-8"
            ) as file:
                csv.writer(file, delimiter="\t", lineterminator="\n").writerows(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write the sample data set: nine files in the course's format."
    )
    parser.add_argument(
        "--out", required=True, help="folder for the files; made if it is not there"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed: other rows by the same rules (default 0)"
    )
    arguments = parser.parse_args()
    out = Path(arguments.out)
    try:
        there = [
            file
            for files in COURSE_FILES.values()
            for file in files.values()
            if (out / file).exists()
        ]
        if there:
            parser.error(
                f"{out / there[0]} exists, and would be replaced by made-up rows. Pass another --out."
            )
        out.mkdir(parents=True, exist_ok=True)
        write_sample(out, arguments.seed)
    except OSError as error:
        parser.error(f"--out {out} cannot be written ({error.strerror}). Choose another folder.")
    print(f"{out}: nine files written, {sum(NUM_ROWS.values()):,} rows a task")


if __name__ == "__main__":
    main()
