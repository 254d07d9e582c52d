"""Controlled phenomena: generated English sentences whose labels follow from their meaning.

`python -m tools.sample.controlled --out DIR --seed 0` writes nine files in the course's own format,
and the same bytes each time: negations and intensifiers for SST, directions, numbers and synonyms
for PARA, roles for STS. A reader can tell each label. Counting words is not enough to tell it. The
files show whether a model learned a phenomenon. A few such rows are also part of data/sample.

In the word lists, `/` separates words of one meaning, `,` separates meanings, and `|` separates
families of related meanings.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from data.examples import COURSE_FILES, PARA, SST, STS, Format
from minbert.commands.ending import exit_code
from minbert.commands.flags import Parser
from minbert.commands.outputs import (
    HELP_OF_OVERWRITE,
    OVERWRITE,
    Output,
    check_outputs,
    is_never_ours,
)
from tools.sample.rows import write_fields

NUM_ROWS = {"train": 3000, "dev": 500, "test": 500}


class Meaning(NamedTuple):
    """A meaning of a word list: the name of its family, and the words that express it."""

    family: str
    words: tuple[str, ...]


class Labelled(NamedTuple):
    """The sentence or the two sentences of a row, and its label."""

    texts: tuple[str, ...]
    label: float


@cache
def read_meanings(text: str, table: str = "") -> tuple[Meaning, ...]:
    """Return the meanings of a word list. Their families are numbered: table0, table1, ..."""
    meanings = []
    for number, family in enumerate(text.split("|")):
        for meaning in family.split(","):
            words = tuple(word.strip() for word in meaning.split("/"))
            meanings.append(Meaning(f"{table}{number}", words))
    return tuple(meanings)


def choose_word(random: Random, text: str) -> str:
    """Return one word of a word list: a random meaning, then one of its words."""
    meaning = random.choice(read_meanings(text))
    return random.choice(meaning.words)


def correct_spelling(text: str) -> str:
    """Return a text without double spaces, with "an" before a vowel and a capital at the start.

    "a used" keeps its "a".
    """
    text = re.sub(" +", " ", text)
    text = re.sub(r"\b([Aa]) (?=[aeio]|un)", r"\1n ", text)
    return text[0].upper() + text[1:]


# --- SST ------------------------------------------------------------------------------------------
# A judgement has a score from -2 to 2. The label is the score of the main clause plus 2.

ADJECTIVES = {
    2: (
        "superb, brilliant, magnificent, outstanding, extraordinary, wonderful, glorious, "
        "unforgettable"
    ),
    1: "good, pleasant, charming, clever, lively, fresh, graceful, amusing, touching, interesting",
    0: "average, ordinary, conventional, typical, middling, standard",
    -1: "bad, dull, weak, clumsy, boring, stale, awkward, silly, slow, annoying",
    -2: "dreadful, awful, terrible, horrible, appalling, disastrous, wretched, hideous",
}

# A mild word becomes a strong one.
BOOSTERS = "truly, remarkably, extremely, deeply, utterly"

# A mild word becomes neutral.
SOFTENERS = "only mildly, only faintly, only moderately"

# Something that is not good is bad. Something that is not superb may still be anything else.
NEGATIONS = "not, hardly, scarcely, never"
NEGATED = {2: 0, 1: -1, 0: 0, -1: 1, -2: 0}

# The same, but said of mild words only.
DENIALS = "far from, by no means, in no way"

# A mild word becomes a strong one of the other side.
OPPOSITES = "anything but, the very opposite of"

# Negations of a whole sentence.
DOUBTS = "I do not think that this is, nobody would claim that this is, I cannot say that this is"

# The first family is singular, the second one plural.
ASPECTS = (
    "the plot, the script, the dialogue, the music, the camera work, the ending, the opening, "
    "the lead actor, the humour, the villain, the story, the editing, the direction, the cast, "
    "the acting, the pacing | "
    "the jokes, the songs, the costumes, the performances, the effects, the fight scenes, "
    "the dance numbers"
)
GENRES = (
    "thriller, comedy, drama, western, musical, documentary, romance, cartoon, mystery, war film, "
    "fairy tale"
)
HEROES = (
    "detective, soldier, widow, painter, thief, sailor, nurse, teacher, pianist, farmer, spy, "
    "judge, robot, king"
)

# The main clause decides, whichever clause comes first.
MAIN_CLAUSE_WINS = (
    "although {side}, {main}",
    "{main}, although {side}",
    "while {side}, {main}",
    "{main}, even though {side}",
    "{side}, but {main}",
    "{side}, yet {main}",
)

# Both clauses have the same score.
CLAUSES_AGREE = (
    "{side} and {main}",
    "I think that {side} and that {main}",
    "{side}, just as {main}",
)


class Clause(NamedTuple):
    """A judgement of one side of a film, and its score from -2 to 2."""

    text: str
    score: int


def make_clause(random: Random) -> Clause:
    """Return a judgement such as "the plot of this drama is hardly dull"."""
    family, (aspect,) = random.choice(read_meanings(ASPECTS))
    score = random.choice((-2, -1, -1, -1, 0, 1, 1, 1, 2))

    # The word lists that may stand before the adjective, and the score of the clause with each.
    changes = {"": score}
    if score != 0:
        changes[NEGATIONS] = NEGATED[score]
    if abs(score) == 1:
        changes[BOOSTERS] = 2 * score
        changes[SOFTENERS] = 0
        changes[DENIALS] = -score
        changes[OPPOSITES] = -2 * score
    change = random.choice(list(changes))

    of_film = f" of this {choose_word(random, GENRES)}"
    aspect += random.choice(("", "", of_film))
    verb = "is" if family == "0" else "are"
    adjective = choose_word(random, ADJECTIVES[score])
    return Clause(f"{aspect} {verb} {choose_word(random, change)} {adjective}", changes[change])


def make_review(random: Random) -> Labelled:
    """Return a review as the course writes them, and its label 0 to 4.

    It has a leading space and free-standing commas.
    """
    kind = random.random()
    side = make_clause(random)
    main = make_clause(random)
    is_same_aspect = side.text.split()[:2] == main.text.split()[:2]
    if is_same_aspect:
        # The same thing cannot be good and bad. Start again.
        return make_review(random)

    review = main
    if kind < 0.7 and side.score != main.score:
        template = random.choice(MAIN_CLAUSE_WINS)
        review = Clause(template.format(side=side.text, main=main.text), main.score)
    elif kind < 0.8 and side.score == main.score:
        template = random.choice(CLAUSES_AGREE)
        review = Clause(template.format(side=side.text, main=main.text), main.score)
    elif kind < 0.95:
        review = make_judgement(random)

    text = correct_spelling(review.text).replace(",", " ,")
    return Labelled((f" {text} .",), review.score + 2)


def make_judgement(random: Random) -> Clause:
    """Return a judgement of a whole film, such as "this is hardly a dull drama about a king"."""
    score = random.choice((-2, -1, 1, 2))
    genre = choose_word(random, GENRES)
    hero = choose_word(random, HEROES)
    negated = [f"this is {word}" for word in NEGATIONS.split(", ")]
    start = random.choice(("this is", *negated, *DOUBTS.split(", ")))
    adjective = choose_word(random, ADJECTIVES[score])
    text = f"{start} a {adjective} {genre} about a {hero}"
    return Clause(text, score if start == "this is" else NEGATED[score])


# --- PARA -----------------------------------------------------------------------------------------
# The templates of one entry ask the same. Where they hold [this|that], the choice decides what they
# ask.

VALUES = {
    "city": (
        "Paris, London, Berlin, Madrid, Rome, Moscow, Tokyo, Boston, Chicago, Toronto, Sydney, "
        "Dublin"
    ),
    "country": (
        "France, Spain, Germany, Italy, Japan, China, India, Brazil, Mexico, Canada, Russia, Egypt"
    ),
    "sport": "football/soccer, hockey, tennis, chess, basketball, rugby",
    "item": (
        "car/automobile, bicycle/bike, sofa/couch, television/TV, fridge/refrigerator, camera, "
        "piano, boat, tent"
    ),
    "job": (
        "doctor/physician, lawyer/attorney, teacher, writer/author, policeman/police officer, "
        "nurse, pilot, judge"
    ),
    "relative": (
        "brother, sister, cousin, neighbour, boss/manager, colleague/coworker, father/dad, "
        "mother/mum, uncle"
    ),
    "number": "two/2, three/3, four/4, five/5, six/6, seven/7, eight/8, nine/9, ten/10",
    "animal": (
        "dogs, cats/felines, horses, cows/cattle, birds, rabbits/bunnies, mice, bears, pigs, "
        "monkeys"
    ),
    "food": (
        "cheese, fish, rice, bread, honey, apples, eggs, nuts, pears, carrots, tomatoes, onions"
    ),
    "habit": (
        "smoking, gambling, drinking coffee, eating meat, playing video games, skipping lunch, "
        "jogging, hunting"
    ),
}
QUESTIONS = (
    (
        "What is the [cheapest|fastest] way to travel from {city} to {city_2}?",
        "How can I get to {city_2} from {city} [for as little money|in as little time] as "
        "possible?",
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


class Content(NamedTuple):
    """What a question asks: the "1" or "2" of its choice, and the words for each slot."""

    choice: str
    words: dict[str, tuple[str, ...]]


def make_questions(random: Random) -> Labelled:
    """Return two questions, and 1 where they ask the same.

    In both classes the wording may be close or far apart.
    """
    label = random.randrange(2)
    templates = random.choice(QUESTIONS)
    slots = sorted(set(re.findall(r"{(\w+)}", templates[0])))

    content = Content(random.choice("12"), {})
    for kind in sorted(set(VALUES) & set(slots)):
        # Two slots of one kind get different meanings.
        options = [meaning.words for meaning in read_meanings(VALUES[kind])]
        first, second = random.sample(options, 2)
        content.words[kind] = first
        content.words[f"{kind}_2"] = second

    # Mostly two templates. With one, any difference of words would tell that the answer is no.
    if random.random() < 0.75:
        pair = random.sample(templates, 2)
    else:
        pair = [random.choice(templates)] * 2
    changed = content if label else change_content(random, templates[0], slots, content)
    first_text = ask(random, pair[0], slots, content)
    second_text = ask(random, pair[1], slots, changed)
    return Labelled((first_text, second_text), float(label))


def ask(random: Random, template: str, slots: list[str], content: Content) -> str:
    """Return the question that a template asks with this content."""
    # [this|that] becomes the chosen side, and this/that becomes either word.
    text = re.sub(r"\[(.*?)\|(.*?)\]", rf"\{content.choice}", template)
    text = re.sub(r"(\w+)/(\w+)", random.choice((r"\1", r"\2")), text)
    words = {slot: random.choice(content.words[slot]) for slot in slots}
    return correct_spelling(text.format(**words))


def change_content(random: Random, template: str, slots: list[str], content: Content) -> Content:
    """Return the content of another question. One decisive thing differs.

    It is the choice, the direction (two slots of one kind change places), or one thing named.
    """
    twins = [slot for slot in slots if f"{slot}_2" in slots]
    ways = []
    if "[" in template:
        ways += ["choice"] * 20
    if twins:
        ways.append("direction")
    ways.append("thing")
    way = random.choice(ways)

    if way == "choice":
        return Content("2" if content.choice == "1" else "1", content.words)

    words = dict(content.words)
    if way == "direction":
        slot = twins[0]
        words[slot] = content.words[f"{slot}_2"]
        words[f"{slot}_2"] = content.words[slot]
    else:
        slot = random.choice(slots)
        meanings = read_meanings(VALUES[slot.removesuffix("_2")])
        used = content.words.values()
        words[slot] = random.choice(
            [meaning.words for meaning in meanings if meaning.words not in used]
        )
    return Content(content.choice, words)


# --- STS ------------------------------------------------------------------------------------------
# Two scenes get up to five points for what they share. A part counts half if its meanings are
# related (of one family), or if only one scene mentions it.

WEIGHTS = {"verb": 1.5, "object": 1.5, "person": 1.0, "quality": 0.5, "place": 0.5}

# A shared place means little when something else happens there.
DEPENDS_ON = {"quality": "person", "place": "verb"}

PEOPLE = (
    "man/guy, woman/lady | boy/lad, child/kid | doctor/physician, policeman/constable | "
    "chef/cook, butler/servant | painter/artist, singer/vocalist"
)
QUALITIES = (
    "happy/cheerful, sad/unhappy | rich/wealthy, poor/needy | tired/weary, famous/well-known"
)
PLACES = (
    "on a beach/at the seaside, in a forest/in the woods | "
    "in a hotel/in an inn, in a restaurant/in a diner | "
    "in the street/on the road, near a church/near a chapel"
)
OBJECTS = {
    "person": PEOPLE,
    "garment": "coat/jacket, jumper/sweater | hat/cap, purse/handbag",
    "food": "sweet/candy, biscuit/cookie | pie/tart, potato/spud",
    "vehicle": "car/automobile, truck/lorry | bicycle/bike, boat/ship",
    "text": "letter/note, poem/verse | newspaper/paper, novel/book",
}

# The verbs for each kind of object ("any": for all but people), each as "active>passive".
ACTIONS = {
    "person": (
        "chasing>chased/pursuing>pursued, following>followed | "
        "greeting>greeted/welcoming>welcomed, hugging>hugged/embracing>embraced | "
        "helping>helped/assisting>assisted, teaching>taught"
    ),
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

# Who (of what quality) does what to what, and where. None: the part is not mentioned.
Scene = dict[str, Meaning | None]


def make_scene(random: Random, kind: str) -> Scene:
    """Return a scene with an object of this kind. Quality and place may be None."""
    verb_kind = kind if kind == "person" or random.random() < 0.7 else "any"
    return {
        "person": random.choice(read_meanings(PEOPLE, "person")),
        "object": random.choice(read_meanings(OBJECTS[kind], kind)),
        "verb": random.choice(read_meanings(ACTIONS[verb_kind], verb_kind)),
        "quality": random.choice([None, *read_meanings(QUALITIES)]),
        "place": random.choice([None, None, *read_meanings(PLACES)]),
    }


def compare_scenes(first: Scene, second: Scene) -> float:
    """Return the similarity of two scenes, 0 to 5: the weights of the parts that they share."""
    shares = {part: compare_meanings(first[part], second[part]) for part in WEIGHTS}
    points = []
    for part, weight in WEIGHTS.items():
        condition = DEPENDS_ON.get(part, part)
        if shares[condition] > 0:
            points.append(weight * shares[part])
    # Scenes that share nothing get the whole number 0: the files hold "0" and not "0.0".
    return sum(points)


def compare_meanings(first: Meaning | None, second: Meaning | None) -> float:
    """Return 1 for the same meaning, 0.5 for a related or a missing one, else 0."""
    if first == second:
        return 1.0
    if first is None or second is None or first.family == second.family:
        return 0.5
    return 0.0


def make_scenes(random: Random) -> Labelled:
    """Return two sentences and their similarity.

    They may share words and not roles, or the meaning and few words.
    """
    kind = random.choice([*OBJECTS, "person"])
    first = make_scene(random, kind)
    other = make_scene(random, random.choice([kind, *OBJECTS]))

    # The second scene is the first one with some parts of another scene.
    second = dict(first)
    for part in random.sample(list(WEIGHTS), random.randrange(6)):
        second[part] = other[part]
    if kind == "person" and random.random() < 0.5:
        second["person"] = first["object"]
        second["object"] = first["person"]

    sentences = []
    for scene in (first, second):
        if not is_possible(scene):
            # Start again.
            return make_scenes(random)
        sentences.append(describe(random, scene))
    return Labelled(tuple(sentences), compare_scenes(first, second))


def is_possible(scene: Scene) -> bool:
    """Return whether the verb fits the object, and nobody acts on themselves."""
    verb_kind = kind_of(scene["verb"])
    object_kind = kind_of(scene["object"])
    if scene["person"] == scene["object"]:
        return False
    return verb_kind == object_kind or (verb_kind == "any" and object_kind != "person")


def kind_of(meaning: Meaning | None) -> str:
    """Return the table that a meaning comes from: its family without the digit at the end."""
    return meaning.family[:-1] if meaning else ""


def describe(random: Random, scene: Scene) -> str:
    """Return a sentence that tells a scene."""
    words = {}
    for part, meaning in scene.items():
        words[part] = random.choice(meaning.words) if meaning else ""
    active, passive = words["verb"].split(">")
    text = random.choice(SCENES).format(
        person=f"a {words['quality']} {words['person']}",
        active=active,
        passive=passive,
        object=f"a {words['object']}",
        place=words["place"],
    )
    return correct_spelling(text).replace(" .", ".")


# --- files ----------------------------------------------------------------------------------------


def write_controlled(folder: str | Path, seed: int = 0) -> None:
    """Write the nine files of the three tasks into `folder`.

    No sentence or pair stands in two of them. Another seed gives other rows by the same rules.
    """
    makers = ((SST, make_review), (PARA, make_questions), (STS, make_scenes))
    for format, make in makers:
        random = Random(f"{format.name} {seed}")
        rows = make_rows(random, format, make)
        for split, size in NUM_ROWS.items():
            split_rows = [rows.pop() for _ in range(size)]
            path = Path(folder) / COURSE_FILES[format.name][split]
            write_fields(path, format, split, split_rows)


def make_rows(
    random: Random, format: Format, make: Callable[[Random], Labelled]
) -> list[list[str | float]]:
    """Return the rows of all splits of a task: id, texts, label.

    make: returns one labelled sentence or pair. The labels come out balanced.
    """
    num_rows = sum(NUM_ROWS.values())
    num_labels = format.high + 1
    num_of_label: Counter[int] = Counter()
    row_of_texts: dict[frozenset[str], list[str | float]] = {}
    while len(row_of_texts) < num_rows:
        texts, label = make(random)
        key = frozenset(texts)
        is_repeated = key in row_of_texts or len(key) < len(texts)
        is_full = num_of_label[round(label)] >= num_rows / num_labels
        if is_repeated or is_full:
            continue
        num_of_label[round(label)] += 1
        row_id = f"{random.getrandbits(100):025x}"
        row_of_texts[key] = [row_id, *texts, label]

    # Without this, the last rows would all have the rarest label.
    rows = list(row_of_texts.values())
    random.shuffle(rows)
    return rows


@exit_code("python -m tools.sample.controlled")
def main(argv: Sequence[str] | None = None) -> None:
    """Write the nine files into a folder."""
    parser = Parser(description="Write generated sentences: nine files in the course's format.")
    parser.add_argument(
        "--out", required=True, type=Path, help="folder for the files; made if it is not there"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed: other rows by the same rules (default 0)"
    )
    parser.add_argument(OVERWRITE, action="store_true", help=HELP_OF_OVERWRITE)
    arguments = parser.parse_args(argv)
    out = arguments.out
    check_outputs(course_outputs(out), overwrite=arguments.overwrite)
    write_controlled(out, arguments.seed)
    print(f"{out}: nine files written, {sum(NUM_ROWS.values()):,} rows a task")


def course_outputs(folder: Path, is_ours: Callable[[Path], bool] = is_never_ours) -> list[Output]:
    """The nine files of a folder that --out names, for the check before any work.

    is_ours: tells whether a file that exists may be replaced.
    """
    outputs = []
    for names in COURSE_FILES.values():
        outputs += [Output("--out", folder / name, is_ours) for name in names.values()]
    return outputs


if __name__ == "__main__":
    sys.exit(main())
