-- What the other parts fill in.

-- By letter: what a rule of that algorithm does. The parts that follow add to it.
local ALGORITHMS = {}
-- By letter: how the rules under one key are read and written.
local ENCODINGS = {}
-- True if a rule was asked about other windows than the one that now lies in.
local OTHER_WINDOW = false
-- Of what is given back: when it was charged, and how long ago that is.
local CHARGED_HIGH, CHARGED_LOW, AGE_HIGH, AGE_LOW = 0, 0, 0, 0
