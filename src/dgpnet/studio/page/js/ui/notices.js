/** Short words at the edge of the canvas that go away by themselves, and the banner of a lost server. */

import { texts } from "../texts.js";
import { h, icon, iconButton } from "./dom.js";

/** How long a notice stays, in milliseconds; bad news stay longer. */
const STAY = { plain: 5000, good: 3500, bad: 10000 };
/** A server that is back within this time is not worth a word. */
const GRACE = 700;

export function makeNotices(root, { studio }) {
  const list = h("div", { class: "notices", role: "status", "aria-live": "polite" });
  const banner = h("div", { class: "banner", role: "alert", hidden: true });
  root.append(banner, list);
  studio.addEventListener("notice", (event) => {
    const { text, tone, action } = event.detail;
    for (const old of list.children) if (old.dataset.text === text) old.remove();
    const close = () => element.remove();
    const element = h(
      "div",
      { class: `notice ${tone}`, "data-text": text },
      tone === "bad" ? icon("warning") : tone === "good" ? icon("check") : null,
      h("span", {}, text),
      action
        ? h("button", { type: "button", class: "button", onclick: () => (close(), action.run()) }, action.text)
        : null,
      iconButton({ icon: "cross", label: texts.notices.dismiss }, { class: "small", onclick: close }),
    );
    list.append(element);
    while (list.children.length > 3) list.firstElementChild.remove();
    let timer = setTimeout(close, STAY[tone]);
    element.addEventListener("pointerenter", () => clearTimeout(timer));
    element.addEventListener("pointerleave", () => (timer = setTimeout(close, STAY[tone])));
  });
  let timer = 0;
  let said = false;
  const show = () => {
    const count = studio.masks.unsent;
    banner.replaceChildren(
      icon("offline"),
      h("div", {}, h("b", {}, texts.lost.title), h("p", {}, texts.lost.told(count))),
      h("button", { type: "button", class: "button", onclick: () => studio.tryAgain() }, texts.lost.again),
    );
    banner.hidden = false;
    said = true;
  };
  const look = () => {
    const lost = !studio.connected || studio.masks.outbox?.lost;
    if (lost) {
      if (said) show();
      else timer ||= setTimeout(() => ((timer = 0), show()), GRACE);
      return;
    }
    clearTimeout(timer);
    timer = 0;
    banner.hidden = true;
    if (said) studio.notice(texts.lost.back, { tone: "good" });
    said = false;
  };
  for (const type of ["connection", "unsent"]) studio.addEventListener(type, look);
}
