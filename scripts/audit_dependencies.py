"""Audits what headtail depends on: versions that fit each other, all of them pinned, none with a known vulnerability.

The first two are checked here and now. The third asks a service through pip-audit; where that is not installed or
cannot be reached, one line says so, and that is no failure: a build must not depend on somebody else's server.

    python scripts/audit_dependencies.py --tool .audit/bin/pip-audit
"""

import argparse
import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
SERVICES = ("pypi", "osv")
# Not installed by us, or ourselves.
OWN = {"headtail", "pip", "setuptools", "wheel"}
SECONDS = 300


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Returns {name: version} of the constraints."""
    lines = [line.split("==") for line in CONSTRAINTS.read_text(encoding="utf-8").split()]
    return {normal(name): version for name, version in lines}


def misfits() -> list[str]:
    """Returns what pip finds missing or of a wrong version."""
    ended = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    return [] if ended.returncode == 0 else ended.stdout.strip().splitlines()


def unpinned(pins: dict[str, str]) -> list[str]:
    """Returns what is installed here in another version than the pinned one, or without a pin."""
    found = {normal(one.metadata["Name"]): one.version for one in distributions()}
    return [
        f"{name} {version} (pinned: {pins.get(name, 'no')})"
        for name, version in sorted(found.items())
        if name not in OWN and version.split("+")[0] != pins.get(name)
    ]


def known_vulnerabilities(tool: str) -> tuple[int, list[str]]:
    """Returns how many packages a service knew, and the vulnerabilities it knows of them."""
    for service in SERVICES:
        command = [tool, "-r", str(CONSTRAINTS), "--no-deps", "--disable-pip", "-f", "json", "-s", service]
        try:
            ended = subprocess.run(
                [*command, "--progress-spinner", "off", "--timeout", "10"],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            packages = json.loads(ended.stdout)["dependencies"]
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
            continue
        known = [one for one in packages if "skip_reason" not in one]
        if known:
            return len(known), [
                f"{one['name']} {one['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'none'}"
                for one in known
                for found in one["vulns"]
            ]
    return 0, []


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="pip-audit", help="the command pip-audit")
    options = parser.parse_args(arguments)
    pins = pinned()
    problems = misfits() + [f"not pinned in {CONSTRAINTS.name}: {one}" for one in unpinned(pins)]
    known, vulnerable = known_vulnerabilities(options.tool)
    for problem in problems + vulnerable:
        print(problem)
    if known:
        print(f"audited {known} of {len(pins)} pinned packages: {len(vulnerable)} known vulnerabilities")
    else:
        print(f"not audited: pip-audit or its service is not to be had here; {len(pins)} packages are pinned")
    return int(bool(problems or vulnerable))


if __name__ == "__main__":
    sys.exit(main())
