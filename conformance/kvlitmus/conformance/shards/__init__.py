"""Many machines: a run is divided into shards, which are played anywhere and merged into one report.

- :mod:`.shard` plays some items and says what came of them: a pure function;
- :mod:`.folder` keeps what was played, a file for each shard, and says what is missing;
- :mod:`.spread` has shards played by an executor, and outlives what happens to its workers;
- :mod:`.executors` are those that there are: processes of this machine, Ray, Dask;
- :mod:`.merge` makes one run of many shards.
"""

from kvlitmus.conformance.shards.shard import Summary, shard

__all__ = ["Summary", "shard"]
