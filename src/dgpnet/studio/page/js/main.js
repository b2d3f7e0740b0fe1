/** Puts the page together. */

import { listenToKeys, makeActions } from "./actions.js";
import { Settings } from "./settings.js";
import { Stage } from "./stage/stage.js";
import { Studio } from "./studio.js";
import { texts } from "./texts.js";
import { h, hideTipsWhenPressed, icon, loadIcons } from "./ui/dom.js";
import { makeHud } from "./ui/hud.js";
import { makeNotices } from "./ui/notices.js";
import { makeOptions } from "./ui/options.js";
import { makeRail } from "./ui/rail.js";
import { makeShortcuts } from "./ui/shortcuts.js";
import { makeSide } from "./ui/side.js";
import { Strip } from "./ui/strip.js";
import { makeTop } from "./ui/top.js";

const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

async function start() {
  const studio = new Studio();
  const settings = new Settings();
  const stage = new Stage(element("stage"), studio, settings);
  const strip = new Strip(element("strip"), { studio, settings });
  const shortcuts = makeShortcuts(element("stage"));
  const page = { studio, settings, stage, strip, shortcuts };
  const side = makeSide(element("side"), page);
  makeTop(element("top"), page);
  makeRail(element("rail"), page);
  makeOptions(element("options"), page);
  makeHud(element("stage"), page);
  makeNotices(element("stage"), page);
  const actions = makeActions({ ...page, side });
  listenToKeys(actions, stage);
  hideTipsWhenPressed();
  shortcuts.list(actions);
  // For tests and for the curious; nothing in the page uses it.
  Object.assign(window, { dgpnet: { ...page, side } });
  await begin(studio, strip);
}

async function begin(studio, strip) {
  try {
    await studio.start();
  } catch (error) {
    element("stage").append(
      h(
        "div",
        { class: "card" },
        icon("offline"),
        h("h2", {}, texts.lost.title),
        h("p", {}, error?.status ? error.message : texts.lost.start),
      ),
    );
    return;
  }
  for (const note of (studio.project.notes ?? []).slice(0, 3)) studio.notice(note);
  const wanted = decodeURIComponent(location.hash.slice(1)) || undefined;
  await strip.reload(wanted);
  if (strip.index >= 0 && wanted) await strip.goTo(strip.index);
  else if (strip.total) await strip.goTo(0);
  studio.addEventListener("current", () => history.replaceState(null, "", `#${encodeURIComponent(studio.current.id)}`));
  if (studio.current) history.replaceState(null, "", `#${encodeURIComponent(studio.current.id)}`);
}

loadIcons().catch(() => {}); // the page works without
start();
