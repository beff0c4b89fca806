"use strict";
// Draws one scene at a time.  All texts are set as texts, so no tape can bring markup.
const meta = JSON.parse(document.getElementById("meta").textContent);
const parts = meta.plays.map((_, play) => [...document.querySelectorAll(`script.part[data-play="${play}"]`)]);
const unpacked = new Map();
const NEAR = 40; // so many steps around the one that is shown are listed, and drawn as lanes
let play = 0;
let at = 0;
let drawing = 0;

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function part(of, number) {
  const key = `${of} ${number}`;
  if (!unpacked.has(key)) {
    const packed = Uint8Array.from(atob(parts[of][number].textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    unpacked.set(key, new Response(stream).text().then(scenes));
    if (unpacked.size > 8) unpacked.delete(unpacked.keys().next().value); // the oldest: memory stays bounded
  }
  return unpacked.get(key);
}

function scenes(text) {
  let last = null;
  return text.split("\n").map((line) => (last = after(last, JSON.parse(line))));
}

// A scene is told by the edits that make it of the one before, as a tape tells looks; what no edit touches is shared.
function after(before, told) {
  if (!Array.isArray(told["~"])) return told;
  const fresh = new Set();
  const own = (value) => {
    if (fresh.has(value)) return value;
    const copy = Array.isArray(value) ? value.slice() : { ...value };
    fresh.add(copy);
    return copy;
  };
  const whole = { now: own(before) };
  for (const [path, at, ...rest] of told["~"]) {
    let [outer, key] = [whole, "now"];
    for (const inner of path) [outer, key] = [(outer[key] = own(outer[key])), inner];
    const old = outer[key];
    if (rest.length === 2) outer[key] = [...old.slice(0, at), ...rest[1], ...old.slice(at + rest[0])];
    else if (rest.length) (outer[key] = own(old))[at] = rest[0];
    else delete (outer[key] = own(old))[at];
  }
  return whole.now;
}

async function scene(of, number) {
  if (number < 0 || number >= meta.plays[of].steps) return null;
  return (await part(of, Math.floor(number / meta.part)))[number % meta.part];
}

function red(pool) {
  return pool.squares.some(([, kind]) => meta.odd.includes(kind)); // such a pool stands first
}

function squares(pool, before) {
  const old = new Map((before ? before.squares : []).map(([label, kind, who]) => [label, kind + who]));
  const list = element("ul", { class: "squares" });
  const kinds = new Set();
  for (const [label, kind, who] of pool.squares) {
    kinds.add(kind);
    const changed = before !== undefined && old.get(label) !== kind + who;
    const said = kind === "free" ? "" : who || meta.kinds[kind];
    const whole = `${label}: ${meta.kinds[kind]}${who && kind !== "free" ? `, ${who}` : ""}${changed ? " (changed)" : ""}`;
    list.append(
      element(
        "li",
        { class: kind + (changed ? " changed" : ""), title: whole },
        element("b", { "aria-hidden": "true" }, String(label)),
        element("span", { "aria-hidden": "true" }, said),
        element("span", { class: "unseen" }, whole),
      ),
    );
  }
  const legend = element("ul", { class: "legend" });
  for (const kind of Object.keys(meta.kinds)) {
    if (kinds.has(kind)) legend.append(element("li", {}, element("i", { class: kind }), meta.kinds[kind]));
  }
  if (list.querySelector(".changed")) legend.append(element("li", {}, "● changed by this step"));
  return element("section", {}, element("h3", {}, pool.name), list, legend);
}

const CHIP = { "device pages": "cached", "host pages": "cached" };

function table(drawn, before, classes = []) {
  const old = new Map((before ? before.rows : []).map((row) => [row[0], row]));
  const body = element("tbody");
  for (const [key, cells, depth, odd] of drawn.rows) {
    const was = old.get(key);
    old.delete(key);
    const changed = before !== undefined && JSON.stringify(was && was[1]) !== JSON.stringify(cells);
    const row = element("tr", { class: (changed ? "changed " : "") + (odd ? "differs" : "") });
    cells.forEach((cell, index) => {
      const chip = CHIP[drawn.head[index]];
      const inside = chip && cell !== "–" ? element("span", { class: `chip ${chip}` }, cell) : cell;
      const made = element(index === 0 && drawn.tree ? "th" : "td", index === 0 && drawn.tree ? { scope: "row" } : {}, inside);
      if (index === 0 && depth) made.style.paddingLeft = `${Math.min(depth, 24) * 14}px`;
      row.append(made);
    });
    body.append(row);
  }
  for (const [, cells] of drawn.tree ? old.values() : []) {
    body.append(element("tr", { class: "gone" }, ...cells.map((cell) => element("td", {}, cell))));
  }
  const head = element("tr", {}, ...drawn.head.map((one) => element("th", { scope: "col" }, one)));
  const whole = element("table", {}, element("caption", { class: "unseen" }, drawn.name), element("thead", {}, head), body);
  if (!drawn.rows.length && classes.includes("alike")) return element("section", { class: "alike" }, element("h3", {}, drawn.name));
  const shown = body.children.length ? element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": drawn.name }, whole) : element("p", {}, "nothing is cached");
  return element("section", { class: classes.join(" ") || null }, element("h3", {}, drawn.name), shown);
}

function lanes(around, number) {
  const jobs = new Map();
  around.forEach((one, index) => {
    for (const [id, kind, state, about] of one ? one.jobs : []) {
      if (!jobs.has(id)) jobs.set(id, { kind, states: new Array(around.length).fill(null), about });
      const job = jobs.get(id);
      job.states[index] = state;
      if (one.n === number) job.about = about;
    }
  });
  const now = around.findIndex((one) => one && one.n === number);
  const begun = [...jobs].filter(([, job]) => job.states.slice(0, now + 1).some(Boolean)); // not those of later steps
  if (!begun.length) return [];
  const grid = element("div", { class: "lanes" });
  for (const [id, job] of begun) {
    const lane = element("div", { class: "lane", "aria-hidden": "true" });
    job.states.forEach((state, index) => {
      const here = index === now ? " here" : "";
      lane.append(element("i", { class: (state ? state.replace(" ", "") : "") + here, title: state || "" }));
    });
    const state = job.states[now] || "not there";
    const name = id.startsWith(job.kind) ? id : `${job.kind} ${id}`;
    grid.append(element("span", { title: job.about }, name, element("span", { class: "unseen" }, ` ${state}, ${job.about}`)), lane);
  }
  const ends = around.filter(Boolean).map((one) => one.n);
  grid.append(element("span", {}, "step"), element("div", { class: "axis" }, element("span", {}, String(ends[0])), element("span", {}, String(ends[ends.length - 1]))));
  const used = new Set(begun.flatMap(([, job]) => job.states));
  const legend = element("ul", { class: "legend" });
  for (const [state, word] of [["under way", "under way"], ["waits", "waits"], ["landed", "landed, not yet noted"], ["ended", "ended by this step"], ["failed", "failed"]]) {
    if (used.has(state)) legend.append(element("li", {}, element("i", { class: `state ${state.replace(" ", "")}` }), word));
  }
  legend.append(element("li", {}, element("i", { class: "here" }), "this step"));
  return [element("section", {}, element("h3", {}, "Jobs"), grid, legend)];
}

function terms(rows) {
  const list = element("dl");
  for (const [name, value] of rows) if (value) list.append(element("dt", {}, name), element("dd", {}, value));
  return list;
}

function step(now) {
  const shown = [element("h3", {}, now.n ? `Step ${now.n}${now.call && now.call !== now.n ? `, call ${now.call}` : ""}` : "Before the first call"), element("p", { class: "call mono" }, now.text)];
  const rows = [[now.raised ? "cache raised" : "cache answered", now.answer]];
  if (now.expected) rows.push(["reference answered", now.expected === now.answer ? "the same" : now.expected]);
  now.did.forEach((one) => rows.push(["meanwhile", one]));
  if (now.op !== null) rows.push(["operation of the schedule", String(now.op)]);
  const list = terms(rows);
  if (now.unlike) list.classList.add("unlike");
  shown.push(list);
  if (now.verdicts.length) shown.push(element("p", { class: "broken" }, `broken: ${now.verdicts.map((one) => one.rule).join(", ")}`));
  for (const one of now.verdicts) {
    if (document.querySelector(".finding:not([hidden])")) continue; // there it is told
    shown.push(terms([["sentence", one.sentence], ["allowed", one.allowed], ...Object.entries(one.seen).map(([name, value]) => [name.replaceAll("_", " "), value])]));
  }
  return shown;
}

function listed(around, from) {
  const list = element("ol");
  if (from > 0) {
    const button = element("button", { type: "button" }, `↑ steps 0 to ${from - 1}`);
    button.addEventListener("click", () => go(from - 1));
    list.append(element("li", {}, button));
  }
  for (const one of around) {
    if (!one) continue;
    const bad = one.verdicts.length > 0;
    const classes = bad ? "bad" : one.n && one.n === meta.plays[play].parted ? "parted" : "";
    if (one.whole) list.append(element("li", { class: "whole" }, `call ${one.call}: ${one.whole}`));
    const button = element("button", { type: "button", title: one.text }, element("span", {}, `${one.n}  ${one.text}`));
    button.addEventListener("click", () => go(one.n));
    list.append(element("li", { class: classes, "aria-current": one.n === at ? "step" : false }, button));
  }
  return [element("h3", {}, "Steps"), list];
}

async function draw(of, number) {
  const mine = ++drawing;
  const { steps, title } = meta.plays[of];
  const from = Math.max(0, Math.min(number - NEAR, steps - 2 * NEAR - 1));
  const many = Math.min(2 * NEAR + 1, steps);
  const around = await Promise.all(Array.from({ length: many }, (_, index) => scene(of, from + index)));
  const now = around[number - from];
  const before = await scene(of, number - 1);
  if (mine !== drawing) return; // somebody has gone on meanwhile
  const base = (name) => name.split(/: what is free|, last seen|, [\d,]+ of [\d,]+ are free/)[0];
  const same = (kind, name) => (before ? before[kind].find((one) => base(one.name) === base(name)) : undefined);
  for (const one of document.querySelectorAll(".play")) one.hidden = one.dataset.play !== String(of);
  $("now").replaceChildren(...step(now));
  $("steps").replaceChildren(...listed(around, from));
  const apart = now.beside && now.beside.rows.length ? ["apart"] : ["alike"];
  $("drawn").replaceChildren(
    ...(now.beside ? [table(now.beside, undefined, apart)] : []),
    ...now.tables.filter((one) => one.leads).map((one) => table(one, undefined)),
    ...[...now.pools].sort((one, other) => red(other) - red(one)).map((one) => squares(one, same("pools", one.name))),
    ...now.tables.filter((one) => one.tree).map((one) => table(one, same("tables", one.name))),
    ...lanes(around, number),
    ...now.tables.filter((one) => !one.tree && !one.leads && one.rows.length).map((one) => table(one, same("tables", one.name))),
  );
  const current = $("steps").querySelector("[aria-current]");
  const list = $("steps").querySelector("ol");
  const above = list.getBoundingClientRect().top + scrollY; // so that the step that is shown is in sight with its picture
  list.style.maxHeight = innerWidth > 860 ? `${Math.max(160, innerHeight - above - 16)}px` : null;
  const next = current.nextElementSibling || current; // the list begins at its top as long as the step is in sight there
  list.scrollTop = next.offsetTop + next.offsetHeight - list.offsetTop - list.clientHeight;
  $("where").textContent = `step ${number} of ${steps - 1}`;
  $("said").textContent = said(title, number, now);
  document.documentElement.dataset.drawn = String(number);
}

function said(title, number, now) {
  const odd = now.pools.flatMap((pool) =>
    pool.squares
      .filter(([, kind]) => meta.odd.includes(kind))
      .map(([label, kind]) => `${pool.name} ${label}: ${meta.kinds[kind]}`),
  );
  const broken = now.verdicts.map((one) => `broken: ${one.rule}`);
  const answer = now.raised ? `raised ${now.answer}` : now.answer;
  return [title, `Step ${number}: ${now.text}`, answer, ...broken, ...odd].filter(Boolean).join(". ");
}

function go(number, of = play) {
  const { steps, broken, parted } = meta.plays[of];
  if (of !== play || !$("at").max) {
    $("marks").replaceChildren();
    if (parted) jump(`differs since ${parted}`, parted);
    if (broken) jump(`broken at ${broken}`, broken);
    $("at").max = String(steps - 1);
    $("which").value = String(of);
  }
  play = of;
  at = Math.max(0, Math.min(steps - 1, number));
  $("at").value = String(at);
  $("at").setAttribute("aria-valuetext", `step ${at}`);
  const link = meta.plays.length > 1 ? `#finding=${play + 1}&step=${at}` : `#step=${at}`;
  try {
    if (location.hash !== link) history.replaceState(null, "", link);
  } catch {
    // inside of another page there is no address of its own
  }
  if (steps) return draw(play, at);
  $("where").textContent = "its steps are not on record";
  for (const one of document.querySelectorAll(".play")) one.hidden = one.dataset.play !== String(of);
  for (const id of ["now", "steps", "drawn"]) $(id).replaceChildren();
  document.documentElement.dataset.drawn = "0";
  return undefined;
}

function start(of) {
  return meta.plays[of].broken || Math.max(0, meta.plays[of].steps - 1);
}

function follow() {
  const found = /^#(?:finding=(\d{1,6}))?&?(?:step=(\d{1,9}))?$/.exec(location.hash);
  const of = Math.min(meta.plays.length, Math.max(1, Number((found && found[1]) || play + 1))) - 1;
  return go(found && found[2] !== undefined ? Number(found[2]) : start(of), of);
}

function jump(text, number) {
  const button = element("button", { type: "button", class: "jump" }, text);
  button.addEventListener("click", () => go(number));
  $("marks").append(button, " ");
}

async function copy(button) {
  const code = button.previousElementSibling;
  const range = document.createRange();
  range.selectNodeContents(code);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected: press Ctrl-C"; // a page that is opened from a file may not have the clipboard
  }
}

$("at").removeAttribute("max");
$("at").addEventListener("input", (event) => go(Number(event.target.value)));
for (const [id, where] of [["first", () => 0], ["back", () => at - 1], ["on", () => at + 1], ["last", () => Infinity]]) {
  $(id).addEventListener("click", () => go(where()));
}
addEventListener("keydown", (event) => {
  if (["at", "which"].includes(event.target.id) || event.ctrlKey || event.metaKey || event.altKey) return;
  const where = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: Infinity }[event.key];
  if (where === undefined) return;
  event.preventDefault();
  go(where);
});
addEventListener("hashchange", follow);
for (const section of document.querySelectorAll(".play")) {
  $("told").parentElement.insertBefore(section, $("told"));
  section.hidden = section.dataset.play !== "0";
  if (innerWidth <= 860) for (const one of section.querySelectorAll("details")) one.open = false; // what is drawn comes first
  const button = section.querySelector(".replay button");
  if (button) button.addEventListener("click", () => copy(button));
}
meta.plays.forEach((one, index) => $("which").append(element("option", { value: String(index) }, `${index + 1} ${one.title}`)));
$("which").hidden = meta.plays.length < 2;
$("which").addEventListener("change", (event) => go(start(Number(event.target.value)), Number(event.target.value)));
if (meta.plays.length) follow();
else document.querySelector("nav").hidden = true;
