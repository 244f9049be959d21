"""Progress of a step's tasks: it is true of all its jobs, also of those that run side by side."""

from __future__ import annotations

from headwater.pipeline.window_pipeline import StepProgress


def test_jobs_of_a_step_are_added_up() -> None:
    reports: list[tuple[str, int, int]] = []
    progress = StepProgress(lambda *news: reports.append(news))
    first, second = progress.of_job(), progress.of_job()
    first("index", 0, 4)
    second("index", 0, 3)
    first("index", 4, 4)
    second("index", 2, 3)
    progress.of_job()("decode", 0, 5)
    second("index", 3, 3)
    assert reports == [
        ("index", 0, 4),
        ("index", 0, 7),
        ("index", 4, 7),
        ("index", 6, 7),
        ("decode", 0, 5),
        ("index", 7, 7),
    ]
