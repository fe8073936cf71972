"""Made-up raw files in the layouts that the shipped recipes read, and these recipes for a local server."""

import csv
import gzip
import hashlib
import io
import json
import random
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from openpyxl import Workbook

from flows.config.task_files import load_task
from flows.data.recipes import read_recipe
from tests.support.paths import ROOT
from tests.support.servers.files import FileServer

Files = dict[str, bytes]
"""Contents by the path that a recipe names."""

STALE = "a review that another one overwrote"
"""Text of the files of the IMDb archive that the recipe leaves out."""
REPEATED = "which text is in both files"
"""Text of Banking77's training file that its test file has too."""
BEFORE_FEEDBACK = "a review that a run of FuseGen began with"
"""Text of the files of feedback that the recipe leaves out."""
OTHER_CLASS = {
    "banking10": "lost_or_stolen_card",
    "iclr2024_abstracts": "general machine learning (i.e., none of the above)",
}
"""Class of the raw files that the recipe leaves out."""
AREAS = tuple(f"area {number} of learning" for number in range(12))
"""Classes of the abstracts, for which there is no shipped task."""


def served_recipe(name: str, server: FileServer, per_class: int) -> dict[str, Any]:
    """Serve made-up files of a shipped recipe; return its values with their addresses and digests.

    The steps are the shipped ones. Rows and digests of the outputs are left open: they are those of the real files.
    """
    files = RAW_FILES[name](per_class)
    values = read_recipe(name).model_dump(mode="json", exclude_none=True)
    for source in values["sources"].values():
        address = urlsplit(source["base"])
        source["base"] = f"{server.address}/{address.netloc}{address.path}"
        for file in source["files"]:
            content = files[file["path"]]
            path = f"{urlsplit(source['base']).path}/{file['path']}"
            server.files[path.replace("%20", " ")] = content
            for field in ("git_blob", "members_sha256"):
                file.pop(field, None)
            file |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    for output in values["outputs"].values():
        for field in ("rows", "digest"):
            output.pop(field, None)
    return values


# --- texts
def demo_terms() -> list[str]:
    terms = pq.read_table(ROOT / "connectors/data/vocabularies/demo.parquet")["term"].to_pylist()
    return [term for term in terms if term.isalpha()]


def made_up(classes: Iterable[str], number: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield `number` different texts of each class, with the class; half of the terms are typical of it."""
    vocabulary = demo_terms()
    draw = random.Random(seed)
    for label in classes:
        # The same terms for every seed.
        typical = random.Random(label).sample(vocabulary, 8)
        for index in range(number):
            chosen = draw.choices(vocabulary, k=12) + draw.choices(typical, k=12)
            draw.shuffle(chosen)
            yield f"{' '.join(chosen)} {seed} {index}", label


def labels_of(task: str) -> list[str]:
    return [label.name for label in load_task(task).labels]


# --- formats
def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue().encode()


def jsonl_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tar_bytes(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


# --- files of each recipe
def banking10(per_class: int) -> Files:
    classes = [*labels_of("banking10"), OTHER_CLASS["banking10"]]
    header = [("text", "category")]
    shared = [(REPEATED, classes[0])]
    return {
        "train.csv": csv_bytes([*header, *shared, *made_up(classes, per_class, 1)]),
        "test.csv": csv_bytes([*header, *shared, *made_up(classes, per_class, 2)]),
    }


def dbpedia14(per_class: int) -> Files:
    # The classes in the order of their numbers in the raw files.
    numbers = read_recipe("dbpedia14").tables["train"][1].rename_values
    assert numbers is not None
    number_of = {label: number for number, label in numbers.values.items()}

    def rows(seed: int) -> list[tuple[str, str]]:
        texts = made_up(number_of, per_class, seed)
        short = [("1", "too short")]
        return [*short, *((number_of[label], f"A &amp; B  {text}") for text, label in texts)]

    return {"val.csv": csv_bytes(rows(1)), "test.csv": csv_bytes(rows(2))}


def english_50k(_: int) -> Files:
    terms = demo_terms()
    lines = [f"{term} {len(terms) - rank}" for rank, term in enumerate(terms)]
    return {"en_50k.txt": "\n".join(lines).encode()}


def imdb(per_class: int) -> Files:
    members = {}
    for seed, fold in enumerate(("train", "test"), 1):
        for kind in ("pos", "neg"):
            folder = f"repository/aclImdb/{fold}/{kind}"
            for index, (text, _) in enumerate(made_up([kind], per_class, seed)):
                members[f"{folder}/{100 + index}_7.txt"] = f"{text}.<br /><br />End.".encode()
            members[f"{folder}/49_7.txt"] = STALE.encode()
    for kind in ("pos", "neg"):
        # Line n belongs to the review with number n: ten successive reviews of each class are of one film.
        lines = [
            f"http://www.imdb.com/title/tt{number // 10:07d}/usercomments"
            for number in range(100 + per_class)
        ]
        members[f"repository/aclImdb/train/urls_{kind}.txt"] = "\n".join(lines).encode()
    (file,) = {file.path for _, file in read_recipe("imdb").files}
    return {file: tar_bytes(members)}


def iclr2024_abstracts(per_class: int) -> Files:
    texts = made_up([*AREAS, OTHER_CLASS["iclr2024_abstracts"]], per_class, 1)
    rows = [{"title": "A title", "abstract": text, "topic": label} for text, label in texts]
    return {"papers.jsonl.gz": gzip.compress(jsonl_bytes(rows))}


def mtsamples(per_class: int) -> Files:
    members = {}
    for index, (text, label) in enumerate(made_up(labels_of("mtsamples"), per_class, 1)):
        page = (
            f"<html><h1> <b>Sample Type / Medical Specialty:</b> {label}<br><b>Sample Name:</b> Note {index}</h1>\n"
            f"<b>Description:</b> A patient\u2019s note.<br>\n(Medical Transcription Sample Report)<br><hr>"
            f"<b>HISTORY:</b><br>{text}.<br><!-- Ezoic - MTSam Sample Bottom Matched Content - native_bottom -->"
            f"<b>Keywords:</b> note, {index}<div>other</div></html>"
        )
        content = page.encode("cp1252")
        if index % 2:
            content = gzip.compress(content)
        members[f"spider/.scrapy/httpcache/mt/{index % 9}a/{index:08x}/response_body"] = content
    members["spider/.scrapy/httpcache/mt/0a/start/response_body"] = b"<html>No report</html>"
    (file,) = {file.path for _, file in read_recipe("mtsamples").files}
    return {file: tar_bytes(members)}


def openreview2017(per_class: int) -> Files:
    ratings = labels_of("openreview_rating")
    workbook = Workbook(write_only=True)
    sheet = workbook.create_sheet()
    sheet.append(("title", "keywords", "rate", "review"))
    # A paper has one area and three reviews.
    for index, (text, area) in enumerate(made_up(labels_of("openreview_area"), per_class, 1)):
        rating = ratings[index % len(ratings)][0]
        keywords = f"Keywords:###Deep learning, {area}, Games".replace(", Deep learning, Games", "")
        sheet.append(
            (f"Paper {index // 3}", keywords, f"Rating:###{rating}: as it is", f"It*s {text}")
        )
    buffer = io.BytesIO()
    workbook.save(buffer)
    return {"tp_2017conference.xlsx": buffer.getvalue()}


def openreview2023(per_class: int) -> Files:
    return {
        f"iclr23_reviews_{part}.csv": labelled_twice(
            "Area: ",
            labels_of("openreview_area"),
            "Recommendation: ",
            ("3", "5", "8"),
            per_class,
            seed,
        )
        for seed, part in enumerate(("train", "val", "test"), 1)
    }


def yelp(per_class: int) -> Files:
    return {
        f"{part}.csv": labelled_twice(
            "Business Category: ",
            labels_of("yelp_category"),
            "Review Stars: ",
            labels_of("yelp_rating"),
            per_class,
            seed,
        )
        for seed, part in enumerate(("dev", "test"), 1)
    }


def labelled_twice(
    first: str, labels: Iterable[str], second: str, others: Iterable[str], per_class: int, seed: int
) -> bytes:
    """Return a CSV file whose texts have two labels, each after the name of its kind."""
    second_labels = list(others)
    rows = [
        (text, first + label, second + second_labels[index % len(second_labels)])
        for index, (text, label) in enumerate(made_up(labels, per_class, seed))
    ]
    return csv_bytes([("text", "label1", "label2"), *rows])


def plm_outputs(per_class: int) -> Files:
    files = {}
    for seed, (_, file) in enumerate(read_recipe("plm_outputs").files, 1):
        # In the raw files, classes are numbers.
        texts = [(text, int(kind)) for text, kind in made_up("01", per_class, seed)]
        random.Random(seed).shuffle(texts)
        # Files of feedback begin with the 200 texts that the models wrote without examples.
        if re.fullmatch(r"\d+/.*", file.path):
            texts = [(BEFORE_FEEDBACK, 0)] * 200 + texts
        files[file.path] = jsonl_bytes({"C": text, "Y": kind} for text, kind in texts)
    return files


RAW_FILES: dict[str, Callable[[int], Files]] = {
    maker.__name__: maker
    for maker in (
        banking10,
        dbpedia14,
        english_50k,
        iclr2024_abstracts,
        imdb,
        mtsamples,
        openreview2017,
        openreview2023,
        plm_outputs,
        yelp,
    )
}
"""Raw files of each recipe, with this many texts of each class."""
