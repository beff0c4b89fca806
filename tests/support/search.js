// Asks the search of the built site, as a browser does: node search.js WORKER INDEX QUERY…
// WORKER is the theme's own script, which makes an index of INDEX and ranks; printed is, for each query, the pages in order.
const fs = require("fs");
const [worker, index, ...queries] = process.argv.slice(2);
let hear, heard;
globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => { hear = listener; };
globalThis.postMessage = (message) => heard(message);
const ask = (type, data) => new Promise((resolve) => { heard = resolve; hear({ data: { type, data } }); });

(async () => {
  (0, eval)(fs.readFileSync(worker, "utf-8"));
  const { config, docs } = JSON.parse(fs.readFileSync(index, "utf-8"));
  await ask(0, { config, docs, options: { suggest: false } });
  const found = {};
  for (const query of queries) {
    const { data } = await ask(2, query);
    found[query] = data.items.slice(0, 5).map((page) => page.map((part) => part.location));
  }
  console.log(JSON.stringify(found));
})();
