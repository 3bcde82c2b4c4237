"""Maps the rooms at the root to the packages `signoff.<room>`; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = ("domain", "infra", "workers")
packages = [f"signoff.{name}" for room in ROOMS for name in (room, *(f"{room}.{sub}" for sub in find_packages(room)))]
setup(packages=packages, package_dir={f"signoff.{room}": room for room in ROOMS})
