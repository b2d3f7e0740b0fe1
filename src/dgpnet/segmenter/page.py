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
h1 { font-size: 17px; margin: 0; font-weight: 650; letter-spacing: -.01em; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.classes { display: flex; flex-wrap: wrap; gap: 4px 18px; max-height: 110px; overflow: auto; }
.classes > span { overflow-wrap: anywhere; }
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
.caption { padding: 9px 12px 11px; width: 100%; }
.name { display: block; white-space: pre-wrap; overflow-wrap: anywhere; }
.numbers { display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: baseline; margin-top: 3px; }
.badge { border: 1px solid var(--accent); color: var(--accent); border-radius: 6px; padding: 0 6px; font-size: 12px; }
.score { font-variant-numeric: tabular-nums; font-weight: 650; }
.low { color: var(--low); } .middle { color: var(--middle); } .high { color: var(--high); }
nav { display: flex; justify-content: center; align-items: center; gap: 12px; margin: 26px 0; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px;
          margin-bottom: 16px; }
details.failed { border-left: 4px solid var(--low); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 10px 0 2px; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 2px 14px 2px 0; text-align: right; font-weight: 400; vertical-align: top; }
th { color: var(--soft); } td:first-child, th:first-child { text-align: left; overflow-wrap: anywhere; }
#v-classes { max-height: 24vh; overflow: auto; padding: 8px 20px 0; }
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
    <span class="soft" title="How many photographs have which score; painted and edited ones are left out">scores 0 – 1
    </span><span id="histogram"></span>
  </div>
  <div class="row" style="margin-top: 10px">
    <select id="order" aria-label="Order">
      <option value="score">Least certain first</option>
      <option value="-score">Most certain first</option>
      <option value="likeness">Least like the examples first</option>
      <option value="presence">Least present first</option>
      <option value="-share">Largest area first</option>
      <option value="share">Smallest area first</option>
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
  <p id="estimate" class="soft" hidden></p>
  <div id="failures"></div>
  <details><summary>What the numbers mean</summary><dl id="legend"></dl></details>
  <div id="grid"></div>
  <nav><button id="previous">← Previous</button><span id="page" class="soft"></span>
    <button id="next">Next →</button></nav>
</main>
<dialog id="viewer" tabindex="-1" aria-label="One photograph">
  <div class="bar"><b id="v-name"></b><span id="v-badges"></span><span id="v-facts" class="facts soft">
    </span><a id="v-file">mask file</a><span class="grow"></span><span id="v-place" class="soft"></span>
    <button id="v-previous">←</button><button id="v-next">→</button><button id="v-close">Close</button></div>
  <div id="v-classes"></div>
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
const rows = report.rows.map(([name, link, values]) => {
  const row = Object.fromEntries(report.figures.map((figure, i) => [figure.name, values[i]]));
  return { ...row, name, link, share: row.shares.reduce((sum, part) => sum + part, 0) };
});
const meaning = Object.fromEntries(report.figures.map((figure) => [figure.name, figure.means]));
const ofClasses = report.figures.filter(({ name }) => rows.some((row) => Array.isArray(row[name]) && row[name].length));
const ofAll = report.figures.filter(({ name }) => rows.some((row) => typeof row[name] === "number"));
const judged = rows.some((row) => row.presence < 1 && !row.painted && !row.edited);
const likened = rows.some((row) => row.likeness > 0 && row.likeness < 1);
let shown = rows, page = 0, open = -1;

const make = (tag, properties = {}, children = []) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const address = (folder, row, suffix) => folder + "/" + row.link + suffix;
const picture = (kind, row) => make("img", {
  className: kind, alt: "", loading: "lazy", decoding: "async", draggable: false,
  src: address(kind, row, kind === "photo" ? ".jpg" : ".png") });
const named = (name) => {
  const cut = name.lastIndexOf("/") + 1;
  return [make("span", { className: "soft", textContent: name.slice(0, cut) }),
          make("span", { textContent: name.slice(cut) })];
};
const badges = (row) => ["painted", "edited"].filter((kind) => row[kind]).map((kind) =>
  make("span", { className: "badge", textContent: kind, title: meaning[kind] }));
const written = ({ name, whole }, value) => whole ? value.toLocaleString("en") :
  ["shares", "uncertainty", "novelty"].includes(name) ? percent(value) : value.toFixed(name === "seconds" ? 2 : 3);
const swatch = (colour) => {
  const element = make("i", { className: "swatch" });
  element.style.background = colour;
  return element;
};
const grade = (score) => score < 0.5 ? "low" : score < 0.75 ? "middle" : "high";
const percent = (part) => (100 * part).toFixed(part < 0.1 ? 1 : 0) + " %";

function header() {
  document.title = byId("title").textContent = report.title;
  for (const { name, colour, value, total } of report.classes) {
    const parts = "count" in total ? ` · ${total.count.toLocaleString("en")} parts` : "";
    const told = ` in ${total.photographs} photographs · ${percent(total.share)}${parts}`;
    const title = `${name}: value ${value} in masks, in ${total.photographs} photographs, ` +
      `${percent(total.share)} of all pixels${parts}`;
    byId("classes").append(make("span", { title }, [swatch(colour), name,
      make("span", { className: "soft", textContent: told })]));
  }
  const marks = report.figures.filter(({ name }) => name === "painted" || name === "edited");
  const named = ofClasses.map(({ title, means }) => ({ title: title + " of a class", means }));
  for (const { title, means } of [...ofAll, ...marks, ...named])
    byId("legend").append(make("dt", { textContent: title }), make("dd", { textContent: means }));
  const bins = Array(20).fill(0);
  rows.filter((row) => !row.painted && !row.edited)
    .forEach((row) => bins[Math.min(19, Math.floor(row.score * 20))]++);
  const most = Math.max(1, ...bins);
  bins.forEach((n, i) => {
    const bar = make("i", { title: `${n} from ${(i / 20).toFixed(2)} to ${((i + 1) / 20).toFixed(2)}` });
    bar.style.height = 100 * n / most + "%";
    byId("histogram").append(bar);
  });
  if (report.estimate) {
    const { text, doubtful } = report.estimate;
    const doubts = doubtful.map((name) => ` ${name}: the other examples say something else than is painted there.`);
    Object.assign(byId("estimate"), { textContent: text + doubts.join(""), hidden: false });
  }
  if (!judged) byId("order").querySelector("[value=presence]").remove();
  if (report.failures.length) {
    const list = make("ul", {}, report.failures.map(([name, why]) =>
      make("li", { textContent: why.includes(name) ? why : `${name}: ${why}` })));
    const head = make("summary", { textContent: `${report.failures.length} could not be segmented` });
    byId("failures").append(make("details", { className: "failed", open: report.failures.length <= 5 }, [head, list]));
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
    const numbers = row.painted || row.edited ? badges(row) : [
      make("span", { className: "score " + grade(row.score), title: "Score: " + meaning.score,
                     textContent: "score " + row.score.toFixed(2) }),
      ...(likened ? [make("span", { className: "soft", title: "Likeness: " + meaning.likeness,
                                    textContent: "likeness " + row.likeness.toFixed(2) })] : []),
      ...(judged ? [make("span", { className: "soft", title: "Presence: " + meaning.presence,
                                   textContent: "presence " + row.presence.toFixed(2) })] : [])];
    if (row.counts.length) {
      const parts = row.counts.reduce((sum, n) => sum + n, 0);
      numbers.push(make("span", { className: "soft", title: meaning.counts,
                                  textContent: parts === 1 ? "1 part" : `${parts} parts` }));
    }
    const caption = make("div", { className: "caption" }, [
      make("span", { className: "name", title: row.name }, named(row.name)),
      make("div", { className: "numbers" }, numbers)]);
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
  byId("v-badges").replaceChildren(...badges(row));
  byId("v-facts").replaceChildren(...ofAll.map((figure) => make("span", {
    title: figure.means, className: figure.name === "score" ? "score " + grade(row.score) : "",
    textContent: `${figure.title} ${written(figure, row[figure.name])}` })));
  const heads = make("tr", {}, [make("th", { textContent: "class" }), ...ofClasses.map(({ title, means }) =>
    make("th", { textContent: title, title: means }))]);
  const lines = report.classes.map(({ name, colour }, c) => make("tr", {}, [
    make("td", {}, [swatch(colour), name]), ...ofClasses.map((figure) =>
      make("td", { textContent: written(figure, row[figure.name][c]) }))]));
  byId("v-classes").replaceChildren(make("table", {}, [heads, ...lines]));
  byId("v-place").textContent = `${index + 1} of ${shown.length}`;
  byId("v-photo").replaceChildren(picture("photo", row));
  byId("v-mask").replaceChildren(...["photo", "mask", "uncertainty"].map((kind) => picture(kind, row)));
  byId("v-file").href = address("../masks", row, ".png");
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
const asked = location.hash.slice(1);
if (asked) view(shown.findIndex((row) => row.link === asked));
</script>
</body>
</html>
"""
