"""A script without async: one step, committed at most once however often the script is run. `lessor up` runs beside it.

python examples/sync_script.py http://127.0.0.1:8000/table order-81
"""

import sys
from urllib.parse import urlsplit

import lessor
import lessor.sync


def main(url: str, task: str) -> None:
    with lessor.sync.connect() as client:
        client.create_profile("script", origins=[f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"])
        attempt = next_attempt(client, task)
        with client.run(task, attempt=attempt) as run:
            lease = run.acquire("script")
            step = run.step(lease, "approve")
            lease.navigate(url)
            page = lease.observe()
            button = next(element for element in page.elements if element.role == "button")
            done = step.commit(lessor.Click(ref=button.ref))
            print(f"attempt {attempt}: {'was done before' if done.recorded else 'done now'}, {step.state()}")
            lease.close()


def next_attempt(client: lessor.sync.Client, task: str) -> int:
    """The first attempt, the one that a crash left open, or the one after the last."""
    try:
        record = client.show_run(task).record
    except lessor.LessorError as error:
        if error.code is not lessor.Code.NOT_FOUND:
            raise
        return 1
    return record.attempt + record.status.ended


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
