/**
 * Mouse, pen and fingers on the canvas. One pointer uses the tool, two fingers move and zoom; once a pen was seen,
 * fingers only move the view, so that a resting hand does not paint.
 */

/** A wheel's step is so much larger or smaller. */
const WHEEL = 0.0016;
const PINCH_WHEEL = 0.012;

export class Pointer {
  /** @param {import("./stage.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    /** @type {Map<number, {x: number, y: number}>} fingers, where they are */
    this.fingers = new Map();
    /** @type {{kind: "tool" | "pan", id: number, at: {x: number, y: number}} | null} */
    this.doing = null;
    this.penSeen = false;
    this.space = false;
    /** @type {{x: number, y: number} | null} the last place of mouse or pen, on the screen */
    this.hover = null;
    const element = stage.surface;
    element.addEventListener("pointerdown", (event) => this.#down(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    element.addEventListener("pointerup", (event) => this.#up(event));
    element.addEventListener("pointercancel", (event) => this.#lost(event));
    element.addEventListener("pointerleave", () => this.#left());
    element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    element.addEventListener("contextmenu", (event) => event.preventDefault());
    element.addEventListener("dblclick", (event) => stage.tool.double?.(stage.pointOf(event)));
  }

  /** @param {boolean} held */
  setSpace(held) {
    this.space = held;
    this.stage.showCursor();
  }

  #down(event) {
    const stage = this.stage;
    const at = stage.screenOf(event);
    if (event.pointerType === "pen") this.penSeen = true;
    if (event.pointerType === "touch") {
      this.fingers.set(event.pointerId, at);
      if (this.fingers.size > 1) return this.#pinch();
    }
    if (this.doing) return;
    stage.surface.setPointerCapture(event.pointerId);
    stage.surface.focus({ preventScroll: true });
    const finger = event.pointerType === "touch" && this.penSeen;
    if (event.button === 1 || this.space || finger || stage.tool.name === "hand") {
      event.preventDefault();
      this.doing = { kind: "pan", id: event.pointerId, at };
    } else if (event.button === 0 || event.button === 5 || (event.button === 2 && stage.tool.usesRight)) {
      if (!stage.usable) return;
      this.doing = { kind: "tool", id: event.pointerId, at };
      stage.tool.down(stage.pointOf(event), event);
    }
    stage.showCursor();
  }

  #move(event) {
    const stage = this.stage;
    const at = stage.screenOf(event);
    if (event.pointerType !== "touch" || this.doing?.kind === "tool") this.hover = at;
    if (this.fingers.has(event.pointerId) && this.fingers.size > 1) return this.#pinched(event.pointerId, at);
    if (this.doing && this.doing.id === event.pointerId) {
      if (this.doing.kind === "pan") {
        stage.panBy(at.x - this.doing.at.x, at.y - this.doing.at.y);
        this.doing.at = at;
      } else {
        const all = event.getCoalescedEvents?.() ?? [];
        stage.tool.move(
          (all.length ? all : [event]).map((one) => stage.pointOf(one)),
          event,
        );
      }
    } else if (!this.doing) {
      stage.tool.hover?.(stage.pointOf(event), event);
    }
    stage.showCursor(event);
  }

  #up(event) {
    this.fingers.delete(event.pointerId);
    if (event.pointerType === "touch") this.hover = null;
    const doing = this.doing;
    if (doing?.id !== event.pointerId) return;
    this.doing = null;
    if (doing.kind === "tool") this.stage.tool.up(this.stage.pointOf(event), event);
    this.stage.showCursor(event);
  }

  #lost(event) {
    this.fingers.delete(event.pointerId);
    if (this.doing?.id !== event.pointerId) return;
    if (this.doing.kind === "tool") this.stage.tool.cancel();
    this.doing = null;
  }

  #left() {
    if (this.doing) return;
    this.hover = null;
    this.stage.showCursor();
  }

  /** The second finger comes down: whatever the first began was meant as a pinch. */
  #pinch() {
    if (this.doing?.kind === "tool") this.stage.tool.cancel();
    this.doing = null;
    this.hover = null;
    this.stage.showCursor();
  }

  #pinched(id, at) {
    const before = [...this.fingers.values()];
    this.fingers.set(id, at);
    const after = [...this.fingers.values()];
    const [from, to] = [spread(before), spread(after)];
    this.stage.panBy(to.x - from.x, to.y - from.y);
    if (from.distance > 0 && to.distance > 0) this.stage.zoomBy(to.distance / from.distance, to);
  }

  #wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 24 : event.deltaMode === 2 ? 400 : 1;
    const amount = Math.max(-240, Math.min(240, event.deltaY * unit));
    this.stage.zoomBy(Math.exp(-amount * (event.ctrlKey ? PINCH_WHEEL : WHEEL)), this.stage.screenOf(event));
  }
}

/** The middle of two fingers, and how far they are apart. */
function spread([a, b]) {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, distance: Math.hypot(a.x - b.x, a.y - b.y) };
}
