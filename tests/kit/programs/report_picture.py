"""Makes the picture of the report page that the documentation shows.

PYTHONPATH=tests python -m kit.programs.report_picture docs/images/verify-report.png

The picture in the repository was then reduced to 96 colours, which makes it smaller than 100 kB.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kit.programs.chromium import chromium
from kit.tables.verifications import with_findings
from sealberg.jobs.report import write_report

WIDTH, HEIGHT = 1040, 2160


def main(target: Path) -> None:
    with TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "audit.html"
        write_report(with_findings(), page)
        browser.show(page, width=WIDTH)
        target.write_bytes(browser.picture(x=0, y=0, width=WIDTH, height=HEIGHT))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
