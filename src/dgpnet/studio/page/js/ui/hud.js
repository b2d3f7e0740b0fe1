/**
 * What floats over the canvas: zoom, the time to the new mask, a proposal's buttons, and cards where there is nothing
 * to show.
 */

import { countPixels } from "../core/runs.js";
import { toScreen } from "../core/view.js";
import { address, ofPhotograph } from "../net/api.js";
import { texts } from "../texts.js";
import { h, icon, iconButton } from "./dom.js";

export function makeHud(root, { studio, stage, strip }) {
  const scale = h("button", {
    type: "button",
    class: "zoom-value",
    "data-tip": texts.view.actual,
    "data-side": "top",
    onclick: () => stage.actualSize(),
  });
  const zoom = h(
    "div",
    { class: "hud zoom", hidden: true, role: "group", "aria-label": texts.view.label },
    iconButton(
      { icon: "minus", label: texts.view.zoomOut, key: "-", side: "top" },
      { onclick: () => stage.zoomBy(0.8) },
    ),
    scale,
    iconButton(
      { icon: "plus", label: texts.view.zoomIn, key: "+", side: "top" },
      { onclick: () => stage.zoomBy(1.25) },
    ),
    iconButton(
      { icon: "fit", label: texts.view.fit, key: "0", side: "top" },
      { "data-align": "end", onclick: () => stage.fit() },
    ),
  );
  const timing = h(
    "div",
    { class: "hud timing", hidden: true, "data-tip": texts.view.timingTip, "data-side": "top", "data-align": "start" },
    icon("clock"),
    h("output", { id: "timing" }),
  );
  const offer = h("div", { class: "hud offer", hidden: true });
  const card = h("div", { class: "card", hidden: true });
  const ghost = h("img", { class: "ghost", alt: "", hidden: true });
  root.append(ghost, zoom, timing, offer, card);

  stage.addEventListener("view", () => {
    zoom.hidden = !stage.usable;
    scale.textContent = texts.view.zoom(stage.view.scale / stage.pixelRatio);
    placeOffer();
  });
  studio.addEventListener("current", () => (timing.hidden = true));
  studio.addEventListener("timing", (event) => {
    timing.hidden = false;
    timing.lastElementChild.textContent = texts.view.timing(event.detail);
  });

  const showOffer = () => {
    const proposal = studio.proposals.now;
    const outline = stage.tool.points?.length > 2 && stage.tool.commit && !proposal;
    offer.hidden = !proposal && !outline;
    if (proposal) {
      offer.replaceChildren(
        ...(proposal.busy
          ? [h("span", { class: "soft" }, texts.propose.busy)]
          : [
              h("span", { class: "soft" }, texts.propose.region(countPixels(proposal.patch.runs))),
              h(
                "button",
                {
                  type: "button",
                  class: "button primary",
                  id: "take",
                  onclick: () => (studio.proposals.take(), stage.surface.focus()),
                },
                icon("check"),
                texts.propose.take,
              ),
            ]),
        h(
          "button",
          { type: "button", class: "button", onclick: () => (studio.proposals.discard(), stage.surface.focus()) },
          texts.propose.discard,
        ),
      );
    } else if (outline) {
      offer.replaceChildren(
        h(
          "button",
          { type: "button", class: "button primary", onclick: () => stage.tool.commit({}) },
          icon("check"),
          texts.outline.close,
        ),
        h("button", { type: "button", class: "button", onclick: () => stage.tool.escape() }, texts.outline.cancel),
      );
    }
    placeOffer();
  };
  /** Below what it speaks of, and never off the canvas. */
  const placeOffer = () => {
    if (offer.hidden) return;
    const points = studio.proposals.now ? cornersOf(studio.proposals.now) : (stage.tool.points ?? []);
    if (!points.length) return;
    const ratio = stage.pixelRatio;
    const screen = points
      .map((point) => toScreen(stage.view, point))
      .map(({ x, y }) => ({ x: x / ratio, y: y / ratio }));
    const middle = (Math.min(...screen.map((p) => p.x)) + Math.max(...screen.map((p) => p.x))) / 2;
    const below = Math.max(...screen.map((p) => p.y)) + 14;
    const { width, height } = { width: root.clientWidth, height: root.clientHeight };
    const left = Math.max(8, Math.min(width - offer.offsetWidth - 8, middle - offer.offsetWidth / 2));
    const top = Math.max(8, Math.min(height - offer.offsetHeight - 60, below));
    offer.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  };
  studio.addEventListener("proposal", showOffer);
  stage.addEventListener("outline", showOffer);

  const showCard = () => {
    const document = studio.current;
    const loading = document && !document.ready && !document.problem && document.photograph.state !== "broken";
    ghost.hidden = !loading;
    if (loading) ghost.src = address(ofPhotograph(document.id, "thumbnail"), { size: 160 });
    const content = cardOf(studio, strip);
    card.hidden = !content;
    if (content) card.replaceChildren(...content);
  };
  for (const type of ["project", "current", "document", "list"]) studio.addEventListener(type, showCard);
  showCard();
}

const cornersOf = ({ patch, points }) =>
  patch
    ? [
        { x: patch.x, y: patch.y },
        { x: patch.x + patch.width, y: patch.y + patch.height },
      ]
    : points;

/** What to say where there is no photograph to see. */
function cardOf(studio, strip) {
  const button = (text, run, kind = "button") => h("button", { type: "button", class: kind, onclick: run }, text);
  const { project, current } = studio;
  if (project && !project.photographs.total) {
    const again = async () => {
      await studio.scan();
      if (!studio.project.photographs.total) studio.notice(texts.empty.still);
    };
    return [
      icon("folder"),
      h("h2", {}, texts.empty.title),
      h("p", {}, texts.empty.told(project.folder ?? project.name)),
      button(texts.empty.again, again, "button primary"),
    ];
  }
  const broken = current?.photograph.state === "broken";
  if (!current || (!current.problem && !broken)) return null;
  const why = current.photograph.problem ?? current.problem;
  return [
    icon("warning"),
    h("h2", {}, texts.broken.title),
    why ? h("p", { class: "why" }, why) : null,
    h("p", {}, texts.broken.told),
    h(
      "div",
      { class: "row" },
      button(texts.broken.next, () => strip.turn(1), "button primary"),
      button(texts.broken.again, () => studio.reopen()),
    ),
  ].filter(Boolean);
}
