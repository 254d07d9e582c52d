"""docs/serving.md: the web service that it shows answers as the run does."""

from __future__ import annotations

import re
import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multitask import Predictor

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_service_of_the_page(two_runs, tmp_path):
    testclient = pytest.importorskip("fastapi.testclient", reason="run setup.sh --dev")
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"))
    code = blocks[0].replace("runs/NAME", str(two_runs[0]))
    (tmp_path / "service.py").write_text(code, encoding="utf-8")
    app = runpy.run_path(str(tmp_path / "service.py"))["app"]

    predictor = Predictor(two_runs[0], "sst")
    texts = ["a man", "not a girl", "two women in the hotel"]
    expected = predictor.predict_proba(texts)
    with testclient.TestClient(app) as client:

        def ask(number: int) -> list[dict[str, float]]:
            answer = client.post("/predict", json=[texts[number]])
            assert answer.status_code == 200
            return answer.json()

        # FastAPI calls a plain function in several threads.
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, [0, 1, 2] * 4))
        assert client.post("/predict", json="no list").status_code == 422
    for place, (answer,) in enumerate(answers):
        assert list(answer) == list(predictor.label_names)
        assert list(answer.values()) == pytest.approx(expected[place % 3], abs=1e-5)
