/** Export and import. */

import { texts } from "../texts.js";
import { h, icon, segmented } from "./dom.js";

/** How formats are called where the server gives only a name. */
const TITLES = {
  coco: "COCO",
  labelme: "labelme",
  yolo: "YOLO",
  labelstudio: "Label Studio",
  cvat: "CVAT XML",
  voc: "PASCAL VOC",
  via: "VIA",
  panoptic: "COCO panoptic",
};

export function makeFiles({ studio, settings }) {
  const root = h("div", { class: "files" }, exportBlock(studio), importBlock(studio));
  void settings;
  return root;
}

function exportBlock(studio) {
  const t = texts.files;
  let only = "all";
  const formats = h("fieldset", { class: "choices two" });
  const check = (name, text, on = false) =>
    h("label", { class: "check" }, h("input", { type: "checkbox", name, checked: on }), h("span", {}, text));
  const number = (name, text, value) =>
    h(
      "label",
      { class: "number-field" },
      h("span", {}, text),
      h("input", { type: "number", name, class: "field", min: 0, max: 1000000, step: 1, value }),
    );
  const more = h(
    "details",
    { class: "more" },
    h("summary", {}, t.more),
    h(
      "div",
      { class: "choices" },
      check("overlay", t.overlay),
      check("uncertainty", t.uncertainty),
      check("instances", t.instances),
      check("polygons", t.polygons),
      number("simplify", t.simplify, 0),
      number("min_area", t.minArea, 0),
    ),
  );
  const button = h("button", { class: "button primary wide", id: "export" }, icon("download"), h("span", {}, t.button));
  const result = h("div", { class: "result", role: "status" });
  const form = h(
    "form",
    { onsubmit: (event) => (event.preventDefault(), start()) },
    formats,
    h(
      "div",
      { class: "field-row" },
      h("span", { class: "option-name" }, t.which),
      segmented(t.which, Object.entries(t.only), only, (value) => (only = value)),
    ),
    more,
    button,
    result,
  );
  let job = null;
  const start = async () => {
    const data = new FormData(form);
    const chosen = [...formats.querySelectorAll("input:checked")].map((input) => input.value);
    const flag = (name) => data.get(name) === "on";
    button.disabled = true;
    result.replaceChildren(h("p", { class: "soft" }, t.working));
    const made = await studio.exportFiles({
      formats: chosen,
      only,
      overlay: flag("overlay"),
      uncertainty: flag("uncertainty"),
      instances: flag("instances"),
      polygons: flag("polygons"),
      simplify: Number(data.get("simplify")) || 0,
      min_area: Number(data.get("min_area")) || 0,
    });
    job = made?.id ?? null;
    if (made) show();
    else {
      button.disabled = false;
      result.replaceChildren();
    }
  };
  const show = () => {
    const now = job && studio.jobs.get(job);
    if (!now) return;
    const busy = ["queued", "running"].includes(now.state);
    button.disabled = busy;
    if (busy)
      return result.replaceChildren(
        h(
          "p",
          { class: "soft" },
          now.total ? texts.jobs.progress(texts.jobs.kinds.export, now.done, now.total) : t.working,
        ),
      );
    if (now.state !== "done") return result.replaceChildren(h("p", { class: "problem" }, now.detail || t.failed));
    const { download, files, bytes, folder } = now.result ?? {};
    const about = files ? t.done(files, bytes) : t.ready;
    result.replaceChildren(
      h("p", {}, about),
      folder ? h("p", { class: "soft path" }, folder) : "",
      download
        ? h("a", { class: "button wide", href: download, download: "", id: "download" }, icon("download"), t.download)
        : "",
    );
  };
  const fill = () => {
    const all = (studio.project?.formats ?? []).map((one) =>
      typeof one === "string" ? { name: one, title: TITLES[one] ?? one } : one,
    );
    const wanted = all.filter(({ name }) => name !== "png");
    const before = new Set([...formats.querySelectorAll("input:checked")].map((input) => input.value));
    formats.replaceChildren(
      h("legend", { class: "option-name" }, t.formats),
      ...wanted.map(({ name, title }) =>
        h(
          "label",
          { class: "check" },
          h("input", { type: "checkbox", value: name, checked: before.has(name) }),
          h("span", {}, title),
        ),
      ),
    );
  };
  studio.addEventListener("project", fill);
  studio.addEventListener("job", show);
  return h("section", { class: "block" }, h("h2", {}, t.exportTitle), h("p", { class: "soft" }, t.exportTold), form);
}

function importBlock(studio) {
  const t = texts.files;
  const result = h("div", { class: "result", role: "status" });
  const input = h("input", { type: "file", id: "import", class: "unseen", accept: ".zip,.json,.xml,.txt,.csv,.png" });
  const zone = h(
    "label",
    { class: "drop", for: "import" },
    icon("upload"),
    h("span", { class: "drop-main" }, t.choose),
    h("span", { class: "soft" }, t.drop),
  );
  let job = null;
  const take = async (file) => {
    if (!file) return;
    result.replaceChildren(h("p", { class: "soft" }, t.importing(file.name)));
    const made = await studio.importFile(file);
    job = made?.id ?? null;
    if (made) show();
    else result.replaceChildren();
    input.value = "";
  };
  input.addEventListener("change", () => take(input.files?.[0]));
  zone.addEventListener("dragover", (event) => (event.preventDefault(), zone.classList.add("over")));
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer?.files[0]);
  });
  const show = () => {
    const now = job && studio.jobs.get(job);
    if (!now || ["queued", "running"].includes(now.state)) return;
    if (now.state !== "done") return result.replaceChildren(h("p", { class: "problem" }, now.detail));
    const { examples = 0, notes = [], unmatched = [] } = now.result ?? {};
    const lines = [...notes, ...(unmatched.length ? [t.unmatched(unmatched.length)] : [])];
    result.replaceChildren(
      h("p", {}, t.imported(examples)),
      lines.length
        ? h(
            "ul",
            { class: "notes" },
            lines.map((line) => h("li", {}, line)),
          )
        : "",
    );
    job = null;
    studio.resynchronise();
  };
  studio.addEventListener("job", show);
  return h(
    "section",
    { class: "block" },
    h("h2", {}, t.importTitle),
    h("p", { class: "soft" }, t.importTold),
    input,
    zone,
    result,
  );
}
