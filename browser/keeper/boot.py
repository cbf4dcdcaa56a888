"""What a keeper is started with: `python -I -S boot.py`, its configuration on stdin.

It is a script, never imported. Parents of the package are given as bare names, so that neither
`lessor/__init__.py` nor `lessor/browser/__init__.py` runs: a keeper needs no dependency of theirs, starts in
a few milliseconds, and still imports the very modules that type checkers see.
"""

import sys
from types import ModuleType

browser_folder = __file__.rpartition("/")[0].rpartition("/")[0]
for name, folders in (("lessor", []), ("lessor.browser", [browser_folder])):
    parent = ModuleType(name)
    parent.__path__ = list(folders)
    sys.modules[name] = parent

from lessor.browser.keeper.main import main  # noqa: E402 - only now can it be found

main()
