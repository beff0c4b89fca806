"""Where the modules of version 0.1 are now: adapters that import an old name are told the new one.

A target's own name, ``module:attribute``, as reports, campaigns and saved counterexamples of version 0.1 hold it, is
read with the new name; what somebody's file imports can't be, so the error says what to write.
"""

from __future__ import annotations

HOME = "kvlitmus.conformance."

MOVED: dict[str, str] = {
    f"{HOME}tier_ports": "kvlitmus.spec.interface.tiers",
    f"{HOME}store_ports": "kvlitmus.spec.interface.stores",
    f"{HOME}choices": f"{HOME}ports.choices",
    f"{HOME}compose": f"{HOME}ports.compose",
    f"{HOME}adapter_template": f"{HOME}ports.template",
    f"{HOME}adapter_words": f"{HOME}ports.template_words",
    f"{HOME}judge": f"{HOME}checker.checker",
    f"{HOME}guard": f"{HOME}checker.guard",
    f"{HOME}observation": f"{HOME}checker.observation",
    f"{HOME}tier_observation": f"{HOME}checker.tier_observation",
    f"{HOME}unseen": "kvlitmus.spec.partial",
    f"{HOME}tier_books": "kvlitmus.spec.tier_state",
    f"{HOME}fetch_books": "kvlitmus.spec.prefetch_advance",
    f"{HOME}event_books": "kvlitmus.spec.event",
    f"{HOME}failure_books": "kvlitmus.spec.tier_advance",
    f"{HOME}shelf": "kvlitmus.spec.store_state",
    f"{HOME}harness_store": f"{HOME}checker.harness_store",
    f"{HOME}selection": f"{HOME}checker.selection",
    f"{HOME}explain": f"{HOME}checker.explain",
    f"{HOME}scripted_host": f"{HOME}checker.scripted_host",
    f"{HOME}calls": f"{HOME}checker.calls",
    f"{HOME}schedule": f"{HOME}generate.schedule",
    f"{HOME}machine": f"{HOME}generate.machine",
    f"{HOME}player": f"{HOME}generate.interpreter",
    f"{HOME}moves": f"{HOME}generate.actions",
    f"{HOME}shrink": f"{HOME}generate.shrink",
    f"{HOME}minimise": f"{HOME}run.minimise",
    f"{HOME}engine": f"{HOME}run.engine",
    f"{HOME}plan": f"{HOME}run.plan",
    f"{HOME}results": f"{HOME}run.results",
    f"{HOME}verdicts": f"{HOME}run.verdicts",
    f"{HOME}targets": f"{HOME}run.targets",
    f"{HOME}baseline": f"{HOME}run.baseline",
    f"{HOME}report.failures": f"{HOME}run.failures",
    f"{HOME}process": f"{HOME}isolation.process",
    f"{HOME}supervisor": f"{HOME}isolation.supervisor",
    f"{HOME}parent": f"{HOME}isolation.parent",
    f"{HOME}worker": f"{HOME}isolation.worker",
    f"{HOME}crew": f"{HOME}isolation.worker_pool",
    f"{HOME}patience": f"{HOME}isolation.watchdog",
    f"{HOME}autopsy": f"{HOME}isolation.crash_triage",
    f"{HOME}stage": f"{HOME}isolation.current_run",
    f"{HOME}integrity": f"{HOME}isolation.integrity",
    f"{HOME}commands": f"{HOME}cli.commands",
    f"{HOME}output": f"{HOME}cli.output",
    f"{HOME}recorded": f"{HOME}history",
    f"{HOME}fuzz.hands": f"{HOME}fuzz.job_runner",
    f"{HOME}text": f"{HOME}support.text",
    f"{HOME}files": f"{HOME}support.files",
    f"{HOME}ending": f"{HOME}support.ending",
    f"{HOME}report.brief": f"{HOME}support.brief",
    f"{HOME}adapters.reference": f"{HOME}adapters.reference.target",
    f"{HOME}adapters.reference_tiers": f"{HOME}adapters.reference.tiers",
    f"{HOME}adapters.reference_choices": "kvlitmus.spec.setting",
    f"{HOME}adapters.reference_contents": f"{HOME}adapters.reference.contents",
    f"{HOME}adapters.reference_store": f"{HOME}adapters.reference.store",
    f"{HOME}adapters.optimized": f"{HOME}adapters.optimized.target",
    f"{HOME}adapters.optimized_tiers": f"{HOME}adapters.optimized.tiers",
    f"{HOME}adapters.optimized_contents": f"{HOME}adapters.optimized.contents",
    f"{HOME}adapters.file_store": f"{HOME}adapters.stores.file",
    f"{HOME}adapters.file_stores": f"{HOME}adapters.stores.folders",
    f"{HOME}adapters.network_store": f"{HOME}adapters.stores.network",
    f"{HOME}adapters.page_stores": f"{HOME}adapters.stores.pages",
    f"{HOME}adapters.redis_store": f"{HOME}adapters.stores.redis",
    f"{HOME}adapters.dying": f"{HOME}adapters.stores.dying",
    f"{HOME}adapters.scratch": f"{HOME}adapters.stores.scratch",
    f"{HOME}adapters.sglang_0_5_13": f"{HOME}adapters.sglang.v0_5_13.flat",
    f"{HOME}adapters.sglang_0_5_13_hicache": f"{HOME}adapters.sglang.v0_5_13.hicache",
    f"{HOME}adapters.sglang_0_5_13_unified": f"{HOME}adapters.sglang.v0_5_13.unified",
    f"{HOME}adapters.sglang_jobs": f"{HOME}adapters.sglang.v0_5_13.jobs",
    f"{HOME}adapters.sglang_0_5_23": f"{HOME}adapters.sglang.v0_5_23.flat",
    f"{HOME}adapters.sglang_0_5_23_census": f"{HOME}adapters.sglang.v0_5_23.native_snapshot",
    f"{HOME}adapters.sglang_0_5_23_hicache": f"{HOME}adapters.sglang.v0_5_23.hicache",
    f"{HOME}adapters.sglang_0_5_23_hicache_plan": f"{HOME}adapters.sglang.v0_5_23.environment",
    f"{HOME}adapters.sglang_0_5_23_jobs": f"{HOME}adapters.sglang.v0_5_23.jobs",
    f"{HOME}adapters.sglang_0_5_23_look": f"{HOME}adapters.sglang.common.tiers",
    f"{HOME}adapters.sglang_0_5_23_plan": f"{HOME}adapters.sglang.v0_5_23.flat",
    f"{HOME}adapters.sglang_probe": f"{HOME}adapters.sglang.v0_5_23.probe",
    f"{HOME}adapters.sglang_file": f"{HOME}adapters.sglang.common.file",
    f"{HOME}adapters.sglang_hicache": f"{HOME}adapters.sglang.v0_5_13.environment",
    f"{HOME}adapters.sglang_pools": f"{HOME}adapters.sglang.common.pools",
    f"{HOME}adapters.sglang_steps": f"{HOME}adapters.sglang.common.steps",
    f"{HOME}adapters.sglang_stubs": f"{HOME}adapters.sglang.common.stubs",
    f"{HOME}adapters.sglang_tiers": f"{HOME}adapters.sglang.common.tiers",
    f"{HOME}trace": "benchmarks.trace",
    f"{HOME}mutants.null": "kvlitmus.mutants.legal.flat",
    f"{HOME}mutants.null_tiers": "kvlitmus.mutants.legal.tiers",
    f"{HOME}mutants_run": "kvlitmus.mutants.run",
    f"{HOME}mutants": "kvlitmus.mutants",
}
"""Old module → new module; what is below an old package is below the new one."""


def now(module: str) -> str:
    """The name of a module of version 0.1 today; any other name as it is."""
    package, _, name = module.rpartition(".")
    if module in MOVED:
        return MOVED[module]
    if package in MOVED and not MOVED[package].startswith(f"{package}."):  # what was a module may be a package now
        return f"{MOVED[package]}.{name}"
    return module
