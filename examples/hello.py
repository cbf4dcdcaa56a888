"""Lease a profile, look at a page, press its first button. `lessor up` runs beside it.

python examples/hello.py http://127.0.0.1:8000/table
"""

import asyncio
import sys
import time
from urllib.parse import urlsplit

import lessor


async def main(url: str) -> None:
    async with lessor.connect() as client:
        await client.create_profile("hello", origins=[f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"])
        async with client.run(f"hello-{time.time_ns()}") as run:
            lease = await run.acquire("hello")
            await lease.navigate(url)
            page = await lease.observe()
            button = next(element for element in page.elements if element.role == "button")
            done = await lease.act(lessor.Click(ref=button.ref))
            print(f"{page.title}: {button.name} {done.effect}")
            print(await lease.close())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
