"""Saved days added up: `spark-submit jobs/merge_counts.py --config conf/evaluate.yaml --month 2026-11`."""

import sys

from sparkmetrics.cli import main

if __name__ == "__main__":
    code = main(["merge", *sys.argv[1:]])
    if code:  # some schedulers take any call of exit for a failure
        sys.exit(code)
