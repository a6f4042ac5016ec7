-- What the other parts fill in.

-- By letter: what a rule of that algorithm does. The parts that follow add to it.
local ALGORITHMS = {}
-- By letter: how the rules under one key are read and written.
local ENCODINGS = {}
-- True if a rule was asked about other windows than the one that now lies in.
local OTHER_WINDOW = false
-- Whose a state is, `rule.own` tells: nobody but this rule wrote it. Otherwise all quotas that requests bring for the key
-- share it: it may belong to a longer one, and is honoured as it stands. In seconds: how far a state of one's own may
-- reach beyond a refill (or a window begin ahead of now) before it is cut off.
local SLACK = 1
-- Of what is given back: when it was charged, and how long ago that is.
local CHARGED_HIGH, CHARGED_LOW, AGE_HIGH, AGE_LOW = 0, 0, 0, 0
