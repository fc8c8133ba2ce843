"""The numbers that decide what pays, one object per target: every module that decides reads them here.

A line says what its number stands for, and the command that measures what it decides where there is one.  A number
without a command has no measurement on record; what it stands for is the reason for it.  Blocks and warps of kernels on
GPUs are first guesses: ``python -m benchmarks.shapes`` shows how good they are, and ``max_autotune`` tries others.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs and limits of every target.  Costs of values are counted in additions; a load is one."""

    shared: int = 4
    """A value with several users is computed in each of them if it costs no more (additions; a load is one)."""
    often: int = 12
    """A value is stored if users repeat it over outer axes and would do so much more work for each element:
    ``python -m benchmarks.corpus swin_v2 cait``."""
    largest_tree: int = 80
    """An expression that costs more is given memory, so that trees stay small whatever the graph."""
    most_reads: int = 16
    """An expression that reads more elements is given memory, too."""
    most_waiting: int = 1 << 20
    """Bytes of a sum's terms, results of calls, that may wait for the last: ``python -m benchmarks.memory``."""
    window_written_out: int = 25
    """Windows of pools of up to so many elements are written out; larger ones are loops."""
    most_taps: int = 25
    """Input elements that make one element of an interpolation; one made of more is left to torch's kernel."""
    plain_read: int = 2
    """A value that costs no more, a load and its widening, is read again for every window that it lies in."""
    picked_inline: int = 4
    """A gathered value is computed where it is picked if it costs no more, or as few are picked as it costs."""
    inline_parts: int = 4
    """Up to so many parts of a ``cat`` are chosen between where they are used; more are written into memory."""
    gradient_reads: int = 4
    """A gradient that reads more (that of pools) is not computed twice, for sums and for what is made of them."""
    longest_inlined: int = 60
    """A value that costs more keeps its name: trees stay readable, and shallow enough for recursion."""
    worth_a_name: int = 2
    """A subexpression that costs less is clearer where it stands than under a name."""
    worth_moving: int = 4
    """A value that costs less is as well computed where it is read as before the loop."""
    most_candidates: int = 6
    """Nests that fusion tries to merge with one: keeps compile time from growing with the square of the graph."""
    recent_readers: int = 4
    """Readers of one buffer that it looks at, the last ones: likewise."""
    most_buffers: int = 32
    """Buffers of a kernel: bounds what a compiler and a reader have to hold."""
    most_statements: int = 160
    """Statements of a kernel: likewise."""
    fewest_rows: int = 32
    """Elementwise work put into fewer rows of a reduction would lose its parallelism."""
    small_work: int = 1 << 15
    """Elements that are done before anybody would notice: a launch's worth on a GPU, one thread's on a CPU."""
    most_compared: int = 3
    """Sizes of which the largest or smallest is taken: each more names all others thrice; five take g++ a minute."""
    likely_size: int = 1 << 13
    """The value that a size known only at run time is assumed to have in estimates."""


@dataclass(frozen=True, slots=True)
class CpuCosts:
    """The costs and limits of CPUs."""

    parallel_work: int = 65536
    """Below so many instructions (about 20 µs) waking threads costs more than it brings."""
    elementary_work: int = 16
    """Instructions that an elementary function counts for."""
    unrolled: int = 4
    """Accumulators that take turns, where each addition would wait for the one before: an addition's latency."""
    recomputed: int = 8
    """A value of an earlier pass is computed again in a later one if it costs no more: ``python -m
    benchmarks.passes``."""
    picked: int = 4
    """Work that an element picked at a place counts for, beyond a load: likewise."""
    worth_a_pass: int = 25
    """A value is stored if an operator that goes over it several times would do more work in all for an element:
    likewise."""
    many_turns: int = 64
    """Turns of a loop from which on its accesses alone decide which axis runs along the lanes."""
    smallest_tiled: int = 64
    """Shorter axes of a transpose stay in the first cache anyway."""
    band: int = 64
    """Rows that are done together where reads cross: what a column touches of them fits the first cache."""
    pieces: int = 64
    """Pieces of a long reduction: enough for the threads of a machine, few enough to add up."""
    long_reduction: int = 32768
    """From here on a reduction is done in pieces: one accumulator would lose digits, one thread time."""
    short_reduction: int = 4096
    """Rows of dynamic size are done in one piece below: in pieces rows of 64 took up to 90 times as long."""
    longest_in_lanes: int = 1 << 20
    """As far as this the lanes of a piece have little enough to add to keep their digits."""
    few_rows: int = 8
    """Fewer iterations of outer loops are not shared where the loop inside can be: they would leave threads idle."""
    shortest_segment: int = 8
    """Elements below which a loop that is cut where conditions change has nothing left for vectors."""
    most_segments: int = 8
    """Segments of a loop: a concatenation of many tensors would be a kernel of many loops."""
    smallest_stream: int = 1 << 17
    """Bytes below which a kernel finds its memory in the cache, and asks for nothing ahead of time."""
    shortest_stream: int = 1 << 13
    """Bytes side by side below which a stretch ends before what is asked for ahead is of use."""
    largest_scratch: int = 256
    """Bytes; larger temporaries have memory of their own, which is free again sooner."""
    line: int = 64
    """Bytes of a cache line, which no two temporaries share: kernels of one run may work at the same time."""
    most_held: int = 1 << 20
    """Bytes whose release a run may put off where more memory is needed: ``python -m benchmarks.memory``."""
    smallest_image: int = 64
    """Points of an output below which windows are better moved over one channel after the other."""
    few_channels: int = 4
    """oneDNN rearranges the weights of so few channels badly, so they are handed over as it wants them."""
    cheaper_weights: int = 2
    """Weights with batch norm in them are scaled at every call: so many times smaller must they be than the result."""
    kernels_per_unit: int = 4
    """Kernels that one run of the compiler builds where cores are free for more: its start costs as much as one."""
    many_calls: int = 128
    """Elementary functions in a unit from which on they are called: inlined, a thousand take g++ a minute."""


@dataclass(frozen=True, slots=True)
class GpuCosts:
    """The costs and limits of GPUs."""

    cheap: int = 24
    """A value that takes no more bytes to compute again than to read is computed again up to this cost: memory traffic
    counts."""
    recomputed: int = 32
    """A value of an earlier pass is computed again in a later one if it costs no more."""
    large_table: int = 1 << 22
    """Gradients of tables of fewer elements are written as fast as kernels are started."""
    programs: int = 512
    """So many, of eight warps each, keep a device busy and are all there at once: none waits for others to end."""
    line: int = 128
    """Bytes of a cache line: a program reads so much side by side where columns are reduced."""
    shortest_row_chunk: int = 1024
    """A chunk of a row of fewer elements costs more to start than it saves."""
    shortest_column_chunk: int = 32
    """A chunk of a column of fewer elements costs more to start than it saves."""
    long_row: int = 1 << 15
    """Shorter rows one program reduces before a second kernel would have started."""
    long_column: int = 512
    """Shorter columns one program reduces before a second kernel would have started."""
    persistent: int = 8192
    """Rows up to this long are kept in registers: ``python -m benchmarks.shapes softmax 'layer norm'``."""
    registers: int = 16384
    """So many elements a program can hold."""
    few_programs: int = 128
    """Fewer leave processors of the device idle (an H200 has 132)."""
    in_flight: int = 8192
    """Bytes that a program asks each operand for at once, where it comes back for more: ``python -m benchmarks.shapes
    'column sum'``."""
    shortest_side: int = 16
    """Axes shorter than this are not worth a dimension of their own."""
    worth_a_dimension: int = 8
    """An axis gets a dimension if one byte in so many lies side by side along it: ``python -m benchmarks.shapes
    'transpose + add'``."""
    many_elements: int = 1 << 22
    """From so many elements on there are programs enough whatever their size: ``python -m benchmarks.bandwidth``."""
    few_operands: int = 4
    """More operands are on their way together as it is, so that blocks need not be larger: likewise."""
    block: int = 1024
    """Elements that a program works on at first; twice as many of two bytes are as many bytes."""
    square: int = 64
    """The side of a block that two operands read along different axes; half of one side where elements are wide."""
    cube: int = 16
    """The side of a block of three dimensions."""
    warps: int = 4
    """Warps of a program that works on a block of one dimension."""
    elements_per_warp: int = 128
    """Elements of a smaller block that give a warp work."""
    many_warps: int = 8
    """Warps of a program with more to do: a block of several dimensions, a row that is longer than registers hold."""
    most_warps: int = 16
    """Warps of a program where programs are few, or its rows long."""
    bytes_per_warp: int = 2048
    """Bytes of a row that give a warp work: four loads of 16 bytes for each thread."""
    sums_per_warp: int = 512
    """Elements of columns that give a warp work."""
    smallest_factor: int = 16
    """Tensor cores multiply no smaller blocks."""
    largest_tried: int = 16384
    """Elements of the largest block that tuning tries."""
    smallest_tried: int = 256
    """Elements of the smallest."""
    cheap_factor: int = 24
    """A value that costs more is not computed again for every block of the other factor of a product."""
    largest_member: int = 1 << 22
    """A kernel of more elements runs so long that nobody sees its start."""
    most_arguments: int = 440
    """Arguments of a start: the driver takes four kilobytes of them."""
    most_families: int = 6
    """Families of kernels in a start: each is a text of its own to compile."""
    step: int = 16
    """Elements that come in multiples of this are read side by side."""
    shared_bytes: int = 220 << 10
    """Shared memory that a program may hold of the factors of a product: an H100 or H200 gives it 227 KiB."""
    splits: tuple[int, ...] = (2, 4, 8)
    """The numbers of parts into which tuning tries to split the sums of a product (split-K)."""
    shortest_sum: int = 256
    """Sums are not split into parts shorter than this."""
    smallest_tuned: int = 1 << 16
    """Kernels that touch fewer bytes take as long as a launch, whatever their shape."""
    tuning_turns: int = 7
    """The number of times that tuning times each candidate, in turns: the median counts."""
    tuning_launches: int = 20
    """Launches that are timed together: the clock of a device ticks in half microseconds."""
    cache_bytes: int = 64 << 20
    """More than the second-level cache of a device holds (50 MiB)."""
    better: float = 0.97
    """A candidate has to take less than this share of the guess's time: the noise of the clock is smaller."""
    compiler_threads: int = 4
    """Threads that compile kernels beside processes; alone, twice as many: a third of a compilation holds the lock."""
    compiler_processes: int = 16
    """Processes that compile kernels at most."""
    jobs_per_process: int = 6
    """Kernels that are compiled (87 ms each) in the half second that a process takes to start."""


ANY, CPU, GPU = Costs(), CpuCosts(), GpuCosts()
