"""How the program of the mutation test is compiled by everything together."""

import os

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
