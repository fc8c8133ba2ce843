"""Torch's modes and settings are read anew in each call, by whatever function or attribute the program asks."""

import contextlib

import pytest
import torch
from what_is_seen import differing, outcome

QUESTIONS = {
    "torch.is_autocast_cache_enabled()": (torch.set_autocast_cache_enabled, (True, False)),
    "torch.autocast('cpu')._cache_enabled": (torch.set_autocast_cache_enabled, (True, False)),
    "torch.autocast('cpu').fast_dtype": (lambda v: torch.set_autocast_dtype("cpu", v), (torch.bfloat16, torch.float16)),
    "torch.get_autocast_dtype('cpu')": (lambda v: torch.set_autocast_dtype("cpu", v), (torch.bfloat16, torch.float16)),
    "torch.get_autocast_dtype('xpu')": (lambda v: torch.set_autocast_dtype("xpu", v), (torch.bfloat16, torch.float16)),
    "torch.get_autocast_cpu_dtype()": (lambda v: torch.set_autocast_dtype("cpu", v), (torch.bfloat16, torch.float16)),
    "torch.get_autocast_gpu_dtype()": (lambda v: torch.set_autocast_dtype("cuda", v), (torch.float16, torch.bfloat16)),
    "torch.is_autocast_enabled('cpu')": (lambda v: torch.set_autocast_enabled("cpu", v), (False, True)),
    "torch.is_autocast_enabled('xpu')": (lambda v: torch.set_autocast_enabled("xpu", v), (False, True)),
    "torch.is_autocast_cpu_enabled()": (lambda v: torch.set_autocast_enabled("cpu", v), (False, True)),
    "torch.is_autocast_enabled()": (lambda v: torch.set_autocast_enabled("cuda", v), (False, True)),
    "torch.is_grad_enabled()": (torch.set_grad_enabled, (True, False)),
    "torch.get_default_dtype()": (torch.set_default_dtype, (torch.float32, torch.float64)),
    "torch.get_default_device()": (torch.set_default_device, ("cpu", "meta")),
    "torch.are_deterministic_algorithms_enabled()": (torch.use_deterministic_algorithms, (False, True)),
    "torch.is_deterministic_algorithms_warn_only_enabled()": (
        lambda v: torch.use_deterministic_algorithms(True, warn_only=v),
        (False, True),
    ),
    "torch.get_deterministic_debug_mode()": (torch.set_deterministic_debug_mode, (0, 1)),
    "torch.is_warn_always_enabled()": (torch.set_warn_always, (False, True)),
    "torch.get_float32_matmul_precision()": (torch.set_float32_matmul_precision, ("highest", "high")),
    "torch.get_num_threads()": (torch.set_num_threads, (1, 2)),
    "torch.is_anomaly_enabled()": (torch.autograd.set_detect_anomaly, (False, True)),
    "torch.is_anomaly_check_nan_enabled()": (lambda v: torch.autograd.set_detect_anomaly(False, v), (True, False)),
    "torch.autograd.graph.saved_tensors_hooks is None": (lambda v: None, (1, 2)),
    "torch.utils.deterministic.fill_uninitialized_memory": (
        lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v),
        (True, False),
    ),
    **{
        f"torch.backends.{name}": (lambda v, name=name: _assign(name, v), (True, False))
        for name in (
            *("cudnn.enabled", "cudnn.benchmark", "cudnn.deterministic", "mkldnn.enabled", "opt_einsum.enabled"),
            *("cudnn.allow_tf32", "cuda.matmul.allow_tf32"),
        )
    },
    **{
        f"torch.backends.cuda.{name}_sdp_enabled()": (getattr(torch.backends.cuda, f"enable_{name}_sdp"), (True, False))
        for name in ("flash", "math", "mem_efficient", "cudnn")
    },
    "torch.random.initial_seed()": (torch.manual_seed, (1, 2)),
    "torch.jit.is_tracing()": (lambda v: None, (1, 2)),
    "torch.utils.data.get_worker_info()": (lambda v: None, (1, 2)),
    "torch.is_inference_mode_enabled()": (lambda v: None, (1, 2)),
}
FORMS = {
    "plain": "return x + 1, Q",
    "after a break": "capture.graph_break(); return x + 1, Q",
    "twice": "return x + 1, Q, Q",
}


def _assign(path, value):
    owner = torch.backends
    for part in path.split(".")[:-1]:
        owner = getattr(owner, part)
    with torch.backends.__allow_nonbracketed_mutation():  # which torch's own test tools forbid
        setattr(owner, path.split(".")[-1], value)


@contextlib.contextmanager
def as_it_was(read, write):
    before = read()
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            write(before)
        # One of these switches beside what it is asked for.
        torch.use_deterministic_algorithms(is_deterministic, warn_only=only_warns)
        torch.set_default_device(None)


@pytest.mark.without_graphs("some of these are CPython's to ask", cases="some")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_state_of_torch_is_that_of_the_call(question, form):
    write, values = QUESTIONS[question]

    def calls(compiled, _):
        scope = {"torch": torch, "capture": __import__("capture")}
        exec(f"def f(x):\n    {FORMS[form].replace('Q', question)}", scope)
        function, found = compiled(scope["f"]), []
        for value in (*values, values[0], *values):
            write(value)
            found.append(outcome(function, torch.ones(1)))
        return found

    with as_it_was(lambda: eval(question), write):
        write(values[0])
        assert differing([(question, None)], calls) == []
