"""What a user is told of a snapshot's trace, where it is not the whole truth."""

from __future__ import annotations

NO_TIMES = (
    "This recording is of a torch that noted no times: the time axis counts events, one nanosecond"
    " for each."
)
NO_EVENTS = (
    "The snapshot holds no events: torch.cuda.memory._record_memory_history() was not on. Only what"
    " was live at its end is known."
)
RING_FULL = (
    "The history's ring was too small: its oldest events are missing, and what they allocated"
    " counts as existing before. The peak is that of the events kept."
)
RING_ROUND = (
    "The history holds {events} events, a round number, and frees blocks that it does not allocate:"
    " its ring was probably full, and what it lost counts as existing before."
)
BEGINS_LATE = (
    "{count} blocks were there before the first event: the recording began then, or its ring was"
    " full; a snapshot does not say which."
)
NO_BRACKET = (
    "A history was on already, and this torch notes no times: all that it holds counts as this"
    " recording."
)
MISSING = (
    "{count} changes don't fit the history around them (some kinds of events were not recorded, or"
    " came out of order); the bytes live at the end are right, the way there is less so."
)
GRAPHS = (
    "{mib} MiB are reserved in private pools (CUDA graphs): a graph's replay leaves no events, and"
    " its pool keeps its highest mark."
)
