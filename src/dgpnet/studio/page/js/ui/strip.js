/**
 * The film strip: thousands of photographs with a few dozen elements. Pages of the list are fetched as they come into
 * sight; thumbnails a moment later, so that scrolling past asks for nothing.
 */

import { grade } from "../core/figures.js";
import { pagesOf, scrollTo, windowOf } from "../core/strip.js";
import { address, get, ofPhotograph } from "../net/api.js";
import { texts } from "../texts.js";
import { h, icon, iconButton, oncePerFrame, setIcon } from "./dom.js";
import { makeJobs } from "./jobs.js";

const PAGE = 100;
const CELL = 124;
const THUMBNAIL = 160;
/** A cell has to stay in sight for so long before its pictures are asked for, in milliseconds. */
const REST = 70;

export class Strip {
  /** @param {HTMLElement} root */
  constructor(root, { studio, settings }) {
    this.studio = studio;
    this.settings = settings;
    this.query = { sort: "name", state: null, class: null, folder: null, query: null };
    this.total = 0;
    /** @type {Map<number, string[]>} page -> ids */
    this.pages = new Map();
    this.asked = new Set();
    /** Lists that were asked for before the order changed are not taken. */
    this.turnNumber = 0;
    /** Index of the open photograph in this order; -1 where it is filtered out. */
    this.index = -1;
    this.aimed = -1;
    /** @type {Map<number, any>} index -> cell */
    this.cells = new Map();
    this.spare = [];
    this.#build(root);
    this.#listen();
  }

  #build(root) {
    root.setAttribute("aria-label", texts.strip.label);
    const t = texts.strip;
    const select = (name, label, entries) =>
      h(
        "select",
        {
          class: "field",
          id: `strip-${name}`,
          "aria-label": label,
          onchange: (event) => this.#filter(name, event.target.value),
        },
        entries.map(([value, text]) => h("option", { value }, text)),
      );
    this.state = select("state", t.state, Object.entries(t.states));
    this.sort = select("sort", t.sort, Object.entries(t.sorts));
    this.classes = select("class", t.class, [["", t.anyClass]]);
    this.folder = select("folder", t.folder, [["", t.allFolders]]);
    this.search = h("input", {
      type: "search",
      class: "field",
      id: "strip-search",
      "aria-label": t.search,
      placeholder: t.search,
    });
    let timer = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#filter("query", this.search.value.trim()), 180);
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" || event.key === "Enter") this.list.focus();
    });
    this.count = h("span", { class: "strip-count", role: "status" });
    this.again = h(
      "button",
      {
        type: "button",
        class: "button small-button",
        hidden: true,
        "data-tip": t.reorderTip,
        "data-side": "top",
        onclick: () => this.reload(),
      },
      icon("sort"),
      t.reorder,
    );
    this.sizer = h("div", { class: "strip-sizer" });
    this.none = h(
      "div",
      { class: "strip-none", hidden: true },
      t.none,
      h("button", { type: "button", class: "button", onclick: () => this.showAll() }, t.clear),
    );
    this.list = h(
      "div",
      { class: "strip-list", role: "listbox", tabindex: "0", "aria-label": t.label, "aria-orientation": "horizontal" },
      this.sizer,
    );
    root.append(
      h(
        "div",
        { class: "strip-bar" },
        h("div", { class: "search" }, icon("search"), this.search),
        this.state,
        this.classes,
        this.folder,
        this.sort,
        this.again,
        this.count,
        makeJobs({ studio: this.studio }),
      ),
      h("div", { class: "strip-body" }, this.list, this.none),
    );
  }

  #listen() {
    const { studio } = this;
    const draw = oncePerFrame(() => this.#draw());
    this.list.addEventListener("scroll", draw, { passive: true });
    new ResizeObserver(draw).observe(this.list);
    this.list.addEventListener(
      "wheel",
      (event) => {
        // A wheel goes up and down, the strip from left to right.
        if (Math.abs(event.deltaY) <= Math.abs(event.deltaX)) return;
        event.preventDefault();
        this.list.scrollLeft += event.deltaY * (event.deltaMode === 1 ? 24 : 1);
      },
      { passive: false },
    );
    this.list.addEventListener("click", (event) => {
      const cell = event.target.closest?.(".cell");
      if (cell) this.goTo(Number(cell.dataset.index));
    });
    this.list.addEventListener("keydown", (event) => this.#key(event));
    studio.addEventListener("photograph", (event) => this.#changed(event.detail));
    studio.addEventListener("current", () => this.#mark());
    studio.addEventListener("order", () => this.reload());
    studio.addEventListener("project", () => this.#choices());
    studio.addEventListener("classes", () => this.#choices());
    studio.neighbours = () => this.#neighbours();
  }

  // -- the list -------------------------------------------------------------------------------------------------------

  /** @param {string} [find] stay at this photograph */
  async reload(find = this.studio.current?.id) {
    const turn = ++this.turnNumber;
    const query = { ...this.query, offset: 0, limit: PAGE, find: find ?? null };
    const answer = await this.studio.attempt(() => get("photographs", query));
    if (!answer || turn !== this.turnNumber) return;
    this.again.hidden = true;
    this.pages.clear();
    this.asked.clear();
    this.asked.add(0);
    this.#take(0, answer);
    for (const cell of this.cells.values()) this.#drop(cell);
    this.cells.clear();
    this.index = answer.position ?? -1;
    this.aimed = this.index;
    if (this.index >= 0) this.#reveal(this.index);
    else this.list.scrollLeft = 0;
    this.#draw();
    this.studio.tell("list");
  }

  #take(page, { total, items }) {
    this.total = total;
    this.pages.set(
      page,
      items.map((item) => this.studio.know(item).id),
    );
    this.sizer.style.setProperty("--wide", `${total * CELL}px`);
    this.none.hidden = total > 0 || !this.studio.project?.photographs.total;
    this.count.textContent = texts.strip.count(total);
  }

  async #fetch(page) {
    if (this.asked.has(page)) return;
    this.asked.add(page);
    const turn = this.turnNumber;
    try {
      const answer = await get("photographs", { ...this.query, offset: page * PAGE, limit: PAGE });
      if (turn !== this.turnNumber) return;
      this.#take(page, answer);
      this.#draw();
    } catch {
      setTimeout(() => this.asked.delete(page), 1000);
    }
  }

  /** @param {number} index @returns {string | undefined} */
  idAt(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  #filter(name, value) {
    this.query[name] = value === "" || (name === "state" && value === "all") ? null : value;
    if (name === "sort") this.query.sort = value;
    this.reload();
  }

  /** @param {string} sort */
  sortBy(sort) {
    this.sort.value = sort;
    this.#filter("sort", sort);
    this.list.focus();
  }

  showAll() {
    this.query = { sort: this.query.sort, state: null, class: null, folder: null, query: null };
    this.state.value = "all";
    this.classes.value = this.folder.value = this.search.value = "";
    return this.reload();
  }

  #choices() {
    const { project, classes } = this.studio;
    const fill = (select, entries) => {
      const key = entries.map((entry) => entry.join()).join("|");
      if (select.dataset.key === key) return;
      select.dataset.key = key;
      const value = select.value;
      select.replaceChildren(...entries.map(([each, text]) => h("option", { value: each }, text)));
      select.value = entries.some(([each]) => String(each) === value) ? value : entries[0][0];
    };
    fill(this.classes, [["", texts.strip.anyClass], ...classes.map((one) => [one.value, one.name])]);
    this.classes.hidden = classes.length < 2;
    const folders = (project?.folders ?? []).filter(({ name }) => name);
    fill(this.folder, [
      ["", texts.strip.allFolders],
      ...folders.map(({ name, photographs }) => [name, `${name} (${photographs})`]),
    ]);
    this.folder.hidden = !folders.length;
    const sorts = [...this.sort.options].find((option) => option.value === "presence");
    if (sorts) sorts.hidden = !project?.can?.presence;
  }

  // -- going to photographs -------------------------------------------------------------------------------------------

  /** @returns {{place: number, total: number} | null} */
  place() {
    return this.index >= 0 ? { place: this.index + 1, total: this.total } : null;
  }

  /** @param {number} by */
  turn(by) {
    const from = this.aimed >= 0 ? this.aimed : by > 0 ? -1 : 0;
    return this.goTo(Math.max(0, Math.min(this.total - 1, from + by)));
  }

  /** @param {number} index */
  async goTo(index) {
    if (index < 0 || index >= this.total) return;
    this.aimed = index;
    this.#reveal(index);
    const turn = this.turnNumber;
    if (!this.idAt(index)) await this.#fetch(Math.floor(index / PAGE));
    const id = this.idAt(index);
    if (!id || this.aimed !== index || turn !== this.turnNumber) return;
    this.index = index;
    await this.studio.attempt(() => this.studio.open(id));
    this.studio.tell("list");
  }

  /** @param {string} id wherever it is in the order; the filter is lifted where it hides it */
  async go(id) {
    const find = () => get("photographs", { ...this.query, offset: 0, limit: 1, find: id });
    let answer = await this.studio.attempt(find);
    if (answer && (answer.position === null || answer.position === undefined)) {
      await this.showAll();
      answer = await this.studio.attempt(find);
    }
    if (answer?.position >= 0) await this.goTo(answer.position);
  }

  async whatNext() {
    const suggestion = await this.studio.next();
    if (!suggestion) return;
    if (!suggestion.photograph) return this.studio.notice(suggestion.reason || texts.suggestion.none);
    await this.go(suggestion.photograph.id);
    if (suggestion.reason) this.studio.notice(texts.suggestion.why(suggestion.reason));
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.list.clientWidth / CELL) - 1);
    const to = {
      ArrowLeft: this.aimed - 1,
      ArrowRight: this.aimed + 1,
      PageUp: this.aimed - page,
      PageDown: this.aimed + page,
      Home: 0,
      End: this.total - 1,
    }[event.key];
    if (to === undefined || event.shiftKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    this.goTo(Math.max(0, Math.min(this.total - 1, to)));
  }

  #reveal(index) {
    const { scrollLeft, clientWidth } = this.list;
    const left = scrollTo(index, scrollLeft, clientWidth, CELL);
    if (left !== scrollLeft) this.list.scrollLeft = left;
  }

  /** What is worth having next, in order: the next ones, then the rest of what can be seen. */
  #neighbours() {
    const { first, last } = windowOf(this.list.scrollLeft, this.list.clientWidth, CELL, this.total, 0);
    const order = [this.index + 1, this.index - 1, this.index + 2];
    for (let i = first; i < last; i++) order.push(i);
    return [...new Set(order)]
      .filter((i) => i >= 0)
      .map((i) => this.idAt(i))
      .filter((id) => id && id !== this.studio.current?.id);
  }

  // -- cells ----------------------------------------------------------------------------------------------------------

  #draw() {
    const { first, last } = windowOf(this.list.scrollLeft, this.list.clientWidth, CELL, this.total);
    for (const page of pagesOf(first, last, PAGE)) this.#fetch(page);
    for (const [index, cell] of this.cells) {
      if (index >= first && index < last) continue;
      this.cells.delete(index);
      this.#drop(cell);
    }
    for (let index = first; index < last; index++) {
      const id = this.idAt(index);
      let cell = this.cells.get(index);
      if (!cell) {
        cell = this.spare.pop() ?? this.#makeCell();
        this.cells.set(index, cell);
        cell.root.style.transform = `translateX(${index * CELL}px)`;
        cell.root.dataset.index = String(index);
        cell.root.hidden = false;
        if (!cell.root.isConnected) this.sizer.append(cell.root);
      }
      if (id && cell.id !== id) this.#fill(cell, index, id);
    }
    this.#mark();
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.#rested(), REST);
  }

  #makeCell() {
    const image = h("img", { alt: "", decoding: "async", draggable: "false" });
    const overlay = h("img", { alt: "", decoding: "async", draggable: "false", class: "overlay" });
    for (const each of [image, overlay]) {
      each.addEventListener("load", () => each.classList.add("loaded"));
      each.addEventListener("error", () => each.removeAttribute("src"));
    }
    const mark = icon("brush");
    const score = h("span", { class: "cell-score" });
    const name = h("span", { class: "cell-name" });
    const folder = h("span", { class: "cell-folder" });
    const details = h("span", { class: "unseen" });
    const root = h(
      "div",
      { class: "cell", role: "option", "aria-selected": "false" },
      h("span", { class: "thumb" }, image, overlay, h("span", { class: "cell-mark" }, mark), folder, score),
      name,
      details,
    );
    return { root, image, overlay, mark, score, name, folder, details, id: null, shown: "" };
  }

  #drop(cell) {
    cell.root.hidden = true;
    cell.id = null;
    cell.shown = "";
    for (const each of [cell.image, cell.overlay]) {
      each.removeAttribute("src");
      each.classList.remove("loaded");
    }
    this.spare.push(cell);
  }

  #fill(cell, index, id) {
    cell.id = id;
    const photograph = this.studio.photographs.get(id);
    if (!photograph) return;
    cell.root.id = `cell-${index}`;
    this.#describe(cell, index, photograph);
  }

  #describe(cell, index, photograph) {
    const { name, state, review, score } = photograph;
    const cut = name.lastIndexOf("/") + 1;
    const { root } = cell;
    cell.details.textContent = texts.strip.cell(photograph, index + 1, this.total);
    root.setAttribute("aria-posinset", String(index + 1));
    root.setAttribute("aria-setsize", String(this.total));
    root.title = name;
    root.dataset.state = state;
    root.dataset.review = review;
    const picture =
      state === "broken"
        ? "warning"
        : review === "accepted"
          ? "check"
          : review === "rejected"
            ? "cross"
            : state === "painted"
              ? "brush"
              : "";
    cell.mark.parentElement.hidden = !picture;
    if (picture) setIcon(cell.mark, picture);
    cell.name.textContent = name.slice(cut);
    const before = index ? this.studio.photographs.get(this.idAt(index - 1) ?? "")?.name : undefined;
    const starts = this.query.sort === "name" && cut > 0 && before?.slice(0, cut) !== name.slice(0, cut);
    cell.folder.hidden = !starts;
    cell.folder.textContent = starts ? name.slice(0, cut - 1) : "";
    const scored = state === "found" && score !== null && score !== undefined;
    cell.score.hidden = !scored;
    if (scored) {
      cell.score.style.setProperty("--share", String(score));
      cell.score.dataset.grade = grade(score);
    }
  }

  /** Scrolling has stopped for a moment: pictures are worth asking for. */
  #rested() {
    for (const cell of this.cells.values()) this.#pictures(cell);
    this.studio.visibleChanged();
  }

  #pictures(cell) {
    const photograph = cell.id && this.studio.photographs.get(cell.id);
    if (!photograph || photograph.state === "broken") return;
    const image = address(ofPhotograph(photograph.id, "thumbnail"), { size: THUMBNAIL });
    if (cell.image.getAttribute("src") !== image) cell.image.src = image;
    const etag = photograph.mask?.source && photograph.mask.source !== "none" ? photograph.mask.etag : null;
    if (!etag) {
      cell.overlay.removeAttribute("src");
      cell.overlay.classList.remove("loaded");
      return;
    }
    // Colours are in the address because they are in the picture.
    const colours = this.studio.classes.map((one) => one.colour.slice(1)).join("");
    const overlay = address(ofPhotograph(photograph.id, "overlay"), {
      size: THUMBNAIL,
      v: `${etag.replaceAll('"', "")}.${colours.slice(0, 120)}`,
    });
    if (cell.overlay.getAttribute("src") !== overlay) cell.overlay.src = overlay;
  }

  #changed(photograph) {
    for (const [index, cell] of this.cells) {
      if (cell.id !== photograph.id) continue;
      this.#describe(cell, index, photograph);
      this.#pictures(cell);
    }
    const moves = this.query.sort !== "name" || this.query.state || this.query.class;
    if (moves) this.again.hidden = false;
  }

  #mark() {
    const current = this.studio.current?.id;
    for (const [index, cell] of this.cells) {
      const on = cell.id !== null && cell.id === current;
      cell.root.setAttribute("aria-selected", String(on));
      if (on) this.list.setAttribute("aria-activedescendant", `cell-${index}`);
    }
  }
}
