"""The report's page: plain HTML, CSS and JavaScript that opens from disk, with everything it shows in `data.js`."""

PAGE = r"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>dgpnet report</title>
<style>
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --card: #ffffff; --line: #e2e5ea; --text: #16181d; --soft: #667085; --accent: #2563eb;
  --low: #d92d20; --middle: #dc8a0c; --high: #12905a; --shade: rgba(16, 24, 40, .07);
}
@media (prefers-color-scheme: dark) {
  :root { --ground: #0e1014; --card: #171a20; --line: #2a2e37; --text: #e8eaee; --soft: #98a2b3; --accent: #7aa2ff;
          --low: #ff7a6e; --middle: #f0b429; --high: #4cc38a; --shade: rgba(0, 0, 0, .45); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
       font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header { position: sticky; top: 0; z-index: 2; background: color-mix(in srgb, var(--ground) 88%, transparent);
         backdrop-filter: blur(10px); border-bottom: 1px solid var(--line); padding: 14px 24px; }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: 10px 18px; }
h1 { font-size: 17px; margin: 0; font-weight: 650; letter-spacing: -.01em; }
.soft { color: var(--soft); }
.classes { display: flex; flex-wrap: wrap; gap: 4px 12px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 5px;
          vertical-align: -1px; }
.grow { flex: 1; }
select, input[type=search], button { font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; padding: 5px 10px; }
input[type=search] { width: 190px; }
button { cursor: pointer; }
button:disabled { opacity: .4; cursor: default; }
button[aria-pressed=true] { border-color: var(--accent); color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#histogram { display: flex; align-items: flex-end; gap: 1px; height: 30px; }
#histogram i { width: 9px; background: var(--soft); opacity: .55; border-radius: 2px 2px 0 0; min-height: 1px; }
main { padding: 20px 24px 60px; max-width: 1760px; margin: 0 auto; }
#grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; overflow: hidden; padding: 0;
        text-align: left; box-shadow: 0 1px 3px var(--shade); display: flex; flex-direction: column; }
.card:hover { border-color: var(--accent); }
.stack { position: relative; display: grid; place-items: center; background: var(--line); overflow: hidden; }
.card .stack { aspect-ratio: 4 / 3; }
.stack img { grid-area: 1 / 1; max-width: 100%; max-height: 100%; width: 100%; height: 100%; object-fit: contain; }
.mask { opacity: .6; image-rendering: auto; }
.hide-mask .mask, .hide-uncertainty .uncertainty { display: none; }
.caption { padding: 9px 12px 11px; display: flex; gap: 10px; align-items: center; width: 100%; }
.name { display: flex; flex: 1; min-width: 0; white-space: pre; }
.name span { overflow: hidden; text-overflow: ellipsis; }
.name .soft { flex: 0 1000 auto; }
.score { font-variant-numeric: tabular-nums; font-weight: 650; }
.low { color: var(--low); } .middle { color: var(--middle); } .high { color: var(--high); }
nav { display: flex; justify-content: center; align-items: center; gap: 12px; margin: 26px 0; }
details { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--low);
          border-radius: 10px; padding: 10px 16px; margin-bottom: 20px; }
summary { cursor: pointer; font-weight: 600; }
details li { margin: 4px 0; overflow-wrap: anywhere; }
dialog { border: 0; padding: 0; width: 100vw; height: 100vh; max-width: none; max-height: none;
         background: var(--ground); color: var(--text); }
dialog[open] { display: flex; flex-direction: column; }
.bar { padding: 12px 20px; border-bottom: 1px solid var(--line); display: flex; gap: 8px 20px; align-items: center;
       flex-wrap: wrap; }
.bar b { font-size: 15px; overflow-wrap: anywhere; }
.panels { flex: 1; min-height: 0; display: grid; grid-template: 1fr 1fr / minmax(0, 2fr) minmax(0, 1fr); gap: 14px;
          grid-auto-flow: column; padding: 14px 20px 20px; }
.panel { display: flex; flex-direction: column; gap: 6px; min-height: 0; }
.panel:first-child { grid-row: span 2; }
@media (max-width: 900px) { .panels { display: flex; flex-direction: column; overflow: auto; }
                            .panel { min-height: 60vh; } }
.panel .stack { flex: 1; min-height: 0; background: none; }
.panel .stack img { position: absolute; inset: 0; object-position: left top; }
.facts { display: flex; flex-wrap: wrap; gap: 4px 18px; }
a { color: var(--accent); }
dialog:focus { outline: none; }
kbd { font: 12px ui-monospace, monospace; border: 1px solid var(--line); border-bottom-width: 2px; border-radius: 5px;
      padding: 0 5px; background: var(--card); }
.empty { padding: 60px; text-align: center; color: var(--soft); }
</style>
</head>
<body class="hide-uncertainty">
<header>
  <div class="row">
    <h1 id="title"></h1>
    <span id="classes" class="classes"></span>
    <span class="grow"></span>
    <span class="soft">scores 0 – 1</span><span id="histogram" title="How many photographs have which score"></span>
  </div>
  <div class="row" style="margin-top: 10px">
    <select id="order" aria-label="Order">
      <option value="score">Least certain first</option>
      <option value="-score">Most certain first</option>
      <option value="likeness">Least like the examples first</option>
      <option value="-area">Largest area first</option>
      <option value="area">Smallest area first</option>
      <option value="name">By name</option>
    </select>
    <input id="search" type="search" placeholder="Find a name…" aria-label="Find a name">
    <button id="mask" aria-pressed="true" title="Show masks (M)">Mask</button>
    <button id="uncertainty" aria-pressed="false" title="Show uncertainty (U)">Uncertainty</button>
    <span id="count" class="soft"></span>
    <span class="grow"></span>
    <span class="soft"><kbd>←</kbd> <kbd>→</kbd> page or photograph · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close ·
      <kbd>M</kbd> mask · <kbd>U</kbd> uncertainty</span>
  </div>
</header>
<main>
  <div id="failures"></div>
  <div id="grid"></div>
  <nav><button id="previous">← Previous</button><span id="page" class="soft"></span>
    <button id="next">Next →</button></nav>
</main>
<dialog id="viewer" tabindex="-1" aria-label="One photograph">
  <div class="bar"><b id="v-name"></b><span id="v-score" class="score"></span><span id="v-facts" class="facts soft">
    </span><a id="v-file">mask file</a><span class="grow"></span><span id="v-place" class="soft"></span>
    <button id="v-previous">←</button><button id="v-next">→</button><button id="v-close">Close</button></div>
  <div class="panels">
    <div class="panel"><span class="soft">Mask</span><div class="stack" id="v-mask"></div></div>
    <div class="panel"><span class="soft">Photograph</span><div class="stack" id="v-photo"></div></div>
    <div class="panel"><span class="soft">Uncertainty: bright where the label may be wrong</span>
      <div class="stack" id="v-uncertainty"></div></div>
  </div>
</dialog>
<script src="data.js"></script>
<script>
"use strict";
const PER_PAGE = 60;
const report = window.dgpnetReport;
const byId = (id) => document.getElementById(id);
const rows = report.rows.map(([name, width, height, score, likeness, uncertainty, novelty, areas, seconds]) =>
  ({ name, width, height, score, likeness, uncertainty, novelty, areas, seconds,
     area: areas.reduce((sum, part) => sum + part, 0) / (width * height) }));
const likened = rows.some((row) => row.likeness > 0 && row.likeness < 1);
let shown = rows, page = 0, open = -1;

const make = (tag, properties = {}, children = []) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const address = (folder, name, suffix) => folder + "/" + name.split("/").map(encodeURIComponent).join("/") + suffix;
const picture = (kind, row) => make("img", {
  className: kind, alt: "", loading: "lazy", decoding: "async", draggable: false,
  src: address(kind, row.name, kind === "photo" ? ".jpg" : ".png") });
const named = (name) => {
  const cut = name.lastIndexOf("/") + 1;
  return [make("span", { className: "soft", textContent: name.slice(0, cut) }),
          make("span", { textContent: name.slice(cut) })];
};
const grade = (score) => score < 0.5 ? "low" : score < 0.75 ? "middle" : "high";
const percent = (part) => (100 * part).toFixed(part < 0.1 ? 1 : 0) + " %";

function header() {
  document.title = byId("title").textContent = report.title;
  for (const { name, colour } of report.classes) {
    const swatch = make("i", { className: "swatch" });
    swatch.style.background = colour;
    byId("classes").append(make("span", {}, [swatch, name]));
  }
  const bins = Array(20).fill(0);
  rows.forEach((row) => bins[Math.min(19, Math.floor(row.score * 20))]++);
  const most = Math.max(1, ...bins);
  bins.forEach((n, i) => {
    const bar = make("i", { title: `${n} from ${(i / 20).toFixed(2)} to ${((i + 1) / 20).toFixed(2)}` });
    bar.style.height = 100 * n / most + "%";
    byId("histogram").append(bar);
  });
  if (report.failures.length) {
    const list = make("ul", {}, report.failures.map(([, why]) => make("li", { textContent: why })));
    const head = make("summary", { textContent: `${report.failures.length} could not be segmented` });
    byId("failures").append(make("details", {}, [head, list]));
  }
}

function arrange() {
  const order = byId("order").value, key = order.replace("-", ""), sign = order[0] === "-" ? -1 : 1;
  const wanted = byId("search").value.trim().toLowerCase();
  shown = rows.filter((row) => row.name.toLowerCase().includes(wanted));
  const byName = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
  shown.sort(key === "name" ? byName : (a, b) => sign * (a[key] - b[key]) || byName(a, b));
  turn(0);
}

function turn(to) {
  const pages = Math.max(1, Math.ceil(shown.length / PER_PAGE));
  page = Math.min(Math.max(0, to), pages - 1);
  const cards = shown.slice(page * PER_PAGE, (page + 1) * PER_PAGE).map((row, i) => {
    const stack = make("div", { className: "stack" }, ["photo", "mask", "uncertainty"].map((k) => picture(k, row)));
    const caption = make("div", { className: "caption" }, [
      make("span", { className: "name", title: row.name }, named(row.name)),
      ...(likened ? [make("span", { className: "soft", title: "Likeness of what was found to what was painted",
                                    textContent: "≈ " + row.likeness.toFixed(2) })] : []),
      make("span", { className: "score " + grade(row.score), textContent: row.score.toFixed(2) })]);
    return make("button", { className: "card", onclick: () => view(page * PER_PAGE + i) }, [stack, caption]);
  });
  byId("grid").replaceChildren(...cards);
  if (!cards.length) byId("grid").append(make("p", { className: "empty", textContent: "Nothing to show." }));
  byId("count").textContent = `${shown.length} of ${rows.length} photographs`;
  byId("page").textContent = `Page ${page + 1} of ${pages}`;
  byId("previous").disabled = page === 0;
  byId("next").disabled = page === pages - 1;
  window.scrollTo(0, 0);
}

function view(index) {
  if (index < 0 || index >= shown.length) return;
  open = index;
  const row = shown[index];
  byId("v-name").textContent = row.name;
  byId("v-score").textContent = "score " + row.score.toFixed(3);
  byId("v-score").className = "score " + grade(row.score);
  const facts = [`${row.width} × ${row.height}`, ...report.classes.map(({ name }, i) =>
    `${name} ${percent(row.areas[i] / (row.width * row.height))}`), `uncertainty ${percent(row.uncertainty)}`,
    `likeness ${row.likeness.toFixed(2)}`, `novelty ${percent(row.novelty)}`, `${row.seconds.toFixed(2)} s`];
  byId("v-facts").replaceChildren(...facts.map((text) => make("span", { textContent: text })));
  byId("v-place").textContent = `${index + 1} of ${shown.length}`;
  byId("v-photo").replaceChildren(picture("photo", row));
  byId("v-mask").replaceChildren(...["photo", "mask", "uncertainty"].map((kind) => picture(kind, row)));
  byId("v-file").href = address("../masks", row.name, ".png");
  byId("v-uncertainty").replaceChildren(picture("photo", row), picture("uncertainty", row));
  byId("v-uncertainty").lastChild.className = "heat";
  byId("v-previous").disabled = index === 0;
  byId("v-next").disabled = index === shown.length - 1;
  if (!byId("viewer").open) byId("viewer").showModal();
  byId("viewer").focus();
}

function shut() {
  byId("viewer").close();
  if (Math.floor(open / PER_PAGE) !== page) turn(Math.floor(open / PER_PAGE));
  byId("grid").children[open % PER_PAGE]?.focus();
}

function toggle(layer) {
  const hidden = document.body.classList.toggle("hide-" + layer);
  byId(layer).setAttribute("aria-pressed", String(!hidden));
}

byId("order").onchange = byId("search").oninput = arrange;
byId("mask").onclick = () => toggle("mask");
byId("uncertainty").onclick = () => toggle("uncertainty");
byId("previous").onclick = () => turn(page - 1);
byId("next").onclick = () => turn(page + 1);
byId("v-previous").onclick = () => view(open - 1);
byId("v-next").onclick = () => view(open + 1);
byId("v-close").onclick = shut;
byId("viewer").oncancel = (event) => { event.preventDefault(); shut(); };
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const move = { ArrowLeft: -1, PageUp: -1, ArrowRight: 1, PageDown: 1 }[event.key];
  if (move && byId("viewer").open) { event.preventDefault(); view(open + move); }
  else if (move) { event.preventDefault(); turn(page + move); }
  else if (event.key === "Home" && !byId("viewer").open) turn(0);
  else if (event.key === "End" && !byId("viewer").open) turn(Infinity);
  else if (event.key.toLowerCase() === "m") toggle("mask");
  else if (event.key.toLowerCase() === "u") toggle("uncertainty");
  else if (event.key === "/" ) { event.preventDefault(); byId("search").focus(); }
});
header();
arrange();
const asked = decodeURIComponent(location.hash.slice(1));
if (asked) view(shown.findIndex((row) => row.name === asked));
</script>
</body>
</html>
"""
