-- What the other parts fill in. Before it stand numbers that are the engine's own:
--
-- SLACK        in seconds, how far a state of a rule's own may reach beyond a refill (or a window begin ahead of now)
--              before it is cut off
-- MOST_NAMES   the most states in one text
-- MOST_OTHERS  the most of them that are kept although their rules are not asked about

-- By letter: what a rule of that algorithm does. The parts that follow add to it.
local ALGORITHMS = {}
-- By letter: how the rules under one key are read and written.
local ENCODINGS = {}
-- True if a rule was asked about other windows than the one that now lies in.
local OTHER_WINDOW = false
-- Of what is given back: when it was charged, and how long ago that is.
local CHARGED_HIGH, CHARGED_LOW, AGE_HIGH, AGE_LOW = 0, 0, 0, 0
