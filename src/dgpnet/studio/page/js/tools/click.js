/**
 * Click: the server proposes the region of the thing that was clicked. It is shown and not painted; a click on it,
 * Enter or a click on the next thing paints it, Shift adds a place to it, Alt or the right button takes one away.
 */

import { s } from "../ui/dom.js";

export class Click {
  /** @param {import("../stage/stage.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.name = "click";
    this.cursor = "point";
    this.usesRight = true;
    this.fresh = true;
  }

  down(point, event) {
    const { studio, preview, settings } = this.stage;
    const { width, height } = this.stage.photo;
    if (point.x < 0 || point.y < 0 || point.x >= width || point.y >= height) return;
    const place = { x: Math.floor(point.x), y: Math.floor(point.y) };
    const mode = settings.get("click");
    const less = event.altKey || event.button === 2 || mode === "less";
    const more = less || event.shiftKey || mode === "add";
    if (studio.proposals.now && !more) {
      const inside = preview?.holds(point);
      studio.proposals.take(event.ctrlKey || event.metaKey);
      if (inside) return;
    }
    if (less && !studio.proposals.now) return;
    studio.proposals.propose(place, !less, more);
  }

  move() {}

  up() {}

  commit(event) {
    return this.stage.studio.proposals.take(Boolean(event?.ctrlKey));
  }

  escape() {
    return this.stage.studio.proposals.discard();
  }

  cancel() {}

  leave() {
    this.stage.studio.proposals.discard();
  }

  lines(place) {
    const proposal = this.stage.studio.proposals.now;
    if (!proposal) return [];
    return proposal.points.map((point, i) => {
      const { x, y } = place({ x: point.x + 0.5, y: point.y + 0.5 });
      const busy = proposal.busy && i === proposal.points.length - 1;
      return s(
        "g",
        { class: `point ${point.positive ? "positive" : "negative"}${busy ? " busy" : ""}` },
        busy ? s("circle", { cx: x, cy: y, r: 12, class: "pulse" }) : null,
        s("circle", { cx: x, cy: y, r: 6 }),
        s("path", { d: point.positive ? `M${x - 3} ${y}h6M${x} ${y - 3}v6` : `M${x - 3} ${y}h6` }),
      );
    });
  }
}
