/** Work in the background: one line with a bar for what runs now. */

import { texts } from "../texts.js";
import { h, iconButton, set } from "./dom.js";

/** Said aloud at most every so many per cent. */
const SAY_EVERY = 25;

export function makeJobs({ studio }) {
  const text = h("span", { class: "job-text" });
  const left = h("span", { class: "job-left" });
  const bar = h(
    "div",
    {
      class: "progress",
      role: "progressbar",
      "aria-label": texts.jobs.label,
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    },
    h("span", {}),
  );
  const cancel = iconButton(
    { icon: "cross", label: texts.jobs.cancel },
    { class: "small", "data-align": "end", "data-side": "top", onclick: () => running && studio.cancelJob(running.id) },
  );
  const root = h("div", { class: "job", hidden: true }, text, bar, left, cancel);
  const status = /** @type {HTMLElement} */ (document.getElementById("status"));
  let running = null;
  let said = "";
  const show = () => {
    const active = [...studio.jobs.values()].filter((job) => ["queued", "running"].includes(job.state));
    const before = running;
    running = active.find((job) => job.state === "running") ?? active[0] ?? null;
    root.hidden = !running;
    if (!running) {
      if (before) say(texts.jobs.done(kindOf(before)));
      return;
    }
    const known = running.total > 0;
    const share = known ? running.done / running.total : 0;
    text.textContent = known
      ? texts.jobs.progress(kindOf(running), running.done, running.total)
      : `${kindOf(running)} …`;
    left.textContent = running.seconds_left > 1 ? texts.jobs.left(running.seconds_left) : "";
    set(bar, "aria-valuenow", known ? Math.round(100 * share) : null);
    bar.classList.toggle("unknown", !known);
    bar.firstElementChild.style.setProperty("--share", String(share));
    say(`${kindOf(running)} ${SAY_EVERY * Math.floor((100 * share) / SAY_EVERY)} %`);
  };
  const say = (words) => {
    if (words === said) return;
    said = words;
    status.textContent = words;
  };
  studio.addEventListener("job", show);
  show();
  return root;
}

const kindOf = (job) => texts.jobs.kinds[job.kind] ?? job.kind;
