"""The generator of the recorded incident: `story` says what happened, `record` writes the files of `outrider_sre`.

Between them each module makes one kind of data: the fleet of pods, then the samples, log lines and objects that follow from
it. Only `record` writes files. No module uses a clock, or any randomness but `dice`.
"""
