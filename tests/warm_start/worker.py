"""The program of capture's mutation test, in processes of its own, compiled by everything together."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "packages/capture/tests/stored"))

import worker

import compile_api


class Whole:
    """The default backend with its cache in the folder of the store."""

    tolerance = (1e-4, 1e-5)

    def __init__(self, net, store, settings):
        os.environ["COMPILE_API_CACHE"] = store
        self.call = compile_api.compile(net, options={"warm_start": True, "strict": True})

    @staticmethod
    def without_store(net):
        """Rounds as compiled code does within autocast."""
        return compile_api.compile(net, options={"strict": True})

    def told(self):
        report = compile_api.report(self.call)
        return {
            "compiled": sum("take up" not in dict(graph.seconds) for graph in report.compiled),
            "outcomes": [[record.outcome, record.explanation] for record in report.kept],
            "again": [why for _, why in report.traced_again],
            "refused": [refused.reason for refused in report.refused],
        }


if __name__ == "__main__":
    worker.serve(Whole)
