"""The job for spark-submit: `spark-submit jobs/evaluate.py --config conf/evaluate.yaml --run-date 2026-11-29`."""

import sys

from sparkmetrics.cli import main

if __name__ == "__main__":
    code = main(["evaluate", *sys.argv[1:]])
    if code:  # some schedulers take any call of exit for a failure
        sys.exit(code)
