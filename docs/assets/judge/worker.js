// Runs the judge beside the page, so that the page stays alive and can end it.  Nothing is fetched but what lies here.
import { loadPyodide } from "./pyodide.mjs";

const here = new URL("./", import.meta.url).href;
const tell = (what, text, page = "") => postMessage({ what, text, page });

async function bytes(name) {
  const answer = await fetch(here + name);
  if (!answer.ok) throw new Error(`${name} is not here (${answer.status})`);
  return answer.arrayBuffer();
}

const ready = (async () => {
  tell("loading", "Python …");
  const python = await loadPyodide({ indexURL: here });
  tell("loading", "the judge …");
  python.unpackArchive(await bytes("kvlitmus.zip"), "zip", { extractDir: "/judge" });
  python.FS.writeFile("/judge/judge.py", new Uint8Array(await bytes("judge.py")));
  python.runPython("import sys; sys.path.insert(0, '/judge'); import judge");
  tell("ready", "ready");
  return python;
})();

onmessage = async ({ data }) => {
  try {
    const python = await ready;
    const judge = python.pyimport("judge");
    const found = judge.judge(data.cache, data.adapter, (text) => tell("playing", text));
    const [text, page] = found.toJs();
    tell("judged", text, page);
  } catch (error) {
    tell("failed", String(error));
  }
};
ready.catch((error) => tell("failed", String(error)));
