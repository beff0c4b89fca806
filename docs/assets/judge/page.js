// The page of the judge: loads it on a click, hands it what was edited, and shows what it says.
"use strict";
{
  const $ = (id) => document.getElementById(`judge-${id}`);
  const base = new URL("./", document.currentScript.src).href;
  let worker = null;

  const says = (text) => { $("state").textContent = text; };

  function end() {
    if (worker) worker.terminate();
    worker = null;
    $("stop").hidden = true;
    $("run").disabled = false;
  }

  function heard({ data }) {
    if (data.what === "loading" || data.what === "playing") { says(data.text); return; }
    if (data.what === "ready") { says("ready"); return; }
    $("stop").hidden = true;
    $("run").disabled = false;
    says(data.what === "judged" ? "judged" : "it failed");
    $("text").textContent = data.text;
    $("text").hidden = false;
    $("drawn").hidden = !data.page;
    $("drawn").srcdoc = data.page || "";
    if (data.what === "failed") end();
  }

  $("run").addEventListener("click", () => {
    if (location.protocol === "file:") { says("A browser runs this only from a server: tools/docs serve shows the site on one."); return; }
    $("run").disabled = true;
    says("…");
    $("stop").hidden = false;
    if (!worker) {
      worker = new Worker(`${base}worker.js`, { type: "module" });
      worker.onmessage = heard;
      worker.onerror = (event) => { says(`it failed: ${event.message || "the judge is not part of this build of the site"}`); end(); };
    }
    worker.postMessage({ cache: $("cache").value, adapter: $("adapter").value });
  });
  $("stop").addEventListener("click", () => { end(); says("stopped"); });
}
